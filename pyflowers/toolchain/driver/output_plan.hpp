// Which files a run writes.

#ifndef PYFLOWERS_OUTPUT_PLAN_HPP
#define PYFLOWERS_OUTPUT_PLAN_HPP

#include <string>
#include <vector>

#include "options.hpp"

namespace pyflowers {

// One name for each chain or path; an empty list if nothing of this kind is written.
struct OutputPlan {
  std::vector<std::string> draws;
  std::vector<std::string> csv_diagnostics;
  std::vector<std::string> json_diagnostics;
  std::vector<std::string> metrics;
  std::string combined;  // of all paths of Pathfinder
  std::string config;

  std::vector<std::string> all() const;
};

OutputPlan plan_outputs(const Options& options);

// Throws DriverError(config) when an output would overwrite an input or another output.
void require_distinct_files(const OutputPlan& plan, const Options& options);

}  // namespace pyflowers

#endif
