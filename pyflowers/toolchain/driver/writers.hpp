// Output files, opened before any work is done and checked after the last write, and the writers
// through which Stan's services fill them.

#ifndef PYFLOWERS_WRITERS_HPP
#define PYFLOWERS_WRITERS_HPP

#include <fstream>
#include <memory>
#include <ostream>
#include <stan/callbacks/json_writer.hpp>
#include <stan/callbacks/writer.hpp>
#include <string>
#include <vector>

#include "output_plan.hpp"

namespace pyflowers {

// A file that is written. Any failure is a DriverError that names the file.
class OutputFile {
 public:
  OutputFile(const std::string& file, int sig_figs);

  // Each line goes to the disk at once, so that a full disk ends the run immediately, and readers
  // of the growing file see each draw.
  void write_line(const std::string& line);
  void finish();
  std::ostream& stream() { return stream_; }

 private:
  void check();

  std::string file_;
  std::ofstream stream_;
};

// Draws, comments and matrices as CSV. Without a file, nothing is written.
class CsvWriter final : public stan::callbacks::writer {
 public:
  CsvWriter() = default;
  CsvWriter(OutputFile& file, int sig_figs) : file_(&file), digits_(sig_figs < 0 ? 6 : sig_figs) {}

  using stan::callbacks::writer::operator();
  void operator()(const std::vector<std::string>& names) override;
  void operator()(const std::vector<double>& values) override;
  void operator()() override;
  void operator()(const std::string& message) override;
  // Parameters in rows, draws in columns; written with one line for each draw.
  void operator()(const Eigen::Ref<Eigen::Matrix<double, -1, -1>>& values) override;

 private:
  void append(double value);
  void end_line();

  OutputFile* file_ = nullptr;
  int digits_ = 6;
  std::string line_;
};

// The streams belong to OutputFile.
struct Borrowed {
  void operator()(std::ostream*) const noexcept {}
};
using JsonWriter = stan::callbacks::json_writer<std::ostream, Borrowed>;

// The writers of a run, one for each chain or path; those without a file write nothing.
struct Outputs {
  std::vector<CsvWriter> draws;
  std::vector<CsvWriter> csv_diagnostics;
  std::vector<JsonWriter> json_diagnostics;
  std::vector<JsonWriter> metrics;
  CsvWriter combined;

  // The files behind the writers; pointers, because writers refer to them.
  std::vector<std::unique_ptr<OutputFile>> files;

  // Closes all files. Throws DriverError(io_error) for the first that is incomplete.
  void finish();
};

// Throws DriverError(cannot_create), naming the file, when one cannot be opened.
Outputs open_outputs(const OutputPlan& plan, unsigned int num_chains, int sig_figs);

// Throws DriverError(cannot_create) if the file could not be written, and leaves no file behind.
void require_writable(const std::string& file);

}  // namespace pyflowers

#endif
