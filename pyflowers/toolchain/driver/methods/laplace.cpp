// `laplace`: draws from the normal distribution whose mean is the mode and whose precision is the
// negative Hessian there.

#include <stan/math/rev/functor/finite_diff_hessian_auto.hpp>
#include <stan/services/optimize/laplace_sample.hpp>

#include "errors.hpp"
#include "methods/fitted.hpp"
#include "methods/methods.hpp"

namespace pyflowers {
namespace {

template <bool jacobian>
int sample(Run& run, const LaplaceOptions& options, const Eigen::VectorXd& mode) {
  return stan::services::laplace_sample<jacobian>(
      run.model, mode, options.draws, options.calculate_lp, run.options.seed,
      run.options.output.refresh, run.interrupt, run.logger, run.outputs.draws.front(),
      run.outputs.json_diagnostics.front());
}

}  // namespace

int run_method(Run& run, const LaplaceOptions& options) {
  const std::vector<double> values = read_mode(options.mode_file, run.model);
  const Eigen::VectorXd mode =
      Eigen::Map<const Eigen::VectorXd>(values.data(), static_cast<Eigen::Index>(values.size()));
  return options.jacobian ? sample<true>(run, options, mode) : sample<false>(run, options, mode);
}

}  // namespace pyflowers
