// CmdStan's header, line by line: readers such as CmdStanPy and ArviZ parse it.

#include "header.hpp"

#include <ctime>
#include <ostream>
#include <stan/callbacks/structured_writer.hpp>
#include <stan/version.hpp>

#include "arguments/print.hpp"
#include "writers.hpp"

namespace pyflowers {
namespace {

std::string utc_now() {
  const std::time_t now = std::time(nullptr);
  char text[] = "0000-00-00 00:00:00 UTC";
  std::strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S UTC", std::gmtime(&now));
  return text;
}

void write_version(const LineSink& line) {
  line("stan_version_major = " + stan::MAJOR_VERSION);
  line("stan_version_minor = " + stan::MINOR_VERSION);
  line("stan_version_patch = " + stan::PATCH_VERSION);
}

void write_json(stan::callbacks::structured_writer& json, const Argument& node) {
  switch (node.kind) {
    case Argument::Kind::group:
      json.begin_record(node.name);
      for (const Argument& child : node.children) write_json(json, child);
      json.end_record();
      break;
    case Argument::Kind::choice:
      json.begin_record(node.name);
      json.write("value", node.choice().name);
      write_json(json, node.choice());
      json.end_record();
      break;
    case Argument::Kind::leaf:
      std::visit([&](const auto& value) { json.write(node.name, value); }, node.value);
      break;
    case Argument::Kind::keyword:
      break;
  }
}

// `stanc_version = stanc3 v2.35.0` as a pair.
void write_compile_info(stan::callbacks::structured_writer& json,
                        const stan::model::model_base& model) {
  const std::string separator = " = ";
  for (const std::string& fact : model.model_compile_info()) {
    const std::size_t middle = fact.find(separator);
    if (middle == std::string::npos) continue;
    json.write(fact.substr(0, middle), fact.substr(middle + separator.size()));
  }
}

}  // namespace

void write_draws_header(stan::callbacks::writer& writer, const Argument& root,
                        const stan::model::model_base& model) {
  const LineSink line = [&writer](const std::string& text) { writer(text); };
  write_version(line);
  line("model = " + model.model_name());
  line("start_datetime = " + utc_now());
  print_configuration(root, line);
  for (const std::string& fact : model.model_compile_info()) line(fact);
}

void write_diagnostics_header(stan::callbacks::writer& writer, const Argument& root,
                              const stan::model::model_base& model) {
  const LineSink line = [&writer](const std::string& text) { writer(text); };
  write_version(line);
  line("model = " + model.model_name());
  print_configuration(root, line);
}

void write_config(const std::string& file, int sig_figs, const Argument& root,
                  const stan::model::model_base& model) {
  OutputFile output(file, sig_figs);
  JsonWriter json{std::unique_ptr<std::ostream, Borrowed>(&output.stream())};
  json.begin_record();
  json.write("stan_major_version", stan::MAJOR_VERSION);
  json.write("stan_minor_version", stan::MINOR_VERSION);
  json.write("stan_patch_version", stan::PATCH_VERSION);
  json.write("model_name", model.model_name());
  json.write("start_datetime", utc_now());
  for (const Argument& argument : root.children) write_json(json, argument);
  json.write("mpi_enabled", false);
  write_compile_info(json, model);
  json.end_record();
  output.finish();
}

void print_info(std::ostream& out) {
  const auto flag = [&out](const char* name, bool on) {
    out << name << '=' << (on ? "true" : "false") << '\n';
  };
  bool threads = false, unchecked = false, optims = false;
#ifdef STAN_THREADS
  threads = true;
#endif
#ifdef STAN_NO_RANGE_CHECKS
  unchecked = true;
#endif
#ifdef STAN_CPP_OPTIMS
  optims = true;
#endif
  write_version([&out](const std::string& line) { out << line << '\n'; });
  flag("STAN_THREADS", threads);
  flag("STAN_MPI", false);
  flag("STAN_OPENCL", false);
  flag("STAN_NO_RANGE_CHECKS", unchecked);
  flag("STAN_CPP_OPTIMS", optims);
  out.flush();
}

}  // namespace pyflowers
