// Names of files, and opening those that are read.

#ifndef PYFLOWERS_FILES_HPP
#define PYFLOWERS_FILES_HPP

#include <fstream>
#include <string>
#include <vector>

namespace pyflowers {

// `dir/draws.csv` is {`dir/draws`, `.csv`}; without a suffix the second is empty.
struct FileName {
  std::string base;
  std::string suffix;
};

FileName split_suffix(const std::string& file);

// How a family of files is named after the one that the user named: `out.csv` becomes
// `out_path_3.csv`, with tag `_path`, for the chain numbered 3.
struct Naming {
  std::string tag;
  std::string suffix;  // used where the user's name has none, and always when it is not .csv
  unsigned int num_chains;
  unsigned int first_id;
};

// One name for each chain. A single chain's file bears no number.
std::vector<std::string> chain_files(const std::string& file, const Naming& naming);

// Throws DriverError(no_input) when the file cannot be read.
std::ifstream open_input(const std::string& file);

bool can_open(const std::string& file);

// Whether it exists and is neither a file nor a folder: /dev/null, a pipe.
bool is_device(const std::string& file);

}  // namespace pyflowers

#endif
