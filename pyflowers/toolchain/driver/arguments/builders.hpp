// The functions with which the grammar is written, one for each kind of argument.

#ifndef PYFLOWERS_ARGUMENTS_BUILDERS_HPP
#define PYFLOWERS_ARGUMENTS_BUILDERS_HPP

#include <string>
#include <vector>

#include "arguments/argument.hpp"

namespace pyflowers {

using Arguments = std::vector<Argument>;

Argument group(const std::string& name, const std::string& description, Arguments children);
Argument keyword(const std::string& name, const std::string& description);
// `preferred` is the name of the default child.
Argument choice(const std::string& name, const std::string& description,
                const std::string& preferred, Arguments children);

Argument flag(const std::string& name, const std::string& description, bool fallback);
Argument text(const std::string& name, const std::string& description, const std::string& fallback);
Argument path(const std::string& name, const std::string& description, const std::string& fallback);
Argument unsigned_count(const std::string& name, const std::string& description,
                        unsigned int fallback);
Argument positive_int(const std::string& name, const std::string& description, int fallback);
Argument nonnegative_int(const std::string& name, const std::string& description, int fallback);
Argument positive_real(const std::string& name, const std::string& description, double fallback);
// low <= value <= high
Argument bounded_real(const std::string& name, const std::string& description, double fallback,
                      double low, double high);
// An int valid between low and high, both included.
Argument bounded_int(const std::string& name, const std::string& description, int fallback, int low,
                     int high);

// For other leaves; `validity` describes in words what `accepts` checks.
Argument leaf(const std::string& name, const std::string& description, Value fallback,
              const std::string& validity, std::function<bool(const Value&)> accepts);

}  // namespace pyflowers

#endif
