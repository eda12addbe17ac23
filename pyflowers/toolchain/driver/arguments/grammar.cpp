// CmdStan 2.35's command line as a table. Names, order, types and defaults are CmdStan's: they are
// the interface, and they are printed at the head of every output file.

#include "arguments/grammar.hpp"

#include <cmath>
#include <limits>

#include "arguments/builders.hpp"

namespace pyflowers {
namespace {

Argument adaptation() {
  return group(
      "adapt", "Adaptation during warmup",
      {flag("engaged", "Whether to adapt", true),
       positive_real("gamma", "Regularization scale", 0.05),
       bounded_real("delta", "Acceptance statistic to aim for", 0.8, 0.1, std::nextafter(1.0, 0.0)),
       positive_real("kappa", "Relaxation exponent", 0.75),
       positive_real("t0", "Iteration offset", 10),
       unsigned_count("init_buffer", "Iterations of the fast interval at the start", 75),
       unsigned_count("term_buffer", "Iterations of the fast interval at the end", 50),
       unsigned_count("window", "Iterations of the first slow interval", 25),
       flag("save_metric", "Save step size and metric as JSON", false)});
}

Argument hmc() {
  const Argument engine = choice(
      "engine", "How far a trajectory goes", "nuts",
      {group("static", "For a fixed time",
             {positive_real("int_time", "Integration time, by default 2 pi", 6.28318530717959)}),
       group("nuts", "Until it turns back: the No-U-Turn sampler",
             {positive_int("max_depth", "Greatest depth of a trajectory's tree", 10)})});
  const Argument metric = choice(
      "metric", "Geometry of the parameter space", "diag_e",
      {keyword("unit_e", "Euclidean, unit metric"), keyword("diag_e", "Euclidean, diagonal metric"),
       keyword("dense_e", "Euclidean, dense metric")});
  return group(
      "hmc", "Hamiltonian Monte Carlo",
      {engine, metric, text("metric_file", "File of the inverse metric to begin with", ""),
       positive_real("stepsize", "Step size to begin with", 1),
       bounded_real("stepsize_jitter", "Jitter of the step size, as a fraction", 0, 0, 1)});
}

Argument sample() {
  return group("sample", "Draw from the posterior by Markov chain Monte Carlo",
               {nonnegative_int("num_samples", "Iterations after warmup", 1000),
                nonnegative_int("num_warmup", "Iterations of warmup", 1000),
                flag("save_warmup", "Write the draws of warmup too", false),
                positive_int("thin", "Keep every so many draws", 1), adaptation(),
                choice("algorithm", "Sampling algorithm", "hmc",
                       {hmc(), keyword("fixed_param", "Parameters stay where they start")}),
                positive_int("num_chains", "Number of chains", 1)});
}

Arguments bfgs_tolerances() {
  return {positive_real("init_alpha", "Step size of the first line search", 0.001),
          positive_real("tol_obj", "Stop at this absolute change of the objective", 1e-12),
          positive_real("tol_rel_obj", "Stop at this relative change of the objective", 1e4),
          positive_real("tol_grad", "Stop at this norm of the gradient", 1e-8),
          positive_real("tol_rel_grad", "Stop at this relative norm of the gradient", 1e7),
          positive_real("tol_param", "Stop at this change of the parameters", 1e-8)};
}

Arguments lbfgs_settings() {
  Arguments settings = bfgs_tolerances();
  settings.push_back(positive_int("history_size", "Number of past updates to keep", 5));
  return settings;
}

Argument jacobian(bool fallback) {
  return flag("jacobian", "Include the change of variables of constrained parameters", fallback);
}

Argument optimize() {
  return group("optimize", "Find the mode",
               {choice("algorithm", "Optimization algorithm", "lbfgs",
                       {group("bfgs", "BFGS with line search", bfgs_tolerances()),
                        group("lbfgs", "L-BFGS with line search", lbfgs_settings()),
                        group("newton", "Newton's method", {})}),
                jacobian(false), positive_int("iter", "Greatest number of iterations", 2000),
                flag("save_iterations", "Write every iteration", false)});
}

Argument variational() {
  const Argument adapt = group("adapt", "Adaptation of the step size",
                               {flag("engaged", "Whether to adapt", true),
                                positive_int("iter", "Iterations of adaptation", 50)});
  return group("variational", "Approximate the posterior by ADVI",
               {choice("algorithm", "Family of approximations", "meanfield",
                       {group("meanfield", "Normal, independent coordinates", {}),
                        group("fullrank", "Normal, full covariance", {})}),
                positive_int("iter", "Greatest number of iterations", 10000),
                positive_int("grad_samples", "Draws for each estimate of the gradient", 1),
                positive_int("elbo_samples", "Draws for each estimate of the ELBO", 100),
                positive_real("eta", "Scale of the step size", 1), adapt,
                positive_real("tol_rel_obj", "Stop at this relative change of the ELBO", 0.01),
                positive_int("eval_elbo", "Iterations between estimates of the ELBO", 100),
                positive_int("output_samples", "Draws to write", 1000)});
}

Argument pathfinder() {
  Arguments settings = lbfgs_settings();
  const Arguments own = {
      positive_int("num_psis_draws", "Draws to keep after importance resampling", 1000),
      positive_int("num_paths", "Number of single paths", 4),
      flag("save_single_paths", "Write the draws of every path", false),
      flag("psis_resample", "Resample the paths' draws by importance", true),
      flag("calculate_lp", "Evaluate the log density at every draw", true),
      positive_int("max_lbfgs_iters", "Greatest number of iterations of a path", 1000),
      positive_int("num_draws", "Draws of each path", 1000),
      positive_int("num_elbo_draws", "Draws for each estimate of the ELBO", 25)};
  settings.insert(settings.end(), own.begin(), own.end());
  return group("pathfinder", "Approximate the posterior along optimization paths", settings);
}

Argument laplace() {
  return group("laplace", "Approximate the posterior by a normal at its mode",
               {text("mode", "CSV output of optimize, or JSON of constrained parameters", ""),
                jacobian(true), nonnegative_int("draws", "Number of draws", 1000),
                flag("calculate_lp", "Evaluate the log density at every draw", true)});
}

Argument log_prob() {
  return group(
      "log_prob", "Evaluate the log density and its gradient",
      {path("unconstrained_params", "JSON or R dump of unconstrained values, as params_r", ""),
       path("constrained_params", "JSON, R dump or CSV of constrained values", ""),
       jacobian(true)});
}

Argument generate_quantities() {
  return group("generate_quantities", "Run generated quantities on given draws",
               {path("fitted_params", "CSV of the draws", ""),
                positive_int("num_chains", "Number of chains", 1)});
}

Argument diagnose() {
  const Argument gradient =
      group("gradient", "Compare the gradient with finite differences",
            {positive_real("epsilon", "Step of the finite differences", 1e-6),
             positive_real("error", "Difference from which on a gradient is wrong", 1e-6)});
  return group("diagnose", "Test the model",
               {choice("test", "What to test", "gradient", {gradient})});
}

Argument method() {
  return choice("method", "What to do; `method=` itself may be left out", "sample",
                {sample(), optimize(), variational(), diagnose(), generate_quantities(),
                 pathfinder(), log_prob(), laplace()});
}

Argument random_numbers(unsigned int drawn) {
  constexpr long long largest = std::numeric_limits<unsigned int>::max();
  Argument seed =
      leaf("seed", "Seed of the random numbers", static_cast<long long>(drawn),
           "0 <= seed <= 4294967295, or -1 to have one drawn", [](const Value& value) {
             return -1 <= std::get<long long>(value) && std::get<long long>(value) <= largest;
           });
  seed.alias = seed.default_text = "-1";
  return group("random", "Random numbers", {seed});
}

Argument output() {
  Argument sig_figs = leaf("sig_figs", "Significant digits of the numbers written", -1,
                           "0 <= sig_figs <= 18, or -1 for the usual 6", [](const Value& value) {
                             return -1 <= std::get<int>(value) && std::get<int>(value) <= 18;
                           });
  return group(
      "output", "What to write, and where",
      {path("file", "Output file", "output.csv"),
       path("diagnostic_file", "File of further diagnostics", ""),
       nonnegative_int("refresh", "Iterations between lines of progress", 100), sig_figs,
       path("profile_file", "File of profiling results", "profile.csv"),
       flag("save_cmdstan_config", "Save all arguments as JSON beside the output", false)});
}

Argument threads(int usual) {
#ifdef STAN_THREADS
  return leaf(
      "num_threads", "Number of threads", usual, "0 < num_threads, or -1 for every core",
      [](const Value& value) { return std::get<int>(value) > 0 || std::get<int>(value) == -1; });
#else
  return bounded_int("num_threads", "Number of threads: more need a model built STAN_THREADS=true",
                     usual, 1, 1);
#endif
}

}  // namespace

Argument cmdstan_grammar(const Ambient& ambient) {
  const Argument init =
      text("init", "Starting values: a radius to draw within, 0 for zero, or a file", "2");
  return group("", "",
               {method(), nonnegative_int("id", "Number of the first chain", 1),
                group("data", "Data of the model", {path("file", "Data file", "")}), init,
                random_numbers(ambient.seed), output(), threads(ambient.num_threads)});
}

}  // namespace pyflowers
