// `log_prob`: the log density and its gradient at given parameters, one line for each point.

#include <exception>
#include <stan/model/log_prob_grad.hpp>

#include "methods/fitted.hpp"
#include "methods/methods.hpp"

namespace pyflowers {
namespace {

std::vector<std::string> column_names(const stan::model::model_base& model) {
  std::vector<std::string> names;
  model.unconstrained_param_names(names, false, false);
  std::vector<std::string> columns = {"lp__"};
  for (const std::string& name : names) columns.push_back("g_" + name);
  return columns;
}

template <bool jacobian>
void write_densities(Run& run, std::vector<std::vector<double>>& points) {
  CsvWriter& writer = run.outputs.draws.front();
  std::vector<int> no_integers;
  std::vector<double> gradient;
  writer(column_names(run.model));
  for (std::vector<double>& point : points) {
    std::vector<double> row = {
        stan::model::log_prob_grad<true, jacobian>(run.model, point, no_integers, gradient)};
    row.insert(row.end(), gradient.begin(), gradient.end());
    writer(row);
  }
}

}  // namespace

int run_method(Run& run, const LogProbOptions& options) {
  auto points = options.unconstrained_file.empty()
                    ? read_constrained(options.constrained_file, run.model)
                    : read_unconstrained(options.unconstrained_file, run.model);
  if (options.jacobian) {
    write_densities<true>(run, points);
  } else {
    write_densities<false>(run, points);
  }
  return 0;
}

}  // namespace pyflowers
