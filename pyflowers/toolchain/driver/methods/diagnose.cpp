// `diagnose`: the model's gradient against finite differences.

#include <stan/services/diagnose/diagnose.hpp>

#include "methods/methods.hpp"

namespace pyflowers {

int run_method(Run& run, const DiagnoseOptions& options) {
  return stan::services::diagnose::diagnose(
      run.model, *run.start.contexts.front(), run.options.seed, run.options.id, run.start.radius,
      options.epsilon, options.error, run.interrupt, run.logger, run.init_writers.front(),
      run.outputs.draws.front());
}

}  // namespace pyflowers
