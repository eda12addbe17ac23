// HMC with a dense metric. (The two engines are compiled together: they share most of their code.)

#include <stan/services/sample/hmc_nuts_dense_e.hpp>
#include <stan/services/sample/hmc_nuts_dense_e_adapt.hpp>
#include <stan/services/sample/hmc_static_dense_e.hpp>
#include <stan/services/sample/hmc_static_dense_e_adapt.hpp>
#include <utility>

#include "methods/hmc_calls.hpp"
#include "methods/sample.hpp"

namespace pyflowers {

namespace services = stan::services::sample;

int sample_nuts_dense(Run& run, const SampleOptions& options) {
  return call_nuts(
      run, options, dense_metrics(run, options),
      [](auto&&... arguments) {
        return services::hmc_nuts_dense_e_adapt(std::forward<decltype(arguments)>(arguments)...);
      },
      [](auto&&... arguments) {
        return services::hmc_nuts_dense_e(std::forward<decltype(arguments)>(arguments)...);
      });
}

int sample_static_dense(Run& run, const SampleOptions& options) {
  return call_static(
      run, options, dense_metrics(run, options),
      [](auto&&... arguments) {
        return services::hmc_static_dense_e_adapt(std::forward<decltype(arguments)>(arguments)...);
      },
      [](auto&&... arguments) {
        return services::hmc_static_dense_e(std::forward<decltype(arguments)>(arguments)...);
      });
}

}  // namespace pyflowers
