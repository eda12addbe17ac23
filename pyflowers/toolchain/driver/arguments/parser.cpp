// Parses by recursive descent over the tree. A group takes tokens as long as they name one of its
// children, and leaves the rest to its parent. So `adapt delta=0.9 algorithm=hmc` closes `adapt`
// without a bracket.

#include "arguments/parser.hpp"

#include <cstddef>
#include <utility>

#include "arguments/print.hpp"
#include "errors.hpp"

namespace pyflowers {
namespace {

// A token, split at its first `=`.
struct Word {
  std::string key;
  std::string value;
  bool has_value;
};

Word split(const std::string& token) {
  const std::size_t equals = token.find('=');
  if (equals == std::string::npos) return {token, "", false};
  return {token.substr(0, equals), token.substr(equals + 1), true};
}

// All places of the tree in which an argument of this name is allowed.
void find_places(const Argument& node, const std::string& name, const std::string& path,
                 std::vector<std::string>& places) {
  const bool is_choice = node.kind == Argument::Kind::choice;
  if (node.name == name) {
    const std::string type = is_choice ? "<list element>" : "<" + type_name(node.value) + ">";
    const bool takes_value = is_choice || node.kind == Argument::Kind::leaf;
    places.push_back(path + node.name + (takes_value ? "=" + type : ""));
  }
  for (const Argument& child : node.children) {
    find_places(child, name, path + node.name + (is_choice ? "=" : " "), places);
  }
}

[[noreturn]] void fail(const std::string& message) {
  throw DriverError(ExitCode::usage, "Command line: " + message);
}

[[noreturn]] void fail_misplaced(const Argument& root, const std::string& token) {
  std::vector<std::string> places;
  for (const Argument& argument : root.children) {
    find_places(argument, split(token).key, "", places);
  }
  std::string message = token + " is mistyped or misplaced";
  if (places.empty()) fail(message + "; `help-all` lists every argument.");
  message += "; it belongs in";
  for (const std::string& place : places) message += "\n  " + place;
  fail(message);
}

class Parser {
 public:
  Parser(Argument& root, std::vector<std::string> tokens, std::ostream& help)
      : root_(root), tokens_(std::move(tokens)), help_(help) {}

  Request parse();

 private:
  bool done() const { return next_ == tokens_.size(); }
  const std::string& token() const { return tokens_[next_]; }

  void allow_bare_method();
  void parse_named(Argument& node);
  void parse_node(Argument& node);
  void parse_group(Argument& group);
  void parse_choice(Argument& choice, const std::string& value);
  void parse_leaf(Argument& leaf, const std::string& value);
  bool take_help(const Argument& node);

  Argument& root_;
  std::vector<std::string> tokens_;
  std::ostream& help_;
  std::size_t next_ = 0;
  bool method_given_ = false;
  bool helped_ = false;
};

Request Parser::parse() {
  std::vector<const Argument*> seen;
  while (!done()) {
    allow_bare_method();
    if (token() == "help") return Request::show_usage;
    if (token() == "info") return Request::show_info;
    if (token() == "help-all") {
      print_all_help(root_, help_);
      return Request::help_shown;
    }
    Argument* argument = root_.find(split(token()).key);
    if (argument == nullptr) fail_misplaced(root_, token());
    for (const Argument* earlier : seen) {
      if (earlier == argument) fail(argument->name + " is given twice; name it once.");
    }
    seen.push_back(argument);
    parse_named(*argument);
    if (helped_) return Request::help_shown;
  }
  if (!method_given_) fail("no method is named; begin with one, such as `sample`.");
  return Request::run_method;
}

// `sample` is short for `method=sample`.
void Parser::allow_bare_method() {
  if (!method_given_ && root_["method"].find(token()) != nullptr) {
    tokens_[next_] = "method=" + token();
  }
  method_given_ = method_given_ || split(token()).key == "method";
}

// The current token names `node`. A leaf or choice may also be a word by itself, as in
// `num_samples help`.
void Parser::parse_named(Argument& node) {
  const bool takes_value = node.kind == Argument::Kind::leaf || node.kind == Argument::Kind::choice;
  if (split(token()).has_value != takes_value) {
    if (!takes_value) fail(token() + ": " + node.name + " takes no value; write it alone.");
    ++next_;
    if (!done() && take_help(node)) return;
    if (done() || split(token()).key != node.name || !split(token()).has_value) {
      fail(node.name + " needs a value: " + node.name + "=...; `" + node.name +
           " help` lists them.");
    }
  }
  parse_node(node);
}

void Parser::parse_node(Argument& node) {
  const Word word = split(token());
  ++next_;
  switch (node.kind) {
    case Argument::Kind::group:
      return parse_group(node);
    case Argument::Kind::choice:
      return parse_choice(node, word.value);
    case Argument::Kind::leaf:
      return parse_leaf(node, word.value);
    case Argument::Kind::keyword:
      return;
  }
}

void Parser::parse_group(Argument& group) {
  while (!done()) {
    if (take_help(group)) return;
    Argument* child = group.find(split(token()).key);
    if (child == nullptr) return;
    parse_named(*child);
  }
}

void Parser::parse_choice(Argument& choice, const std::string& value) {
  for (std::size_t i = 0; i < choice.children.size(); ++i) {
    if (choice.children[i].name != value) continue;
    choice.selected = i;
    if (choice.children[i].kind == Argument::Kind::group) return parse_group(choice.children[i]);
    if (!done()) take_help(choice.children[i]);
    return;
  }
  std::string valid;
  for (const Argument& child : choice.children) valid += (valid.empty() ? "" : ", ") + child.name;
  fail(choice.name + "=" + value + " is not valid; choose one of " + valid + ".");
}

void Parser::parse_leaf(Argument& leaf, const std::string& text) {
  Value value;
  if (!from_text(text, leaf.fallback, value) || !leaf.accepts(value)) {
    fail(leaf.name + "=" + text + " is not valid; give a value of type " +
         type_name(leaf.fallback) + " (" + leaf.validity + ").");
  }
  leaf.value = text == leaf.alias ? leaf.fallback : value;
}

// Answers `help` and `help-all`, and ends the command line there.
bool Parser::take_help(const Argument& node) {
  if (token() != "help" && token() != "help-all") return false;
  print_help(node, token() == "help-all", help_);
  helped_ = true;
  next_ = tokens_.size();
  return true;
}

}  // namespace

Request parse_arguments(Argument& root, std::vector<std::string> tokens, std::ostream& help) {
  if (tokens.empty()) return Request::show_usage;
  return Parser(root, std::move(tokens), help).parse();
}

}  // namespace pyflowers
