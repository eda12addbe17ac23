// Parameters from files of earlier fits.

#ifndef PYFLOWERS_METHODS_FITTED_HPP
#define PYFLOWERS_METHODS_FITTED_HPP

#include <stan/math/prim/fun/Eigen.hpp>
#include <stan/model/model_base.hpp>
#include <string>
#include <vector>

#include "run.hpp"

namespace pyflowers {

// A point of the unconstrained space.
using Point = std::vector<double>;

// All of these throw DriverError, naming the file, when its contents do not fit the model.

// The mode, from optimize's CSV output or from JSON of constrained parameters.
Point read_mode(const std::string& file, const stan::model::model_base& model);

// Points given as constrained parameters: each draw of a CSV file, or one of JSON or R dump.
std::vector<Point> read_constrained(const std::string& file, const stan::model::model_base& model);

// Points of the unconstrained space: JSON or R dump of `params_r`, a vector or an array of vectors.
std::vector<Point> read_unconstrained(const std::string& file,
                                      const stan::model::model_base& model);

// Each chain's draws of the constrained parameters, one row for each draw.
std::vector<Eigen::MatrixXd> read_draws(const std::string& file, unsigned int num_chains,
                                        const Run& run);

}  // namespace pyflowers

#endif
