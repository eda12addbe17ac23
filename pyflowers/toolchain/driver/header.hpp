// The header of the draws: versions, time, arguments and compiler, as comments or as JSON.

#ifndef PYFLOWERS_HEADER_HPP
#define PYFLOWERS_HEADER_HPP

#include <iosfwd>
#include <stan/callbacks/writer.hpp>
#include <stan/model/model_base.hpp>
#include <string>

#include "arguments/argument.hpp"

namespace pyflowers {

// Writes the header of a file of draws.
void write_draws_header(stan::callbacks::writer& writer, const Argument& root,
                        const stan::model::model_base& model);

// Writes the header of a CSV file of diagnostics.
void write_diagnostics_header(stan::callbacks::writer& writer, const Argument& root,
                              const stan::model::model_base& model);

// Writes the same information as a JSON file.
void write_config(const std::string& file, int sig_figs, const Argument& root,
                  const stan::model::model_base& model);

// Prints the answer to `info`: the version of Stan and the flags of this build.
void print_info(std::ostream& out);

}  // namespace pyflowers

#endif
