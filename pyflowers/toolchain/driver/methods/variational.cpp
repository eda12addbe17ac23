// `variational`: automatic differentiation variational inference.

#include <stan/services/experimental/advi/fullrank.hpp>
#include <stan/services/experimental/advi/meanfield.hpp>
#include <utility>

#include "methods/methods.hpp"

namespace pyflowers {
namespace {

// Both families take the same arguments.
template <typename Service>
int call_advi(Run& run, const VariationalOptions& options, Service service) {
  return service(run.model, *run.start.contexts.front(), run.options.seed, run.options.id,
                 run.start.radius, options.grad_samples, options.elbo_samples, options.iter,
                 options.tol_rel_obj, options.eta, options.adapt_engaged, options.adapt_iter,
                 options.eval_elbo, options.output_samples, run.interrupt, run.logger,
                 run.init_writers.front(), run.outputs.draws.front(),
                 run.outputs.csv_diagnostics.front());
}

}  // namespace

int run_method(Run& run, const VariationalOptions& options) {
  namespace services = stan::services::experimental::advi;
  if (options.fullrank) {
    return call_advi(run, options, [](auto&&... arguments) {
      return services::fullrank(std::forward<decltype(arguments)>(arguments)...);
    });
  }
  return call_advi(run, options, [](auto&&... arguments) {
    return services::meanfield(std::forward<decltype(arguments)>(arguments)...);
  });
}

}  // namespace pyflowers
