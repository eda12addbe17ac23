// A C interface over the class that stanc generates: a program's log density and its transforms.
//
// Compiled with the generated header included before this file (-include) into a shared library
// that pyflowers/samplers/stan_density.py loads. Matrices are row-major, a point a row. Functions
// that can fail return 0 on success and else write Stan's message; no exception leaves this file.
// Stan's autodiff stack is one for the whole library: callers hold Python's GIL.

#include <cmath>
#include <exception>
#include <limits>
#include <memory>
#include <sstream>
#include <stan/io/json/json_data.hpp>
#include <stan/services/util/create_rng.hpp>
#include <stdexcept>
#include <string>
#include <vector>

#define EXPORT extern "C" __attribute__((visibility("default")))

namespace {

using stan::math::var;
using stan::model::model_base;
using VectorMap = Eigen::Map<Eigen::VectorXd>;
using ConstVectorMap = Eigen::Map<const Eigen::VectorXd>;

// The one place that turns exceptions into a status.
template <typename F>
int guarded(std::string& message, const F& work) {
  try {
    work();
    return 0;
  } catch (const std::exception& error) {
    message = error.what();
  } catch (...) {
    message = "an exception of unknown type";
  }
  return 1;
}

// The log density of one point; with a gradient, that replaces the point. Constants that no
// parameter enters are left out, as in CmdStan's lp__. A rejection, which Stan's samplers take for
// an infinite energy, is the log density -inf with gradient 0; any other exception is a defect.
template <bool with_gradient>
double evaluate(const model_base& model, VectorMap point) {
  const stan::math::nested_rev_autodiff nested;
  Eigen::Matrix<var, Eigen::Dynamic, 1> x = point;
  if (with_gradient) point.setZero();
  try {
    var log_density = model.log_prob_propto_jacobian(x, nullptr);
    if (std::isnan(log_density.val())) return -std::numeric_limits<double>::infinity();
    if (with_gradient) {
      log_density.grad();
      point = x.adj();
    }
    return log_density.val();
  } catch (const std::domain_error&) {
    return -std::numeric_limits<double>::infinity();
  }
}

void copy_row(const Eigen::VectorXd& row, double* target, Eigen::Index size) {
  if (row.size() != size) throw std::runtime_error("the program's number of values varies");
  VectorMap(target, size) = row;
}

std::string joined(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += name + '\n';
  return text;
}

// A line a variable: its name and its dimensions.
std::string variables(const model_base& model) {
  std::vector<std::string> names;
  std::vector<std::vector<std::size_t>> dims;
  model.get_param_names(names, true, false);
  model.get_dims(dims, true, false);
  std::ostringstream text;
  for (std::size_t i = 0; i < names.size(); ++i) {
    text << names[i];
    for (const std::size_t dim : dims[i]) text << ' ' << dim;
    text << '\n';
  }
  return text.str();
}

}  // namespace

// A model with what Python asks of it once.
struct Density {
  std::unique_ptr<model_base> model;
  stan::rng_t rng;
  std::string variables;      // parameters and transformed parameters with their dimensions
  std::string unconstrained;  // names of the coordinates
  Eigen::Index dim;           // number of coordinates
  std::string message;        // what went wrong last
};

namespace {

Density* make_density(const char* json, unsigned int seed) {
  std::istringstream stream(json);
  stan::json::json_data context(stream);
  std::unique_ptr<model_base> model(&new_model(context, seed, nullptr));
  std::vector<std::string> names;
  model->unconstrained_param_names(names, false, false);
  const std::string about = variables(*model);
  const auto dim = static_cast<Eigen::Index>(model->num_params_r());
  auto rng = stan::services::util::create_rng(seed, 1);
  return new Density{std::move(model), rng, about, joined(names), dim, ""};
}

template <bool with_gradient>
int evaluate_rows(Density* density, double* rows, int num, double* log_density) {
  return guarded(density->message, [&] {
    for (int i = 0; i < num; ++i) {
      VectorMap row(rows + i * density->dim, density->dim);
      log_density[i] = evaluate<with_gradient>(*density->model, row);
    }
  });
}

}  // namespace

// Null if it fails; Stan's message is then in `message`.
EXPORT Density* density_new(const char* json, unsigned int seed, char* message, int message_size) {
  Density* result = nullptr;
  std::string said;
  guarded(said, [&] { result = make_density(json, seed); });
  message[said.copy(message, message_size - 1)] = '\0';
  return result;
}

EXPORT void density_delete(Density* density) { delete density; }

EXPORT const char* density_variables(const Density* density) { return density->variables.c_str(); }

EXPORT const char* density_unconstrained(const Density* density) {
  return density->unconstrained.c_str();
}

EXPORT const char* density_message(const Density* density) { return density->message.c_str(); }

// `rows` is (num, dim): points.
EXPORT int density_log(Density* density, double* rows, int num, double* log_density) {
  return evaluate_rows<false>(density, rows, num, log_density);
}

// `rows` is (num, dim): points before, gradients after.
EXPORT int density_gradient(Density* density, double* rows, int num, double* log_density) {
  return evaluate_rows<true>(density, rows, num, log_density);
}

// `values` is (num, width): parameters and transformed parameters in Stan's order.
EXPORT int density_constrain(Density* density, const double* points, int num, double* values,
                             int width) {
  return guarded(density->message, [&] {
    for (int i = 0; i < num; ++i) {
      Eigen::VectorXd point = ConstVectorMap(points + i * density->dim, density->dim);
      Eigen::VectorXd row;
      density->model->write_array(density->rng, point, row, true, false, nullptr);
      copy_row(row, values + i * width, width);
    }
  });
}

// `values` is (num, width): parameters in Stan's order.
EXPORT int density_unconstrain(Density* density, const double* values, int num, int width,
                               double* points) {
  return guarded(density->message, [&] {
    for (int i = 0; i < num; ++i) {
      const Eigen::VectorXd row = ConstVectorMap(values + i * width, width);
      Eigen::VectorXd point;
      density->model->unconstrain_array(row, point, nullptr);
      copy_row(point, points + i * density->dim, density->dim);
    }
  });
}
