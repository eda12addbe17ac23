// Names of files, and functions that open input files.

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

// The names of several files, from the name that the user gives: `out.csv` becomes
// `out_path_3.csv`, with tag `_path`, for the chain numbered 3.
struct Naming {
  std::string tag;
  std::string suffix;  // used if the user's name has none, and always if it is not .csv
  unsigned int num_chains;
  unsigned int first_id;
};

// One name for each chain. The file of a single chain has no number.
std::vector<std::string> chain_files(const std::string& file, const Naming& naming);

// Throws DriverError(no_input) when the file cannot be read.
std::ifstream open_input(const std::string& file);

bool can_open(const std::string& file);

// Whether the path exists and is neither a file nor a folder: /dev/null, a pipe.
bool is_device(const std::string& file);

}  // namespace pyflowers

#endif
