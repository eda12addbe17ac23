// The options of the command line as plain structures: one for each method, and one for all.

#ifndef PYFLOWERS_OPTIONS_HPP
#define PYFLOWERS_OPTIONS_HPP

#include <string>
#include <variant>

#include "arguments/argument.hpp"

namespace pyflowers {

struct AdaptOptions {
  bool engaged;
  double gamma, delta, kappa, t0;
  unsigned int init_buffer, term_buffer, window;
  bool save_metric;
};

enum class Engine { nuts, fixed_time };
enum class Metric { unit_e, diag_e, dense_e };

struct HmcOptions {
  Engine engine;
  int max_depth;    // of NUTS
  double int_time;  // of static HMC
  Metric metric;
  std::string metric_file;
  double stepsize, stepsize_jitter;
};

struct SampleOptions {
  int num_samples, num_warmup;
  bool save_warmup;
  int thin;
  unsigned int num_chains;
  bool fixed_param;
  AdaptOptions adapt;
  HmcOptions hmc;
};

struct BfgsOptions {
  double init_alpha, tol_obj, tol_rel_obj, tol_grad, tol_rel_grad, tol_param;
  int history_size;  // of L-BFGS
};

enum class Optimizer { bfgs, lbfgs, newton };

struct OptimizeOptions {
  Optimizer algorithm;
  BfgsOptions bfgs;
  bool jacobian;
  int iter;
  bool save_iterations;
};

struct VariationalOptions {
  bool fullrank;
  int iter, grad_samples, elbo_samples;
  double eta;
  bool adapt_engaged;
  int adapt_iter;
  double tol_rel_obj;
  int eval_elbo, output_samples;
};

struct PathfinderOptions {
  BfgsOptions bfgs;
  int num_psis_draws;
  unsigned int num_paths;
  bool save_single_paths, psis_resample, calculate_lp;
  int max_lbfgs_iters, num_draws, num_elbo_draws;
};

struct LaplaceOptions {
  std::string mode_file;
  bool jacobian;
  int draws;
  bool calculate_lp;
};

struct LogProbOptions {
  std::string unconstrained_file, constrained_file;
  bool jacobian;
};

struct GenerateQuantitiesOptions {
  std::string fitted_params_file;
  unsigned int num_chains;
};

struct DiagnoseOptions {
  double epsilon, error;
};

struct OutputOptions {
  std::string file, diagnostic_file, profile_file;
  int refresh, sig_figs;
  bool save_config;
};

// The options of all methods.
struct RunOptions {
  unsigned int id;
  std::string data_file;
  std::string init;
  unsigned int seed;
  OutputOptions output;
  int num_threads;
};

using MethodOptions =
    std::variant<SampleOptions, OptimizeOptions, VariationalOptions, PathfinderOptions,
                 LaplaceOptions, LogProbOptions, GenerateQuantitiesOptions, DiagnoseOptions>;

struct Options {
  RunOptions run;
  MethodOptions method;
};

// Reads the parsed tree. Throws DriverError(config) where arguments contradict each other.
Options read_options(const Argument& root);

// How many chains or paths the method runs, each with files of its own.
unsigned int num_chains(const MethodOptions& method);

}  // namespace pyflowers

#endif
