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

// The variables of a file; none if its name is empty. A file called *.json is read as JSON, any
// other as R dump.
Context read_context(const std::string& file);

// One context for each chain: `init_1.json`, `init_2.json` … if the first of them exists, or else
// `init.json` for all chains.
Contexts read_chain_contexts(const std::string& file, unsigned int num_chains,
                             unsigned int first_id);

// The starting points of chains: values by name, and the radius within which others are drawn.
struct StartingValues {
  double radius;
  Contexts contexts;
};

// `init` is a radius or the name of a file.
StartingValues read_starting_values(const std::string& init, unsigned int num_chains,
                                    unsigned int first_id);

}  // namespace pyflowers

#endif
