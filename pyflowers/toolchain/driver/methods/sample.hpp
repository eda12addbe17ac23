// The samplers behind `sample`, one for each engine and metric.

#ifndef PYFLOWERS_METHODS_SAMPLE_HPP
#define PYFLOWERS_METHODS_SAMPLE_HPP

#include "options.hpp"
#include "run.hpp"

namespace pyflowers {

int sample_nuts_unit(Run& run, const SampleOptions& options);
int sample_nuts_diag(Run& run, const SampleOptions& options);
int sample_nuts_dense(Run& run, const SampleOptions& options);
int sample_static_unit(Run& run, const SampleOptions& options);
int sample_static_diag(Run& run, const SampleOptions& options);
int sample_static_dense(Run& run, const SampleOptions& options);

// The initial inverse metric of each chain: from the metric file, or else the identity.
Contexts diag_metrics(const Run& run, const SampleOptions& options);
Contexts dense_metrics(const Run& run, const SampleOptions& options);

}  // namespace pyflowers

#endif
