// Reads CSV files that CmdStan or this driver wrote.

#ifndef PYFLOWERS_CSV_HPP
#define PYFLOWERS_CSV_HPP

#include <cstddef>
#include <string>
#include <vector>

namespace pyflowers {

struct CsvTable {
  std::string file;
  std::vector<std::string> comments;  // lines that start with `#`, wherever they stand
  std::vector<std::string> header;
  std::vector<std::vector<double>> rows;

  // The column of the first parameter: sampler outputs such as lp__ come before it.
  std::size_t first_parameter() const;

  // Throws DriverError(bad_input) unless `names` are the columns from first_parameter() on.
  void require_parameters(const std::vector<std::string>& names) const;
};

// Throws DriverError, naming file and line, when it cannot be read or a row does not fit the
// header.
CsvTable read_csv(const std::string& file);

}  // namespace pyflowers

#endif
