// Reading JSON and R dump. Errors in Stan's readers are reported with the file's name.

#include "inputs.hpp"

#include <cmath>
#include <exception>
#include <iostream>
#include <stan/io/dump.hpp>
#include <stan/io/empty_var_context.hpp>
#include <stan/io/json/json_data.hpp>

#include "errors.hpp"
#include "files.hpp"

namespace pyflowers {
namespace {

void warn_of_r_dump(const std::string& file) {
  std::cerr << "Warning: " << file << " is read as R dump, a format that Stan has deprecated; save "
            << "it as .json instead." << std::endl;
}

// Several chains with a file that has to be numbered: only these two suffixes are unambiguous.
void require_known_suffix(const std::string& file) {
  const std::string suffix = split_suffix(file).suffix;
  if (suffix == ".json" || suffix == ".R") return;
  throw DriverError(ExitCode::config, file +
                                          ": with several chains the name must end in .json or "
                                          ".R; rename it.");
}

}  // namespace

Context read_context(const std::string& file) {
  if (file.empty()) return std::make_shared<stan::io::empty_var_context>();
  std::ifstream stream = open_input(file);
  const bool is_json = split_suffix(file).suffix == ".json";
  if (!is_json) warn_of_r_dump(file);
  try {
    if (is_json) return std::make_shared<stan::json::json_data>(stream);
    return std::make_shared<stan::io::dump>(stream);
  } catch (const std::exception& error) {
    throw DriverError(ExitCode::bad_input, file + " is not valid " + (is_json ? "JSON" : "R dump") +
                                               ": " + error.what());
  }
}

Contexts read_chain_contexts(const std::string& file, unsigned int num_chains,
                             unsigned int first_id) {
  if (num_chains == 1 || file.empty()) return Contexts(num_chains, read_context(file));
  require_known_suffix(file);
  const std::string suffix = split_suffix(file).suffix;
  // chain_files() keeps a suffix only for CSV; here the suffix is the user's.
  const auto numbered = chain_files(split_suffix(file).base, {"", suffix, num_chains, first_id});
  if (!can_open(numbered.front())) {
    if (can_open(file)) return Contexts(num_chains, read_context(file));
    throw DriverError(ExitCode::no_input, "Neither " + numbered.front() + " nor " + file +
                                              " can be opened; name a file that exists, or one "
                                              "numbered file for each chain.");
  }
  Contexts contexts;
  for (const std::string& name : numbered) contexts.push_back(read_context(name));
  return contexts;
}

StartingValues read_starting_values(const std::string& init, unsigned int num_chains,
                                    unsigned int first_id) {
  constexpr double usual_radius = 2;
  double radius = 0;
  std::size_t used = 0;
  try {
    radius = std::stod(init, &used);
  } catch (const std::logic_error&) {
  }
  // CmdStan takes `2chains.json` for the radius 2; here, the whole text must be a number.
  if (used == 0 || used != init.size()) {
    return {usual_radius, read_chain_contexts(init, num_chains, first_id)};
  }
  if (!(radius >= 0) || std::isinf(radius)) {
    throw DriverError(ExitCode::usage, "init=" + init +
                                           ": a radius is a finite number, 0 or more; "
                                           "give one, or a file of values.");
  }
  return {radius, read_chain_contexts("", num_chains, first_id)};
}

}  // namespace pyflowers
