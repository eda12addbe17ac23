// The argument tree: the arguments that are allowed, with the values that were given.
//
// A tree has four kinds of node, after CmdStan's syntax:
//   group    `adapt delta=0.9`  a word, then any of its children
//   choice   `engine=nuts`      exactly one of its children, then that child's own children
//   keyword  `diag_e`           a child of a choice that has nothing to configure
//   leaf     `delta=0.9`        a typed value with a default and a validity

#ifndef PYFLOWERS_ARGUMENTS_ARGUMENT_HPP
#define PYFLOWERS_ARGUMENTS_ARGUMENT_HPP

#include <cstddef>
#include <functional>
#include <stdexcept>
#include <string>
#include <variant>
#include <vector>

namespace pyflowers {

// The types of leaves; seeds, which may be larger than an `int`, are `long long`.
using Value = std::variant<bool, int, unsigned int, long long, double, std::string>;

struct Argument {
  enum class Kind { group, choice, keyword, leaf };

  Kind kind = Kind::group;
  std::string name;
  std::string description;
  std::vector<Argument> children;

  std::size_t selected = 0;   // of a choice: the selected child
  std::size_t preferred = 0;  // of a choice: the default child

  Value value;                                // of a leaf
  Value fallback;                             // of a leaf: its default
  std::string validity;                       // of a leaf: which values are valid, in words
  std::string default_text;                   // of a leaf: its default in help texts
  std::string alias;                          // of a leaf: a text that stands for its default
  std::function<bool(const Value&)> accepts;  // of a leaf

  bool is_default() const {
    return kind == Kind::choice ? selected == preferred : value == fallback;
  }

  // The child of this name, or null.
  const Argument* find(const std::string& child) const {
    for (const Argument& candidate : children) {
      if (candidate.name == child) return &candidate;
    }
    return nullptr;
  }
  Argument* find(const std::string& child) {
    return const_cast<Argument*>(static_cast<const Argument*>(this)->find(child));
  }

  // The child of this name, which must exist.
  const Argument& operator[](const std::string& child) const {
    if (const Argument* found = find(child)) return *found;
    throw std::logic_error("the grammar has no argument \"" + child + "\" under \"" + name + "\"");
  }

  // The selected child of a choice.
  const Argument& choice() const { return children.at(selected); }

  // The value of the leaf of this name.
  template <typename T>
  const T& get(const std::string& child) const {
    return std::get<T>((*this)[child].value);
  }
};

// A value as CmdStan prints it; doubles have six significant digits.
std::string to_text(const Value& value);

// A leaf's type in the words of CmdStan's help.
std::string type_name(const Value& value);

// Reads `text` as a value of the same type as `like`; false when it is not one.
bool from_text(const std::string& text, const Value& like, Value& result);

}  // namespace pyflowers

#endif
