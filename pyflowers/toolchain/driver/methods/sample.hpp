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

// Inverse metrics to begin with, one for each chain: those of the metric file, else the identity.
Contexts diag_metrics(const Run& run, const SampleOptions& options);
Contexts dense_metrics(const Run& run, const SampleOptions& options);

}  // namespace pyflowers

#endif
