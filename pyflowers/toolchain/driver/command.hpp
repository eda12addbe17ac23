// One run of the program, from its arguments to its exit status.

#ifndef PYFLOWERS_COMMAND_HPP
#define PYFLOWERS_COMMAND_HPP

#include <string>
#include <vector>

#include "errors.hpp"

namespace pyflowers {

// Throws DriverError, or what Stan throws; main() reports it.
ExitCode run_command(const std::string& program, const std::vector<std::string>& tokens);

}  // namespace pyflowers

#endif
