// `pathfinder`: one path, or several whose draws are resampled by importance.

#include <boost/range/iterator_range.hpp>
#include <stan/services/pathfinder/multi.hpp>
#include <stan/services/pathfinder/single.hpp>

#include "errors.hpp"
#include "methods/methods.hpp"

namespace pyflowers {
namespace {

using Model = stan::model::model_base;
namespace services = stan::services::pathfinder;

int single_path(Run& run, const PathfinderOptions& options) {
  const RunOptions& common = run.options;
  const BfgsOptions& stop = options.bfgs;
  const bool save = options.save_single_paths || !common.output.diagnostic_file.empty();
  return services::pathfinder_lbfgs_single<false, Model>(
      run.model, *run.start.contexts.front(), common.seed, common.id, run.start.radius,
      stop.history_size, stop.init_alpha, stop.tol_obj, stop.tol_rel_obj, stop.tol_grad,
      stop.tol_rel_grad, stop.tol_param, options.max_lbfgs_iters, options.num_elbo_draws,
      options.num_draws, save, common.output.refresh, run.interrupt, run.logger,
      run.init_writers.front(), run.outputs.draws.front(), run.outputs.json_diagnostics.front(),
      options.calculate_lp);
}

int several_paths(Run& run, const PathfinderOptions& options) {
  const RunOptions& common = run.options;
  const BfgsOptions& stop = options.bfgs;
  JsonWriter no_summary;
  return services::pathfinder_lbfgs_multi<Model>(
      run.model, run.start.contexts, common.seed, common.id, run.start.radius, stop.history_size,
      stop.init_alpha, stop.tol_obj, stop.tol_rel_obj, stop.tol_grad, stop.tol_rel_grad,
      stop.tol_param, options.max_lbfgs_iters, options.num_elbo_draws, options.num_draws,
      options.num_psis_draws, options.num_paths, options.save_single_paths, common.output.refresh,
      run.interrupt, run.logger, run.init_writers, run.outputs.draws, run.outputs.json_diagnostics,
      run.outputs.combined, no_summary, options.calculate_lp, options.psis_resample);
}

}  // namespace

int run_method(Run& run, const PathfinderOptions& options) {
  if (run.model.num_params_r() == 0) {
    throw DriverError(ExitCode::config, run.model.model_name() +
                                            " has no parameters for Pathfinder to approximate; "
                                            "use sample algorithm=fixed_param.");
  }
  const double available = static_cast<double>(options.num_draws) * options.num_paths;
  if (options.num_psis_draws > available) {
    run.logger.warn(
        "Warning: num_psis_draws is larger than num_draws times num_paths, so that resampling must "
        "repeat draws; raise num_draws.");
  }
  return options.num_paths == 1 ? single_path(run, options) : several_paths(run, options);
}

}  // namespace pyflowers
