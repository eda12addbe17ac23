// The command line that the driver understands.

#ifndef PYFLOWERS_ARGUMENTS_GRAMMAR_HPP
#define PYFLOWERS_ARGUMENTS_GRAMMAR_HPP

#include "arguments/argument.hpp"

namespace pyflowers {

// Defaults that differ between runs of the program.
struct Ambient {
  unsigned int seed;  // drawn for this run; used unless the user gives one
  int num_threads;    // from STAN_NUM_THREADS
};

// CmdStan 2.35's command line: a group of all arguments, with their defaults.
Argument cmdstan_grammar(const Ambient& ambient);

}  // namespace pyflowers

#endif
