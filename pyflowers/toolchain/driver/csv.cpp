// Stan's CSV reader uses a stream for each number, reads nan and inf as 0, and stops without an
// error at a row of another length. This reader is faster, reads all doubles and names the line.

#include "csv.hpp"

#include <cstdlib>
#include <fstream>

#include "errors.hpp"
#include "files.hpp"

namespace pyflowers {
namespace {

[[noreturn]] void fail(const std::string& file, std::size_t line, const std::string& problem) {
  throw DriverError(ExitCode::bad_input, file + ", line " + std::to_string(line) + ": " + problem);
}

std::vector<std::string> split_at_commas(const std::string& line) {
  std::vector<std::string> cells(1);
  for (const char c : line) {
    if (c == ',') {
      cells.emplace_back();
    } else if (c != '\r') {
      cells.back() += c;
    }
  }
  return cells;
}

std::vector<double> to_numbers(const std::string& text, std::size_t expected,
                               const std::string& file, std::size_t line) {
  std::vector<double> numbers;
  numbers.reserve(expected);
  const char* cursor = text.c_str();
  for (;;) {
    char* end = nullptr;
    numbers.push_back(std::strtod(cursor, &end));
    if (end == cursor) fail(file, line, "a cell is not a number; is the file complete?");
    while (*end == ' ' || *end == '\r') ++end;
    if (*end == '\0') break;
    if (*end != ',') fail(file, line, "a cell is not a number; is the file complete?");
    cursor = end + 1;
  }
  if (numbers.size() != expected) {
    fail(file, line,
         "it has " + std::to_string(numbers.size()) + " cells where the header has " +
             std::to_string(expected) + "; is the file complete?");
  }
  return numbers;
}

bool ends_with_underscores(const std::string& name) {
  return name.size() >= 2 && name.compare(name.size() - 2, 2, "__") == 0;
}

}  // namespace

CsvTable read_csv(const std::string& file) {
  std::ifstream stream = open_input(file);
  CsvTable table;
  table.file = file;
  std::string line;
  for (std::size_t number = 1; std::getline(stream, line); ++number) {
    if (line.empty() || line == "\r") continue;
    if (line.front() == '#') {
      table.comments.push_back(line);
    } else if (table.header.empty()) {
      table.header = split_at_commas(line);
    } else {
      table.rows.push_back(to_numbers(line, table.header.size(), file, number));
    }
  }
  if (table.header.empty()) fail(file, 1, "there is no header; give a CSV file that Stan wrote.");
  return table;
}

std::size_t CsvTable::first_parameter() const {
  std::size_t column = 0;
  while (column < header.size() && ends_with_underscores(header[column])) ++column;
  return column;
}

void CsvTable::require_parameters(const std::vector<std::string>& names) const {
  const std::size_t first = first_parameter();
  for (std::size_t i = 0; i < names.size(); ++i) {
    const std::string found = first + i < header.size() ? header[first + i] : "nothing";
    if (found == names[i]) continue;
    throw DriverError(ExitCode::bad_input, file + ": column " + std::to_string(first + i + 1) +
                                               " should be the model's parameter " + names[i] +
                                               ", but is " + found +
                                               "; give the output of a fit of this very model.");
  }
}

}  // namespace pyflowers
