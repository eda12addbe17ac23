// Nodes of the argument tree, ready to parse.

#include "arguments/builders.hpp"

#include <utility>

namespace pyflowers {
namespace {

Argument parent(Argument::Kind kind, const std::string& name, const std::string& description,
                Arguments children) {
  Argument node;
  node.kind = kind;
  node.name = name;
  node.description = description;
  node.children = std::move(children);
  return node;
}

bool anything(const Value&) { return true; }

}  // namespace

Argument group(const std::string& name, const std::string& description, Arguments children) {
  return parent(Argument::Kind::group, name, description, std::move(children));
}

Argument keyword(const std::string& name, const std::string& description) {
  return parent(Argument::Kind::keyword, name, description, {});
}

Argument choice(const std::string& name, const std::string& description,
                const std::string& preferred, Arguments children) {
  Argument node = parent(Argument::Kind::choice, name, description, std::move(children));
  while (node.children.at(node.preferred).name != preferred) ++node.preferred;
  node.selected = node.preferred;
  return node;
}

Argument leaf(const std::string& name, const std::string& description, Value fallback,
              const std::string& validity, std::function<bool(const Value&)> accepts) {
  Argument node = parent(Argument::Kind::leaf, name, description, {});
  node.value = fallback;
  node.fallback = std::move(fallback);
  node.validity = validity;
  node.default_text = to_text(node.fallback);
  if (node.default_text.empty()) node.default_text = "\"\"";
  node.accepts = std::move(accepts);
  return node;
}

Argument flag(const std::string& name, const std::string& description, bool fallback) {
  return leaf(name, description, fallback, "[0, 1, false, true]", anything);
}

Argument text(const std::string& name, const std::string& description,
              const std::string& fallback) {
  return leaf(name, description, fallback, "All", anything);
}

Argument path(const std::string& name, const std::string& description,
              const std::string& fallback) {
  return leaf(name, description, fallback, "Path to a file", anything);
}

Argument unsigned_count(const std::string& name, const std::string& description,
                        unsigned int fallback) {
  return leaf(name, description, fallback, "0 <= " + name, anything);
}

Argument positive_int(const std::string& name, const std::string& description, int fallback) {
  return leaf(name, description, fallback, "0 < " + name,
              [](const Value& value) { return std::get<int>(value) > 0; });
}

Argument nonnegative_int(const std::string& name, const std::string& description, int fallback) {
  return leaf(name, description, fallback, "0 <= " + name,
              [](const Value& value) { return std::get<int>(value) >= 0; });
}

Argument positive_real(const std::string& name, const std::string& description, double fallback) {
  return leaf(name, description, fallback, "0 < " + name,
              [](const Value& value) { return std::get<double>(value) > 0; });
}

Argument bounded_real(const std::string& name, const std::string& description, double fallback,
                      double low, double high) {
  const std::string validity = to_text(low) + " <= " + name + " <= " + to_text(high);
  return leaf(name, description, fallback, validity, [low, high](const Value& value) {
    return low <= std::get<double>(value) && std::get<double>(value) <= high;
  });
}

Argument bounded_int(const std::string& name, const std::string& description, int fallback, int low,
                     int high) {
  const std::string validity = to_text(low) + " <= " + name + " <= " + to_text(high);
  return leaf(name, description, fallback, validity, [low, high](const Value& value) {
    return low <= std::get<int>(value) && std::get<int>(value) <= high;
  });
}

}  // namespace pyflowers
