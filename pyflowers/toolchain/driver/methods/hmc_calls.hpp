// Stan's HMC services take some thirty arguments in an order of their own. These are the two calls
// that the diagonal and the dense metric share; a service is passed as a function object, because
// services are overloaded templates.

#ifndef PYFLOWERS_METHODS_HMC_CALLS_HPP
#define PYFLOWERS_METHODS_HMC_CALLS_HPP

#include "options.hpp"
#include "run.hpp"

namespace pyflowers {

template <typename Adaptive, typename Plain>
int call_nuts(Run& run, const SampleOptions& options, const Contexts& metrics, Adaptive adaptive,
              Plain plain) {
  const RunOptions& common = run.options;
  const HmcOptions& hmc = options.hmc;
  const AdaptOptions& adapt = options.adapt;
  if (!adapt.engaged) {
    return plain(run.model, options.num_chains, run.start.contexts, metrics, common.seed, common.id,
                 run.start.radius, options.num_warmup, options.num_samples, options.thin,
                 options.save_warmup, common.output.refresh, hmc.stepsize, hmc.stepsize_jitter,
                 hmc.max_depth, run.interrupt, run.logger, run.init_writers, run.outputs.draws,
                 run.outputs.csv_diagnostics);
  }
  return adaptive(run.model, options.num_chains, run.start.contexts, metrics, common.seed,
                  common.id, run.start.radius, options.num_warmup, options.num_samples,
                  options.thin, options.save_warmup, common.output.refresh, hmc.stepsize,
                  hmc.stepsize_jitter, hmc.max_depth, adapt.delta, adapt.gamma, adapt.kappa,
                  adapt.t0, adapt.init_buffer, adapt.term_buffer, adapt.window, run.interrupt,
                  run.logger, run.init_writers, run.outputs.draws, run.outputs.csv_diagnostics,
                  run.outputs.metrics);
}

// Static HMC runs one chain, and its services do not write metrics.
template <typename Adaptive, typename Plain>
int call_static(Run& run, const SampleOptions& options, const Contexts& metrics, Adaptive adaptive,
                Plain plain) {
  const RunOptions& common = run.options;
  const HmcOptions& hmc = options.hmc;
  const AdaptOptions& adapt = options.adapt;
  if (!adapt.engaged) {
    return plain(run.model, *run.start.contexts.front(), *metrics.front(), common.seed, common.id,
                 run.start.radius, options.num_warmup, options.num_samples, options.thin,
                 options.save_warmup, common.output.refresh, hmc.stepsize, hmc.stepsize_jitter,
                 hmc.int_time, run.interrupt, run.logger, run.init_writers.front(),
                 run.outputs.draws.front(), run.outputs.csv_diagnostics.front());
  }
  return adaptive(run.model, *run.start.contexts.front(), *metrics.front(), common.seed, common.id,
                  run.start.radius, options.num_warmup, options.num_samples, options.thin,
                  options.save_warmup, common.output.refresh, hmc.stepsize, hmc.stepsize_jitter,
                  hmc.int_time, adapt.delta, adapt.gamma, adapt.kappa, adapt.t0, adapt.init_buffer,
                  adapt.term_buffer, adapt.window, run.interrupt, run.logger,
                  run.init_writers.front(), run.outputs.draws.front(),
                  run.outputs.csv_diagnostics.front());
}

}  // namespace pyflowers

#endif
