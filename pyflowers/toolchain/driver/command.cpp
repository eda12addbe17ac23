// The course of a run: parse, read inputs, open every output, call the method, check every output.

#include "command.hpp"

#include <exception>
#include <iostream>
#include <memory>
#include <random>
#include <stan/callbacks/stream_logger.hpp>
#include <stan/math/prim/core/init_threadpool_tbb.hpp>
#include <stan/model/model_base.hpp>

#include "arguments/grammar.hpp"
#include "arguments/parser.hpp"
#include "arguments/print.hpp"
#include "header.hpp"
#include "inputs.hpp"
#include "methods/methods.hpp"
#include "options.hpp"
#include "output_plan.hpp"
#include "profile.hpp"
#include "run.hpp"
#include "writers.hpp"

// Defined in the C++ code that stanc generates from a Stan program.
stan::model::model_base& new_model(stan::io::var_context& data, unsigned int seed,
                                   std::ostream* messages);

namespace pyflowers {
namespace {

using Model = stan::model::model_base;

// STAN_NUM_THREADS and num_threads set the same number.
void start_threads(int requested) {
  const int environment = stan::math::internal::get_num_threads();
  if (environment != requested && environment != 1) {
    throw DriverError(ExitCode::config, "num_threads=" + std::to_string(requested) +
                                            " contradicts STAN_NUM_THREADS, which is " +
                                            std::to_string(environment) +
                                            " in the environment; unset one of them.");
  }
  stan::math::init_threadpool_tbb(requested);
}

std::unique_ptr<Model> make_model(const RunOptions& options) {
  const Context data = read_context(options.data_file);
  try {
    return std::unique_ptr<Model>(&new_model(*data, options.seed, &std::cout));
  } catch (const std::exception& error) {
    const std::string source = options.data_file.empty()
                                   ? "The model needs data, but no `data file=FILE` is given: "
                                   : options.data_file + " does not fit the model: ";
    throw DriverError(ExitCode::bad_input, source + error.what());
  }
}

void write_headers(Outputs& outputs, const Argument& root, const Model& model) {
  for (CsvWriter& writer : outputs.draws) write_draws_header(writer, root, model);
  for (CsvWriter& writer : outputs.csv_diagnostics) write_diagnostics_header(writer, root, model);
  write_draws_header(outputs.combined, root, model);
}

ExitCode run_service(const Argument& root) {
  const Options options = read_options(root);
  const RunOptions& common = options.run;
  const OutputPlan plan = plan_outputs(options);
  require_distinct_files(plan, options);
  start_threads(common.num_threads);
  print_configuration(root, [](const std::string& line) { std::cout << line << '\n'; });
  std::cout << std::endl;

  const unsigned int chains = num_chains(options.method);
  const std::unique_ptr<Model> model = make_model(common);
  const StartingValues start = read_starting_values(common.init, chains, common.id);

  if (common.output.profile_file != default_profile_file) {
    require_writable(common.output.profile_file);
  }
  Outputs outputs = open_outputs(plan, chains, common.output.sig_figs);
  if (!plan.config.empty()) write_config(plan.config, common.output.sig_figs, root, *model);
  write_headers(outputs, root, *model);

  stan::callbacks::stream_logger logger(std::cout, std::cout, std::cout, std::cerr, std::cerr);
  Run run{*model, common, start, outputs, logger, {}, {}};
  run.init_writers.resize(chains);
  const int failed =
      std::visit([&run](const auto& method) { return run_method(run, method); }, options.method);
  write_profile(common.output.profile_file, common.output.sig_figs);
  outputs.finish();
  if (failed == 0) return ExitCode::ok;
  return failed >= static_cast<int>(ExitCode::usage) ? static_cast<ExitCode>(failed)
                                                     : ExitCode::software;
}

}  // namespace

ExitCode run_command(const std::string& program, const std::vector<std::string>& tokens) {
  const Ambient ambient{std::random_device{}(), stan::math::internal::get_num_threads()};
  Argument root = cmdstan_grammar(ambient);
  switch (parse_arguments(root, tokens, std::cout)) {
    case Request::show_info:
      print_info(std::cout);
      return ExitCode::ok;
    case Request::show_usage:
    case Request::help_shown:
      print_usage(root, program, std::cout);
      return tokens.empty() ? ExitCode::usage : ExitCode::ok;
    case Request::run_method:
      return run_service(root);
  }
  throw std::logic_error("unknown request");
}

}  // namespace pyflowers
