// The argument tree in words: the configuration that heads every output, and help.

#ifndef PYFLOWERS_ARGUMENTS_PRINT_HPP
#define PYFLOWERS_ARGUMENTS_PRINT_HPP

#include <functional>
#include <ostream>
#include <string>

#include "arguments/argument.hpp"

namespace pyflowers {

// Receives one line of text, without its end.
using LineSink = std::function<void(const std::string&)>;

// Every argument in force with its value, one a line, `(Default)` after defaults.
void print_configuration(const Argument& root, const LineSink& line);

// What `argument help` shows; with `recursive`, what `argument help-all` shows.
void print_help(const Argument& argument, bool recursive, std::ostream& out);

// Help on everything.
void print_all_help(const Argument& root, std::ostream& out);

// How to call the program, its methods and its global arguments.
void print_usage(const Argument& root, const std::string& program, std::ostream& out);

}  // namespace pyflowers

#endif
