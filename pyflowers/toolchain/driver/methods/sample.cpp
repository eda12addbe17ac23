// `sample`: chooses the sampler and its initial metric; fixed_param has neither.

#include "methods/sample.hpp"

#include <iostream>
#include <stan/io/array_var_context.hpp>
#include <stan/services/sample/fixed_param.hpp>
#include <stan/services/util/create_unit_e_dense_inv_metric.hpp>
#include <stan/services/util/create_unit_e_diag_inv_metric.hpp>

#include "errors.hpp"
#include "methods/methods.hpp"

namespace pyflowers {
namespace {

int sample_nuts(Run& run, const SampleOptions& options) {
  switch (options.hmc.metric) {
    case Metric::unit_e:
      return sample_nuts_unit(run, options);
    case Metric::diag_e:
      return sample_nuts_diag(run, options);
    case Metric::dense_e:
      return sample_nuts_dense(run, options);
  }
  throw std::logic_error("unknown metric");
}

int sample_static(Run& run, const SampleOptions& options) {
  switch (options.hmc.metric) {
    case Metric::unit_e:
      return sample_static_unit(run, options);
    case Metric::diag_e:
      return sample_static_diag(run, options);
    case Metric::dense_e:
      return sample_static_dense(run, options);
  }
  throw std::logic_error("unknown metric");
}

// `identity` makes the metric for a number of parameters.
template <typename Identity>
Contexts metrics(const Run& run, const SampleOptions& options, Identity identity) {
  const std::string& file = options.hmc.metric_file;
  if (!file.empty()) return read_chain_contexts(file, options.num_chains, run.options.id);
  const auto context =
      std::make_shared<stan::io::array_var_context>(identity(run.model.num_params_r()));
  return Contexts(options.num_chains, context);
}

int sample_fixed_param(Run& run, const SampleOptions& options) {
  return stan::services::sample::fixed_param(
      run.model, options.num_chains, run.start.contexts, run.options.seed, run.options.id,
      run.start.radius, options.num_samples, options.thin, run.options.output.refresh,
      run.interrupt, run.logger, run.init_writers, run.outputs.draws, run.outputs.csv_diagnostics);
}

}  // namespace

Contexts diag_metrics(const Run& run, const SampleOptions& options) {
  return metrics(run, options, stan::services::util::create_unit_e_diag_inv_metric);
}

Contexts dense_metrics(const Run& run, const SampleOptions& options) {
  return metrics(run, options, stan::services::util::create_unit_e_dense_inv_metric);
}

int run_method(Run& run, const SampleOptions& options) {
  if (options.fixed_param) return sample_fixed_param(run, options);
  if (run.model.num_params_r() == 0) {
    // CmdStanPy looks for the words after the comma.
    std::cout << "The model has no parameters, running fixed_param sampler" << std::endl;
    return sample_fixed_param(run, options);
  }
  if (options.adapt.engaged && options.num_warmup == 0) {
    throw DriverError(ExitCode::config,
                      "num_warmup=0: adaptation needs warmup; raise it, or switch adaptation off "
                      "with adapt engaged=0.");
  }
  const bool is_nuts = options.hmc.engine == Engine::nuts;
  return is_nuts ? sample_nuts(run, options) : sample_static(run, options);
}

}  // namespace pyflowers
