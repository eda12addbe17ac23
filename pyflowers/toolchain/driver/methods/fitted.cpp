// Reads the output of an earlier fit, and checks that it belongs to this model.

#include "methods/fitted.hpp"

#include <algorithm>
#include <exception>
#include <iostream>
#include <sstream>

#include "csv.hpp"
#include "errors.hpp"
#include "files.hpp"

namespace pyflowers {
namespace {

using Model = stan::model::model_base;

std::vector<std::string> parameter_names(const Model& model) {
  std::vector<std::string> names;
  model.constrained_param_names(names, false, false);
  if (names.empty()) {
    throw DriverError(ExitCode::config, model.model_name() +
                                            " has no parameters that a file could give values to; "
                                            "use sample algorithm=fixed_param.");
  }
  return names;
}

// Runs a transform of the model; the messages of its errors begin with the file's name.
template <typename Transform>
Point unconstrain(const std::string& file, Transform transform) {
  std::stringstream messages;
  Point point;
  try {
    transform(point, &messages);
  } catch (const std::exception& error) {
    throw DriverError(
        ExitCode::bad_input,
        file + ": the values do not fit the model's parameters: " + error.what() + messages.str());
  }
  return point;
}

Point unconstrain_row(const CsvTable& table, const std::vector<double>& row, std::size_t num_values,
                      const Model& model) {
  const auto first = row.begin() + static_cast<std::ptrdiff_t>(table.first_parameter());
  const std::vector<double> values(first, first + static_cast<std::ptrdiff_t>(num_values));
  return unconstrain(table.file, [&](Point& point, std::ostream* messages) {
    point.resize(model.num_params_r());
    model.unconstrain_array(values, point, messages);
  });
}

Point unconstrain_context(const std::string& file, const Model& model) {
  const Context context = read_context(file);
  return unconstrain(file, [&](Point& point, std::ostream* messages) {
    std::vector<int> no_integers;
    point.resize(model.num_params_r());
    model.transform_inits(*context, no_integers, point, messages);
  });
}

CsvTable read_fit(const std::string& file, const std::vector<std::string>& parameters) {
  CsvTable table = read_csv(file);
  table.require_parameters(parameters);
  if (table.rows.empty()) {
    throw DriverError(ExitCode::bad_input,
                      file + " holds no draws; give a file of a finished fit.");
  }
  return table;
}

bool is_optimization(const CsvTable& table) {
  return std::any_of(table.comments.begin(), table.comments.end(), [](const std::string& line) {
    return line.find("method = optimize") != std::string::npos;
  });
}

void require_name(const std::string& file, const std::string& argument) {
  if (!file.empty()) return;
  throw DriverError(
      ExitCode::config,
      argument + " is not given; name the file of an earlier fit: " + argument + "=FILE.");
}

}  // namespace

Point read_mode(const std::string& file, const Model& model) {
  require_name(file, "laplace mode");
  const std::string suffix = split_suffix(file).suffix;
  if (suffix == ".json") return unconstrain_context(file, model);
  if (suffix != ".csv") {
    throw DriverError(ExitCode::bad_input, file +
                                               " is neither .csv nor .json; give the output of "
                                               "optimize, or JSON of the parameters.");
  }
  const std::vector<std::string> names = parameter_names(model);
  const CsvTable table = read_fit(file, names);
  if (!is_optimization(table)) {
    throw DriverError(ExitCode::bad_input, file +
                                               " was not written by optimize; give the output of "
                                               "optimize, or JSON of the parameters.");
  }
  // With save_iterations=1, the mode is in the last row. CmdStan reads the first row, the start.
  return unconstrain_row(table, table.rows.back(), names.size(), model);
}

std::vector<Point> read_constrained(const std::string& file, const Model& model) {
  const std::vector<std::string> names = parameter_names(model);
  if (split_suffix(file).suffix != ".csv") return {unconstrain_context(file, model)};
  const CsvTable table = read_fit(file, names);
  std::vector<Point> points;
  for (const std::vector<double>& row : table.rows) {
    points.push_back(unconstrain_row(table, row, names.size(), model));
  }
  return points;
}

std::vector<Point> read_unconstrained(const std::string& file, const Model& model) {
  const Context context = read_context(file);
  const std::vector<double> values = context->vals_r("params_r");
  if (values.empty()) {
    throw DriverError(ExitCode::bad_input,
                      file +
                          " has no values of params_r; give it a vector of unconstrained "
                          "parameters, or an array of such vectors.");
  }
  const std::vector<std::size_t> dims = context->dims_r("params_r");
  const std::size_t num_points = dims.size() == 2 ? dims[0] : 1;
  const std::size_t length = values.size() / num_points;
  if (length != model.num_params_r()) {
    throw DriverError(ExitCode::bad_input, file + ": params_r has " + std::to_string(length) +
                                               " values, but the model has " +
                                               std::to_string(model.num_params_r()) +
                                               " unconstrained parameters; give as many.");
  }
  // CmdStan 2.35 fills the points in order, although arrays are stored column by column: the
  // values of several points are mixed up. The driver does the same, but with a warning.
  if (num_points > 1) {
    std::cerr << "Warning: " << file
              << " holds several points, which CmdStan 2.35 mixes up: point i "
              << "is read as if params_r were stored row by row; give one point a run."
              << std::endl;
  }
  std::vector<Point> points;
  for (std::size_t i = 0; i < num_points; ++i) {
    const auto first = values.begin() + static_cast<std::ptrdiff_t>(i * length);
    points.emplace_back(first, first + static_cast<std::ptrdiff_t>(length));
  }
  return points;
}

std::vector<Eigen::MatrixXd> read_draws(const std::string& file, unsigned int num_chains,
                                        const Run& run) {
  require_name(file, "generate_quantities fitted_params");
  if (split_suffix(file).suffix != ".csv") {
    throw DriverError(ExitCode::bad_input, file + " is not called .csv; give the CSV of a fit.");
  }
  const std::vector<std::string> names = parameter_names(run.model);
  std::vector<Eigen::MatrixXd> chains;
  for (const std::string& name : chain_files(file, {"", ".csv", num_chains, run.options.id})) {
    const CsvTable table = read_fit(name, names);
    const std::size_t first = table.first_parameter();
    Eigen::MatrixXd draws(table.rows.size(), names.size());
    for (Eigen::Index i = 0; i < draws.rows(); ++i) {
      for (Eigen::Index j = 0; j < draws.cols(); ++j) draws(i, j) = table.rows[i][first + j];
    }
    chains.push_back(std::move(draws));
  }
  return chains;
}

}  // namespace pyflowers
