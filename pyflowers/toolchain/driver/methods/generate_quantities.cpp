// `generate_quantities`: the generated quantities block on draws of an earlier fit.
//
// Stan 2.35's service for several chains writes the parameters in the place of the generated
// quantities. Therefore the chains are run one by one, as Stan's service for a single chain runs
// them. The random numbers depend on (seed, chain), so the output of chain 1 is that of a run on
// this chain alone.

#include <exception>
#include <stan/services/util/create_rng.hpp>
#include <stan/services/util/gq_writer.hpp>

#include "errors.hpp"
#include "methods/fitted.hpp"
#include "methods/methods.hpp"

namespace pyflowers {
namespace {

// The number of constrained parameters, which come before the quantities in the model's output.
std::size_t count_parameters(const stan::model::model_base& model) {
  std::vector<std::string> parameters, with_quantities;
  model.constrained_param_names(parameters, false, false);
  model.constrained_param_names(with_quantities, false, true);
  if (parameters.size() < with_quantities.size()) return parameters.size();
  throw DriverError(ExitCode::config,
                    "Model doesn't generate any quantities of interest: " + model.model_name() +
                        " has no generated quantities; add that block to it.");
}

void generate_chain(Run& run, const Eigen::MatrixXd& draws, std::size_t chain) {
  const std::size_t num_parameters = count_parameters(run.model);
  stan::services::util::gq_writer writer(run.outputs.draws[chain], run.logger,
                                         static_cast<int>(num_parameters));
  stan::rng_t rng =
      stan::services::util::create_rng(run.options.seed, static_cast<unsigned int>(chain) + 1);
  writer.write_gq_names(run.model);
  std::vector<double> parameters(num_parameters);
  Point point;
  for (Eigen::Index draw = 0; draw < draws.rows(); ++draw) {
    for (std::size_t i = 0; i < num_parameters; ++i) {
      parameters[i] = draws(draw, static_cast<Eigen::Index>(i));
    }
    std::stringstream messages;
    try {
      run.model.unconstrain_array(parameters, point, &messages);
    } catch (const std::exception& error) {
      throw DriverError(ExitCode::bad_input, "fitted_params, chain " + std::to_string(chain + 1) +
                                                 ", draw " + std::to_string(draw + 1) +
                                                 " does not fit the model: " + error.what());
    }
    writer.write_gq_values(run.model, rng, point);
  }
}

}  // namespace

int run_method(Run& run, const GenerateQuantitiesOptions& options) {
  const auto chains = read_draws(options.fitted_params_file, options.num_chains, run);
  for (std::size_t chain = 0; chain < chains.size(); ++chain) {
    generate_chain(run, chains[chain], chain);
  }
  return 0;
}

}  // namespace pyflowers
