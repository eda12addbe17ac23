// The methods, one function for each kind of options. Each calls a service of Stan, which writes to
// the run's outputs and logger, and returns that service's code: 0 is success.

#ifndef PYFLOWERS_METHODS_METHODS_HPP
#define PYFLOWERS_METHODS_METHODS_HPP

#include "options.hpp"
#include "run.hpp"

namespace pyflowers {

int run_method(Run& run, const SampleOptions& options);
int run_method(Run& run, const OptimizeOptions& options);
int run_method(Run& run, const VariationalOptions& options);
int run_method(Run& run, const PathfinderOptions& options);
int run_method(Run& run, const LaplaceOptions& options);
int run_method(Run& run, const LogProbOptions& options);
int run_method(Run& run, const GenerateQuantitiesOptions& options);
int run_method(Run& run, const DiagnoseOptions& options);

}  // namespace pyflowers

#endif
