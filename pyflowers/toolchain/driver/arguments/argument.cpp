// Values of leaves: how they are read and printed, and the names of their types.

#include "arguments/argument.hpp"

#include <cctype>
#include <limits>
#include <sstream>

namespace pyflowers {
namespace {

bool convert(const std::string& text, bool& result) {
  result = text == "true" || text == "1";
  return result || text == "false" || text == "0";
}

bool convert(const std::string& text, std::string& result) {
  result = text;
  return true;
}

bool convert(const std::string& text, double& result) {
  std::size_t used = 0;
  try {
    result = std::stod(text, &used);
  } catch (const std::logic_error&) {
    return false;
  }
  return used == text.size();
}

// The whole text must be a number in the range of the type. CmdStan reads only the leading digits,
// so there `num_samples=1e3` means 1; here it is an error.
template <typename Integer>
bool convert(const std::string& text, Integer& result) {
  std::size_t used = 0;
  long long wide = 0;
  try {
    wide = std::stoll(text, &used);
  } catch (const std::logic_error&) {
    return false;
  }
  const bool fits = wide >= static_cast<long long>(std::numeric_limits<Integer>::min()) &&
                    wide <= static_cast<long long>(std::numeric_limits<Integer>::max());
  result = static_cast<Integer>(wide);
  return used == text.size() && fits;
}

struct Printer {
  std::string operator()(bool value) const { return value ? "true" : "false"; }
  std::string operator()(const std::string& value) const { return value; }
  template <typename Number>
  std::string operator()(Number value) const {
    std::ostringstream text;
    text << value;
    return text.str();
  }
};

struct TypeNamer {
  std::string operator()(bool) const { return "boolean"; }
  std::string operator()(int) const { return "int"; }
  std::string operator()(unsigned int) const { return "unsigned int"; }
  std::string operator()(long long) const { return "int"; }
  std::string operator()(double) const { return "double"; }
  std::string operator()(const std::string&) const { return "string"; }
};

}  // namespace

std::string to_text(const Value& value) { return std::visit(Printer{}, value); }

std::string type_name(const Value& value) { return std::visit(TypeNamer{}, value); }

bool from_text(const std::string& text, const Value& like, Value& result) {
  result = like;
  return std::visit([&text](auto& typed) { return convert(text, typed); }, result);
}

}  // namespace pyflowers
