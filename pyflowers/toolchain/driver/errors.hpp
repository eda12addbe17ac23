// The errors of the driver, and their exit statuses.

#ifndef PYFLOWERS_ERRORS_HPP
#define PYFLOWERS_ERRORS_HPP

#include <stdexcept>
#include <string>

namespace pyflowers {

// The meanings and numbers of BSD's sysexits, as Stan's own services use them.
enum class ExitCode : int {
  ok = 0,
  usage = 64,          // the command line cannot be understood
  bad_input = 65,      // a file was read, and its contents do not fit the model
  no_input = 66,       // a file that should be read cannot be opened
  software = 70,       // the method itself failed
  cannot_create = 73,  // an output file cannot be opened
  io_error = 74,       // an output file could not be written to its end
  config = 78          // arguments that are valid one by one do not fit together
};

// An error with its exit status; main() reports it.
class DriverError : public std::runtime_error {
 public:
  DriverError(ExitCode code, const std::string& message)
      : std::runtime_error(message), code_(code) {}
  ExitCode code() const noexcept { return code_; }

 private:
  ExitCode code_;
};

}  // namespace pyflowers

#endif
