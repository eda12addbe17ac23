// The names of the outputs of each method, as in CmdStan.

#include "output_plan.hpp"

#include <filesystem>
#include <set>

#include "errors.hpp"
#include "files.hpp"

namespace pyflowers {
namespace {

namespace fs = std::filesystem;
using Files = std::vector<std::string>;

// Only Pathfinder writes JSON for each path, and draws of single paths only on request.
void plan_pathfinder(const PathfinderOptions& method, const RunOptions& run, OutputPlan& plan) {
  const OutputOptions& output = run.output;
  const bool several = method.num_paths > 1;
  const std::string tag = several ? "_path" : "";
  const bool single_paths = method.save_single_paths || !output.diagnostic_file.empty();
  const std::string diagnostics =
      output.diagnostic_file.empty() ? output.file : output.diagnostic_file;
  if (several) plan.combined = chain_files(output.file, {"", ".csv", 1, run.id}).front();
  if (!several || single_paths) {
    plan.draws = chain_files(output.file, {tag, ".csv", method.num_paths, run.id});
  }
  if (single_paths) {
    plan.json_diagnostics = chain_files(diagnostics, {tag, ".json", method.num_paths, run.id});
  }
}

// The services of other samplers return no metric; CmdStan writes an empty file.
bool has_metric_writer(const SampleOptions& method) {
  return !method.fixed_param && method.hmc.engine == Engine::nuts;
}

void plan_usual(const Options& options, OutputPlan& plan) {
  const RunOptions& run = options.run;
  const OutputOptions& output = run.output;
  const unsigned int chains = num_chains(options.method);
  plan.draws = chain_files(output.file, {"", ".csv", chains, run.id});
  const bool is_laplace = std::holds_alternative<LaplaceOptions>(options.method);
  if (!output.diagnostic_file.empty()) {
    const std::string suffix = is_laplace ? ".json" : ".csv";
    (is_laplace ? plan.json_diagnostics : plan.csv_diagnostics) =
        chain_files(output.diagnostic_file, {"", suffix, chains, run.id});
  }
  const auto* sample = std::get_if<SampleOptions>(&options.method);
  if (sample != nullptr && sample->adapt.save_metric && has_metric_writer(*sample)) {
    plan.metrics = chain_files(output.file, {"_metric", ".json", chains, run.id});
  }
}

Files input_files(const Options& options) {
  struct Lister {
    Files operator()(const SampleOptions& method) const { return {method.hmc.metric_file}; }
    Files operator()(const LaplaceOptions& method) const { return {method.mode_file}; }
    Files operator()(const LogProbOptions& method) const {
      return {method.unconstrained_file, method.constrained_file};
    }
    Files operator()(const GenerateQuantitiesOptions& method) const {
      return chain_files(method.fitted_params_file, {"", ".csv", method.num_chains, first_id});
    }
    Files operator()(const OptimizeOptions&) const { return {}; }
    Files operator()(const VariationalOptions&) const { return {}; }
    Files operator()(const PathfinderOptions&) const { return {}; }
    Files operator()(const DiagnoseOptions&) const { return {}; }
    unsigned int first_id;
  };
  Files files = std::visit(Lister{options.run.id}, options.method);
  files.push_back(options.run.data_file);
  files.push_back(options.run.init);
  return files;
}

// `results/` would become the hidden file `results/.csv`.
void require_file_name(const std::string& file) {
  if (file.empty()) return;
  const std::string name = fs::path(file).filename().string();
  if (!name.empty() && name != "." && name != "..") return;
  throw DriverError(ExitCode::config, file + " names a folder; name a file to write in it.");
}

// The same path for a file, however the user writes it.
std::string identity(const std::string& file) {
  std::error_code ignored;
  const fs::path resolved = fs::weakly_canonical(fs::absolute(file, ignored), ignored);
  return resolved.empty() ? file : resolved.string();
}

}  // namespace

std::vector<std::string> OutputPlan::all() const {
  Files files;
  for (const Files* family : {&draws, &csv_diagnostics, &json_diagnostics, &metrics}) {
    files.insert(files.end(), family->begin(), family->end());
  }
  if (!combined.empty()) files.push_back(combined);
  if (!config.empty()) files.push_back(config);
  return files;
}

OutputPlan plan_outputs(const Options& options) {
  require_file_name(options.run.output.file);
  require_file_name(options.run.output.diagnostic_file);
  OutputPlan plan;
  if (const auto* pathfinder = std::get_if<PathfinderOptions>(&options.method)) {
    plan_pathfinder(*pathfinder, options.run, plan);
  } else {
    plan_usual(options, plan);
  }
  if (options.run.output.save_config) {
    plan.config = split_suffix(options.run.output.file).base + "_config.json";
  }
  return plan;
}

void require_distinct_files(const OutputPlan& plan, const Options& options) {
  std::set<std::string> inputs;
  for (const std::string& file : input_files(options)) {
    if (!file.empty() && !is_device(file)) inputs.insert(identity(file));
  }
  std::set<std::string> outputs;
  for (const std::string& file : plan.all()) {
    if (is_device(file)) continue;
    if (inputs.count(identity(file)) > 0) {
      throw DriverError(ExitCode::config,
                        file +
                            " is read by this run and would be overwritten; name another output "
                            "file.");
    }
    if (!outputs.insert(identity(file)).second) {
      throw DriverError(ExitCode::config, file +
                                              " would be written twice; give every output a file "
                                              "of its own.");
    }
  }
}

}  // namespace pyflowers
