// The part of BridgeStan's C interface that pyflowers calls, over the class that stanc generates: a
// program's log density, its gradient and its transforms. Names, arguments and results are those of
// https://roualdes.us/bridgestan/latest/languages/c-api.html, which the interpreter stanli has too.
//
// Compiled with the generated header included before this file (-include) into a shared library
// that pyflowers/engines/bridge.py loads. Two things differ from BridgeStan: a rejection, which
// Stan's samplers take for an infinite energy, is the log density -inf with gradient 0 and not a
// failure; and what the program prints is discarded. Functions that can fail return 0 on success
// and otherwise give Stan's message; no exception leaves this file. Stan's autodiff stack is one
// for the whole library: callers hold Python's GIL.

#include <cmath>
#include <cstring>
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

using stan::math::var;
using stan::model::model_base;
using VectorMap = Eigen::Map<Eigen::VectorXd>;
using ConstVectorMap = Eigen::Map<const Eigen::VectorXd>;

// A model with the names of its quantities, separated by commas, which Python reads once.
struct bs_model {
  std::unique_ptr<model_base> model;
  stan::rng_t rng;
  std::string unconstrained_names;
  std::string names[2][2];  // with transformed parameters, with generated quantities
};

namespace {

// The one place that turns exceptions into a status.
template <typename F>
int guarded(char** message, const F& work) {
  try {
    work();
    return 0;
  } catch (const std::exception& error) {
    *message = strdup(error.what());
  } catch (...) {
    *message = strdup("an exception of unknown type");
  }
  return 1;
}

std::string joined(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ",") + name;
  return text;
}

void copy(const Eigen::VectorXd& values, double* target) {
  VectorMap(target, values.size()) = values;
}

var log_prob(const model_base& model, bool propto, bool jacobian,
             Eigen::Matrix<var, Eigen::Dynamic, 1>& x) {
  if (propto && jacobian) return model.log_prob_propto_jacobian(x, nullptr);
  if (propto) return model.log_prob_propto(x, nullptr);
  if (jacobian) return model.log_prob_jacobian(x, nullptr);
  return model.log_prob(x, nullptr);
}

// The log density of a point, and its gradient unless that is null.
void evaluate(const bs_model& made, bool propto, bool jacobian, const double* point,
              double* log_density, double* gradient) {
  const auto dim = static_cast<Eigen::Index>(made.model->num_params_r());
  const stan::math::nested_rev_autodiff nested;
  Eigen::Matrix<var, Eigen::Dynamic, 1> x = ConstVectorMap(point, dim);
  *log_density = -std::numeric_limits<double>::infinity();
  if (gradient) VectorMap(gradient, dim).setZero();
  try {
    var found = log_prob(*made.model, propto, jacobian, x);
    if (std::isnan(found.val())) return;
    if (gradient) {
      found.grad();
      VectorMap(gradient, dim) = x.adj();
    }
    *log_density = found.val();
  } catch (const std::domain_error&) {
    // a rejection
  }
}

}  // namespace

EXPORT bs_model* bs_model_construct(const char* json, unsigned int seed, char** message) {
  std::unique_ptr<bs_model> made;
  guarded(message, [&] {
    std::istringstream stream(json);
    stan::json::json_data context(stream);
    std::unique_ptr<model_base> model(&new_model(context, seed, nullptr));
    made.reset(new bs_model{std::move(model), stan::services::util::create_rng(seed, 1), "", {}});
    std::vector<std::string> names;
    made->model->unconstrained_param_names(names, false, false);
    made->unconstrained_names = joined(names);
    for (const bool transformed : {false, true}) {
      for (const bool generated : {false, true}) {
        names.clear();
        made->model->constrained_param_names(names, transformed, generated);
        made->names[transformed][generated] = joined(names);
      }
    }
  });
  return made.release();
}

EXPORT void bs_model_destruct(bs_model* made) { delete made; }

EXPORT void bs_free_error_msg(char* message) { free(message); }

EXPORT const char* bs_param_names(const bs_model* made, bool transformed, bool generated) {
  return made->names[transformed][generated].c_str();
}

EXPORT const char* bs_param_unc_names(const bs_model* made) {
  return made->unconstrained_names.c_str();
}

EXPORT int bs_log_density(const bs_model* made, bool propto, bool jacobian, const double* point,
                          double* log_density, char** message) {
  return guarded(message, [&] { evaluate(*made, propto, jacobian, point, log_density, nullptr); });
}

EXPORT int bs_log_density_gradient(const bs_model* made, bool propto, bool jacobian,
                                   const double* point, double* log_density, double* gradient,
                                   char** message) {
  return guarded(message, [&] { evaluate(*made, propto, jacobian, point, log_density, gradient); });
}

// `values` has as many elements as bs_param_names has names. The generator is the model's own.
EXPORT int bs_param_constrain(bs_model* made, bool transformed, bool generated, const double* point,
                              double* values, void*, char** message) {
  return guarded(message, [&] {
    const auto dim = static_cast<Eigen::Index>(made->model->num_params_r());
    Eigen::VectorXd x = ConstVectorMap(point, dim);
    Eigen::VectorXd found;
    made->model->write_array(made->rng, x, found, transformed, generated, nullptr);
    copy(found, values);
  });
}

// `values` are the parameters, without transformed ones.
EXPORT int bs_param_unconstrain(const bs_model* made, const double* values, double* point,
                                char** message) {
  return guarded(message, [&] {
    std::vector<std::string> names;
    made->model->constrained_param_names(names, false, false);
    const Eigen::VectorXd given = ConstVectorMap(values, static_cast<Eigen::Index>(names.size()));
    Eigen::VectorXd found;
    made->model->unconstrain_array(given, found, nullptr);
    copy(found, point);
  });
}
