// The layout of configuration and help text is CmdStan's: other programs parse it.

#include "arguments/print.hpp"

#include <iomanip>

namespace pyflowers {
namespace {

std::string indent(int depth) { return std::string(2 * depth, ' '); }

std::string child_names(const Argument& parent) {
  std::string names;
  for (const Argument& child : parent.children) {
    names += (names.empty() ? " " : ", ") + child.name;
  }
  return names;
}

void print_node(const Argument& node, int depth, const LineSink& line) {
  const std::string start = indent(depth) + node.name;
  const std::string mark = node.is_default() ? " (Default)" : "";
  switch (node.kind) {
    case Argument::Kind::group:
      line(start);
      for (const Argument& child : node.children) print_node(child, depth + 1, line);
      break;
    case Argument::Kind::choice:
      line(start + " = " + node.choice().name + mark);
      print_node(node.choice(), depth + 1, line);
      break;
    case Argument::Kind::leaf:
      line(start + " = " + to_text(node.value) + mark);
      break;
    case Argument::Kind::keyword:
      break;
  }
}

// A leaf or choice: its type, meaning, valid values and default.
void help_on_value(const Argument& node, int depth, std::ostream& out) {
  const bool is_choice = node.kind == Argument::Kind::choice;
  const std::string type = is_choice ? "list element" : type_name(node.value);
  const std::string valid = is_choice ? child_names(node) : " " + node.validity;
  const std::string usual = is_choice ? node.children[node.preferred].name : node.default_text;
  out << indent(depth) << node.name << "=<" << type << ">\n"
      << indent(depth + 1) << node.description << '\n'
      << indent(depth + 1) << "Valid values:" << valid << '\n'
      << indent(depth + 1) << "Defaults to " << usual << "\n\n";
}

void help_on_word(const Argument& node, int depth, std::ostream& out) {
  out << indent(depth) << node.name << '\n' << indent(depth + 1) << node.description << '\n';
  if (!node.children.empty()) {
    out << indent(depth + 1) << "Valid subarguments:" << child_names(node) << '\n';
  }
  out << '\n';
}

void help_on_node(const Argument& node, int depth, bool recursive, std::ostream& out) {
  if (node.kind == Argument::Kind::leaf || node.kind == Argument::Kind::choice) {
    help_on_value(node, depth, out);
  } else {
    help_on_word(node, depth, out);
  }
  if (!recursive) return;
  for (const Argument& child : node.children) help_on_node(child, depth + 1, true, out);
}

void usage_row(const std::string& name, const std::string& description, std::ostream& out) {
  out << std::left << std::setw(12) << "  " + name << "  " << description << '\n';
}

}  // namespace

void print_configuration(const Argument& root, const LineSink& line) {
  for (const Argument& argument : root.children) print_node(argument, 0, line);
}

void print_help(const Argument& argument, bool recursive, std::ostream& out) {
  help_on_node(argument, 0, recursive, out);
}

void print_all_help(const Argument& root, std::ostream& out) {
  for (const Argument& argument : root.children) help_on_node(argument, 1, true, out);
}

void print_usage(const Argument& root, const std::string& program, std::ostream& out) {
  out << "Usage: " << program
      << " <arg1> <subarg1_1> ... <subarg1_m> ... <arg_n> <subarg_n_1> ... <subarg_n_m>\n\n"
      << "First choose an inference method or a diagnostic:\n";
  for (const Argument& method : root["method"].children) {
    usage_row(method.name, method.description, out);
  }
  out << "\nOr ask for help:\n";
  usage_row("help", "This page", out);
  usage_row("help-all", "Every argument there is", out);
  usage_row("info", "The versions and flags this program was built with", out);
  out << "\nThen, in any order:\n";
  for (const Argument& argument : root.children) {
    if (argument.name != "method") usage_row(argument.name, argument.description, out);
  }
  out << "\n`" << program << " <arg1> [ help | help-all ]` explains one argument.\n" << std::endl;
}

}  // namespace pyflowers
