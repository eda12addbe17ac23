// Variables by name from JSON or R dump files: data, starting values, metrics.

#ifndef PYFLOWERS_INPUTS_HPP
#define PYFLOWERS_INPUTS_HPP

#include <cstddef>
#include <memory>
#include <stan/io/var_context.hpp>
#include <string>
#include <vector>

namespace pyflowers {

using Context = std::shared_ptr<stan::io::var_context>;
using Contexts = std::vector<Context>;

// The variables of a file; none at all when its name is empty. Read as JSON if it is called *.json,
// else as R dump.
Context read_context(const std::string& file);

// One context for each chain: `init_1.json`, `init_2.json` … where the first of them exists, else
// `init.json` for all of them.
Contexts read_chain_contexts(const std::string& file, unsigned int num_chains,
                             unsigned int first_id);

// Where chains start: values by name, and the radius to draw the others within.
struct StartingValues {
  double radius;
  Contexts contexts;
};

// `init` is a radius or the name of a file.
StartingValues read_starting_values(const std::string& init, unsigned int num_chains,
                                    unsigned int first_id);

}  // namespace pyflowers

#endif
