// `optimize`: the mode, of the posterior of constrained parameters or, with jacobian=1, of
// unconstrained ones.

#include <stan/services/optimize/bfgs.hpp>
#include <stan/services/optimize/lbfgs.hpp>
#include <stan/services/optimize/newton.hpp>

#include "methods/methods.hpp"

namespace pyflowers {
namespace {

using Model = stan::model::model_base;
namespace services = stan::services::optimize;

template <bool jacobian>
int newton(Run& run, const OptimizeOptions& options) {
  return services::newton<Model, jacobian>(run.model, *run.start.contexts.front(), run.options.seed,
                                           run.options.id, run.start.radius, options.iter,
                                           options.save_iterations, run.interrupt, run.logger,
                                           run.init_writers.front(), run.outputs.draws.front());
}

template <bool jacobian>
int bfgs(Run& run, const OptimizeOptions& options) {
  const BfgsOptions& stop = options.bfgs;
  return services::bfgs<Model, jacobian>(
      run.model, *run.start.contexts.front(), run.options.seed, run.options.id, run.start.radius,
      stop.init_alpha, stop.tol_obj, stop.tol_rel_obj, stop.tol_grad, stop.tol_rel_grad,
      stop.tol_param, options.iter, options.save_iterations, run.options.output.refresh,
      run.interrupt, run.logger, run.init_writers.front(), run.outputs.draws.front());
}

template <bool jacobian>
int lbfgs(Run& run, const OptimizeOptions& options) {
  const BfgsOptions& stop = options.bfgs;
  return services::lbfgs<Model, jacobian>(
      run.model, *run.start.contexts.front(), run.options.seed, run.options.id, run.start.radius,
      stop.history_size, stop.init_alpha, stop.tol_obj, stop.tol_rel_obj, stop.tol_grad,
      stop.tol_rel_grad, stop.tol_param, options.iter, options.save_iterations,
      run.options.output.refresh, run.interrupt, run.logger, run.init_writers.front(),
      run.outputs.draws.front());
}

template <bool jacobian>
int optimize(Run& run, const OptimizeOptions& options) {
  switch (options.algorithm) {
    case Optimizer::bfgs:
      return bfgs<jacobian>(run, options);
    case Optimizer::lbfgs:
      return lbfgs<jacobian>(run, options);
    case Optimizer::newton:
      return newton<jacobian>(run, options);
  }
  throw std::logic_error("unknown optimizer");
}

}  // namespace

int run_method(Run& run, const OptimizeOptions& options) {
  return options.jacobian ? optimize<true>(run, options) : optimize<false>(run, options);
}

}  // namespace pyflowers
