// Numbers are formatted as `std::ostream << double` would, which is what CmdStan writes, through
// std::to_chars where the standard library has it for doubles: several times as fast.

#include "writers.hpp"

#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "errors.hpp"

namespace pyflowers {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void fail_to_create(const std::string& file) {
  const fs::path folder = fs::path(file).parent_path();
  std::string reason = std::strerror(errno);
  if (!folder.empty() && !fs::exists(folder)) reason = "there is no folder " + folder.string();
  if (fs::is_directory(file)) reason = "it is a folder";
  throw DriverError(ExitCode::cannot_create, file + " cannot be written (" + reason +
                                                 "); choose another file, or create its folder "
                                                 "with permission to write.");
}

}  // namespace

OutputFile::OutputFile(const std::string& file, int sig_figs) : file_(file) {
  errno = 0;
  stream_.open(file);
  if (!stream_) fail_to_create(file);
  if (sig_figs >= 0) stream_.precision(sig_figs);
}

void OutputFile::write_line(const std::string& line) {
  errno = 0;
  stream_.write(line.data(), static_cast<std::streamsize>(line.size()));
  stream_.flush();
  check();
}

void OutputFile::finish() {
  if (!stream_.is_open()) return;
  errno = 0;
  stream_.flush();
  check();
  stream_.close();
  check();
}

void OutputFile::check() {
  if (stream_) return;
  const std::string reason = errno != 0 ? std::string(" (") + std::strerror(errno) + ")" : "";
  throw DriverError(ExitCode::io_error, file_ + " is incomplete: writing failed" + reason +
                                            "; free some space or choose another file, and run "
                                            "again.");
}

void CsvWriter::operator()(const std::vector<std::string>& names) {
  if (names.empty()) return;
  for (const std::string& name : names) line_.append(name).append(1, ',');
  line_.pop_back();
  end_line();
}

void CsvWriter::operator()(const std::vector<double>& values) {
  if (values.empty()) return;
  for (const double value : values) {
    append(value);
    line_ += ',';
  }
  line_.pop_back();
  end_line();
}

void CsvWriter::operator()() { (*this)(std::string()); }

void CsvWriter::operator()(const std::string& message) {
  line_.append("# ").append(message);
  end_line();
}

void CsvWriter::operator()(const Eigen::Ref<Eigen::Matrix<double, -1, -1>>& values) {
  for (Eigen::Index draw = 0; draw < values.cols(); ++draw) {
    for (Eigen::Index parameter = 0; parameter < values.rows(); ++parameter) {
      // Unlike single draws, matrices have a space here: CmdStan prints them through Eigen.
      if (parameter > 0) line_ += ", ";
      append(values(parameter, draw));
    }
    end_line();
  }
}

void CsvWriter::append(double value) {
  char text[64];
#ifdef __cpp_lib_to_chars
  const auto result =
      std::to_chars(text, text + sizeof text, value, std::chars_format::general, digits_);
  line_.append(text, result.ptr);
#else
  const int length = std::snprintf(text, sizeof text, "%.*g", digits_, value);
  line_.append(text, static_cast<std::size_t>(length));
#endif
}

void CsvWriter::end_line() {
  line_ += '\n';
  if (file_ != nullptr) file_->write_line(line_);
  line_.clear();
}

void Outputs::finish() {
  for (const auto& file : files) file->finish();
}

Outputs open_outputs(const OutputPlan& plan, unsigned int num_chains, int sig_figs) {
  Outputs outputs;
  const auto open = [&outputs, sig_figs](const std::string& file) -> OutputFile& {
    outputs.files.push_back(std::make_unique<OutputFile>(file, sig_figs));
    return *outputs.files.back();
  };
  const auto fill_csv = [&](const std::vector<std::string>& files,
                            std::vector<CsvWriter>& writers) {
    for (const std::string& file : files) writers.emplace_back(open(file), sig_figs);
    writers.resize(num_chains);
  };
  const auto fill_json = [&](const std::vector<std::string>& files,
                             std::vector<JsonWriter>& writers) {
    writers.reserve(num_chains);
    for (unsigned int chain = 0; chain < num_chains; ++chain) {
      std::ostream* stream = chain < files.size() ? &open(files[chain]).stream() : nullptr;
      writers.emplace_back(std::unique_ptr<std::ostream, Borrowed>(stream));
    }
  };
  fill_csv(plan.draws, outputs.draws);
  fill_csv(plan.csv_diagnostics, outputs.csv_diagnostics);
  fill_json(plan.json_diagnostics, outputs.json_diagnostics);
  fill_json(plan.metrics, outputs.metrics);
  if (!plan.combined.empty()) outputs.combined = CsvWriter(open(plan.combined), sig_figs);
  return outputs;
}

void require_writable(const std::string& file) {
  const bool existed = fs::exists(file);
  errno = 0;
  if (!std::ofstream(file, std::ios::app)) fail_to_create(file);
  if (!existed) fs::remove(file);
}

}  // namespace pyflowers
