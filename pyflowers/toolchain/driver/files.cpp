// File names follow CmdStan: CmdStanPy and others look for them.

#include "files.hpp"

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "errors.hpp"

namespace pyflowers {

FileName split_suffix(const std::string& file) {
  // For `.hidden`, `..` and `a.b/c`, std::filesystem finds the same suffix as CmdStan; but it also
  // takes a final dot for a suffix.
  const std::string suffix = std::filesystem::path(file).extension().string();
  if (suffix.size() < 2) return {file, ""};
  return {file.substr(0, file.size() - suffix.size()), suffix};
}

std::vector<std::string> chain_files(const std::string& file, const Naming& naming) {
  if (is_device(file)) return std::vector<std::string>(naming.num_chains, file);
  const FileName name = split_suffix(file);
  const bool keep_suffix = naming.suffix == ".csv" && !name.suffix.empty();
  std::vector<std::string> files;
  for (unsigned int chain = 0; chain < naming.num_chains; ++chain) {
    const std::string number =
        naming.num_chains == 1 ? "" : "_" + std::to_string(naming.first_id + chain);
    files.push_back(name.base + naming.tag + number + (keep_suffix ? name.suffix : naming.suffix));
  }
  return files;
}

bool can_open(const std::string& file) {
  return !std::filesystem::is_directory(file) && std::ifstream(file).good();
}

std::ifstream open_input(const std::string& file) {
  if (std::filesystem::is_directory(file)) {
    throw DriverError(ExitCode::no_input, file + " is a folder; name a file to read.");
  }
  errno = 0;
  std::ifstream stream(file);
  if (!stream) {
    throw DriverError(ExitCode::no_input, file + " cannot be opened (" + std::strerror(errno) +
                                              "); name a file that exists and can be read.");
  }
  return stream;
}

bool is_device(const std::string& file) {
  return std::filesystem::exists(file) && !std::filesystem::is_regular_file(file) &&
         !std::filesystem::is_directory(file);
}

}  // namespace pyflowers
