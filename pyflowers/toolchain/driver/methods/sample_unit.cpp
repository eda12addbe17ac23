// HMC with the unit metric, which adapts its step size only. (The two engines are compiled
// together: they share most of their code.)

#include <stan/services/sample/hmc_nuts_unit_e.hpp>
#include <stan/services/sample/hmc_nuts_unit_e_adapt.hpp>
#include <stan/services/sample/hmc_static_unit_e.hpp>
#include <stan/services/sample/hmc_static_unit_e_adapt.hpp>

#include "methods/sample.hpp"

namespace pyflowers {

int sample_nuts_unit(Run& run, const SampleOptions& options) {
  const RunOptions& common = run.options;
  const HmcOptions& hmc = options.hmc;
  const AdaptOptions& adapt = options.adapt;
  if (!adapt.engaged) {
    return stan::services::sample::hmc_nuts_unit_e(
        run.model, options.num_chains, run.start.contexts, common.seed, common.id, run.start.radius,
        options.num_warmup, options.num_samples, options.thin, options.save_warmup,
        common.output.refresh, hmc.stepsize, hmc.stepsize_jitter, hmc.max_depth, run.interrupt,
        run.logger, run.init_writers, run.outputs.draws, run.outputs.csv_diagnostics);
  }
  return stan::services::sample::hmc_nuts_unit_e_adapt(
      run.model, options.num_chains, run.start.contexts, common.seed, common.id, run.start.radius,
      options.num_warmup, options.num_samples, options.thin, options.save_warmup,
      common.output.refresh, hmc.stepsize, hmc.stepsize_jitter, hmc.max_depth, adapt.delta,
      adapt.gamma, adapt.kappa, adapt.t0, run.interrupt, run.logger, run.init_writers,
      run.outputs.draws, run.outputs.csv_diagnostics, run.outputs.metrics);
}

int sample_static_unit(Run& run, const SampleOptions& options) {
  const RunOptions& common = run.options;
  const HmcOptions& hmc = options.hmc;
  const AdaptOptions& adapt = options.adapt;
  if (!adapt.engaged) {
    return stan::services::sample::hmc_static_unit_e(
        run.model, *run.start.contexts.front(), common.seed, common.id, run.start.radius,
        options.num_warmup, options.num_samples, options.thin, options.save_warmup,
        common.output.refresh, hmc.stepsize, hmc.stepsize_jitter, hmc.int_time, run.interrupt,
        run.logger, run.init_writers.front(), run.outputs.draws.front(),
        run.outputs.csv_diagnostics.front());
  }
  return stan::services::sample::hmc_static_unit_e_adapt(
      run.model, *run.start.contexts.front(), common.seed, common.id, run.start.radius,
      options.num_warmup, options.num_samples, options.thin, options.save_warmup,
      common.output.refresh, hmc.stepsize, hmc.stepsize_jitter, hmc.int_time, adapt.delta,
      adapt.gamma, adapt.kappa, adapt.t0, run.interrupt, run.logger, run.init_writers.front(),
      run.outputs.draws.front(), run.outputs.csv_diagnostics.front());
}

}  // namespace pyflowers
