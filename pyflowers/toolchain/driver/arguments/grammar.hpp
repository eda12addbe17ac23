// The command line that the driver understands.

#ifndef PYFLOWERS_ARGUMENTS_GRAMMAR_HPP
#define PYFLOWERS_ARGUMENTS_GRAMMAR_HPP

#include "arguments/argument.hpp"

namespace pyflowers {

// Defaults that only this run of the program knows.
struct Ambient {
  unsigned int seed;  // drawn for this run, in force unless the user gives one
  int num_threads;    // from STAN_NUM_THREADS
};

// CmdStan 2.35's command line: a group of every argument, all at their defaults.
Argument cmdstan_grammar(const Ambient& ambient);

}  // namespace pyflowers

#endif
