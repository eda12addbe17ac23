// The argument tree as text: the configuration at the top of each output, and help.

#ifndef PYFLOWERS_ARGUMENTS_PRINT_HPP
#define PYFLOWERS_ARGUMENTS_PRINT_HPP

#include <functional>
#include <ostream>
#include <string>

#include "arguments/argument.hpp"

namespace pyflowers {

// Receives one line of text, without its end.
using LineSink = std::function<void(const std::string&)>;

// Prints each argument in use with its value, one per line, with `(Default)` after defaults.
void print_configuration(const Argument& root, const LineSink& line);

// Prints the text of `argument help` or, if `recursive`, of `argument help-all`.
void print_help(const Argument& argument, bool recursive, std::ostream& out);

// Prints help on all arguments.
void print_all_help(const Argument& root, std::ostream& out);

// Prints how to call the program, its methods and its global arguments.
void print_usage(const Argument& root, const std::string& program, std::ostream& out);

}  // namespace pyflowers

#endif
