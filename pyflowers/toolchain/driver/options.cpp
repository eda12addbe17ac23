// Copies the argument tree into plain structures. Only the grammar and this file use its names.

#include "options.hpp"

#include <stdexcept>

#include "errors.hpp"

namespace pyflowers {
namespace {

AdaptOptions read_adapt(const Argument& adapt) {
  AdaptOptions options;
  options.engaged = adapt.get<bool>("engaged");
  options.gamma = adapt.get<double>("gamma");
  options.delta = adapt.get<double>("delta");
  options.kappa = adapt.get<double>("kappa");
  options.t0 = adapt.get<double>("t0");
  options.init_buffer = adapt.get<unsigned int>("init_buffer");
  options.term_buffer = adapt.get<unsigned int>("term_buffer");
  options.window = adapt.get<unsigned int>("window");
  options.save_metric = adapt.get<bool>("save_metric");
  return options;
}

Metric read_metric(const std::string& name) {
  if (name == "unit_e") return Metric::unit_e;
  return name == "diag_e" ? Metric::diag_e : Metric::dense_e;
}

HmcOptions read_hmc(const Argument& hmc) {
  HmcOptions options;
  const Argument& engine = hmc["engine"];
  options.engine = engine.choice().name == "nuts" ? Engine::nuts : Engine::fixed_time;
  options.max_depth = engine["nuts"].get<int>("max_depth");
  options.int_time = engine["static"].get<double>("int_time");
  options.metric = read_metric(hmc["metric"].choice().name);
  options.metric_file = hmc.get<std::string>("metric_file");
  options.stepsize = hmc.get<double>("stepsize");
  options.stepsize_jitter = hmc.get<double>("stepsize_jitter");
  return options;
}

SampleOptions read_sample(const Argument& sample) {
  SampleOptions options;
  options.num_samples = sample.get<int>("num_samples");
  options.num_warmup = sample.get<int>("num_warmup");
  options.save_warmup = sample.get<bool>("save_warmup");
  options.thin = sample.get<int>("thin");
  options.num_chains = static_cast<unsigned int>(sample.get<int>("num_chains"));
  options.fixed_param = sample["algorithm"].choice().name == "fixed_param";
  options.adapt = read_adapt(sample["adapt"]);
  options.hmc = read_hmc(sample["algorithm"]["hmc"]);
  if (options.num_chains > 1 && !options.fixed_param && options.hmc.engine == Engine::fixed_time) {
    throw DriverError(ExitCode::config,
                      "num_chains: static HMC runs one chain at a time; start the program once for "
                      "each chain with its own id, or use engine=nuts.");
  }
  if (options.adapt.save_metric && !options.adapt.engaged) {
    throw DriverError(
        ExitCode::config,
        "adapt save_metric=1: there is no adapted metric to save with engaged=0; drop "
        "one of the two.");
  }
  return options;
}

BfgsOptions read_bfgs(const Argument& bfgs) {
  BfgsOptions options;
  options.init_alpha = bfgs.get<double>("init_alpha");
  options.tol_obj = bfgs.get<double>("tol_obj");
  options.tol_rel_obj = bfgs.get<double>("tol_rel_obj");
  options.tol_grad = bfgs.get<double>("tol_grad");
  options.tol_rel_grad = bfgs.get<double>("tol_rel_grad");
  options.tol_param = bfgs.get<double>("tol_param");
  options.history_size = bfgs.find("history_size") ? bfgs.get<int>("history_size") : 0;
  return options;
}

OptimizeOptions read_optimize(const Argument& optimize) {
  OptimizeOptions options;
  const Argument& algorithm = optimize["algorithm"].choice();
  options.algorithm = algorithm.name == "bfgs"    ? Optimizer::bfgs
                      : algorithm.name == "lbfgs" ? Optimizer::lbfgs
                                                  : Optimizer::newton;
  options.bfgs = read_bfgs(options.algorithm == Optimizer::newton ? optimize["algorithm"]["lbfgs"]
                                                                  : algorithm);
  options.jacobian = optimize.get<bool>("jacobian");
  options.iter = optimize.get<int>("iter");
  options.save_iterations = optimize.get<bool>("save_iterations");
  return options;
}

VariationalOptions read_variational(const Argument& variational) {
  VariationalOptions options;
  options.fullrank = variational["algorithm"].choice().name == "fullrank";
  options.iter = variational.get<int>("iter");
  options.grad_samples = variational.get<int>("grad_samples");
  options.elbo_samples = variational.get<int>("elbo_samples");
  options.eta = variational.get<double>("eta");
  options.adapt_engaged = variational["adapt"].get<bool>("engaged");
  options.adapt_iter = variational["adapt"].get<int>("iter");
  options.tol_rel_obj = variational.get<double>("tol_rel_obj");
  options.eval_elbo = variational.get<int>("eval_elbo");
  options.output_samples = variational.get<int>("output_samples");
  return options;
}

PathfinderOptions read_pathfinder(const Argument& pathfinder) {
  PathfinderOptions options;
  options.bfgs = read_bfgs(pathfinder);
  options.num_psis_draws = pathfinder.get<int>("num_psis_draws");
  options.num_paths = static_cast<unsigned int>(pathfinder.get<int>("num_paths"));
  options.save_single_paths = pathfinder.get<bool>("save_single_paths");
  options.psis_resample = pathfinder.get<bool>("psis_resample");
  options.calculate_lp = pathfinder.get<bool>("calculate_lp");
  options.max_lbfgs_iters = pathfinder.get<int>("max_lbfgs_iters");
  options.num_draws = pathfinder.get<int>("num_draws");
  options.num_elbo_draws = pathfinder.get<int>("num_elbo_draws");
  return options;
}

LaplaceOptions read_laplace(const Argument& laplace) {
  return {laplace.get<std::string>("mode"), laplace.get<bool>("jacobian"),
          laplace.get<int>("draws"), laplace.get<bool>("calculate_lp")};
}

LogProbOptions read_log_prob(const Argument& log_prob) {
  LogProbOptions options{log_prob.get<std::string>("unconstrained_params"),
                         log_prob.get<std::string>("constrained_params"),
                         log_prob.get<bool>("jacobian")};
  if (options.unconstrained_file.empty() == options.constrained_file.empty()) {
    throw DriverError(
        ExitCode::config,
        "log_prob: name the parameter values in exactly one of unconstrained_params=FILE "
        "and constrained_params=FILE.");
  }
  return options;
}

GenerateQuantitiesOptions read_generate_quantities(const Argument& method) {
  return {method.get<std::string>("fitted_params"),
          static_cast<unsigned int>(method.get<int>("num_chains"))};
}

DiagnoseOptions read_diagnose(const Argument& diagnose) {
  const Argument& gradient = diagnose["test"]["gradient"];
  return {gradient.get<double>("epsilon"), gradient.get<double>("error")};
}

MethodOptions read_method(const Argument& method) {
  if (method.name == "sample") return read_sample(method);
  if (method.name == "optimize") return read_optimize(method);
  if (method.name == "variational") return read_variational(method);
  if (method.name == "pathfinder") return read_pathfinder(method);
  if (method.name == "laplace") return read_laplace(method);
  if (method.name == "log_prob") return read_log_prob(method);
  if (method.name == "generate_quantities") return read_generate_quantities(method);
  if (method.name == "diagnose") return read_diagnose(method);
  throw std::logic_error("method " + method.name + " has no options");
}

OutputOptions read_output(const Argument& output) {
  OutputOptions options;
  options.file = output.get<std::string>("file");
  options.diagnostic_file = output.get<std::string>("diagnostic_file");
  options.profile_file = output.get<std::string>("profile_file");
  options.refresh = output.get<int>("refresh");
  options.sig_figs = output.get<int>("sig_figs");
  options.save_config = output.get<bool>("save_cmdstan_config");
  return options;
}

RunOptions read_run(const Argument& root) {
  RunOptions options;
  options.id = static_cast<unsigned int>(root.get<int>("id"));
  options.data_file = root["data"].get<std::string>("file");
  options.init = root.get<std::string>("init");
  options.seed = static_cast<unsigned int>(root["random"].get<long long>("seed"));
  options.output = read_output(root["output"]);
  options.num_threads = root.get<int>("num_threads");
  return options;
}

struct ChainCounter {
  unsigned int operator()(const SampleOptions& options) const { return options.num_chains; }
  unsigned int operator()(const PathfinderOptions& options) const { return options.num_paths; }
  unsigned int operator()(const GenerateQuantitiesOptions& options) const {
    return options.num_chains;
  }
  template <typename Other>
  unsigned int operator()(const Other&) const {
    return 1;
  }
};

}  // namespace

Options read_options(const Argument& root) {
  return {read_run(root), read_method(root["method"].choice())};
}

unsigned int num_chains(const MethodOptions& method) { return std::visit(ChainCounter{}, method); }

}  // namespace pyflowers
