// The inputs and outputs of a method.

#ifndef PYFLOWERS_RUN_HPP
#define PYFLOWERS_RUN_HPP

#include <stan/callbacks/interrupt.hpp>
#include <stan/callbacks/logger.hpp>
#include <stan/callbacks/writer.hpp>
#include <stan/model/model_base.hpp>
#include <string>
#include <vector>

#include "inputs.hpp"
#include "options.hpp"
#include "writers.hpp"

namespace pyflowers {

struct Run {
  stan::model::model_base& model;
  const RunOptions& options;
  const StartingValues& start;
  Outputs& outputs;
  stan::callbacks::logger& logger;

  // Stan's services require these; as in CmdStan, they are not used.
  stan::callbacks::interrupt interrupt;
  std::vector<stan::callbacks::writer> init_writers;
};

}  // namespace pyflowers

#endif
