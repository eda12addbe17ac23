// Fills the argument tree from a command line in CmdStan's syntax.

#ifndef PYFLOWERS_ARGUMENTS_PARSER_HPP
#define PYFLOWERS_ARGUMENTS_PARSER_HPP

#include <ostream>
#include <string>
#include <vector>

#include "arguments/argument.hpp"

namespace pyflowers {

// The action that a command line requests.
enum class Request { run_method, show_usage, help_shown, show_info };

// Sets the values and choices of `root` that `tokens` name. Help on single arguments goes to
// `help`. Throws DriverError(usage) if a token cannot be understood.
Request parse_arguments(Argument& root, std::vector<std::string> tokens, std::ostream& help);

}  // namespace pyflowers

#endif
