// Times that `profile` statements of the Stan program took.

#ifndef PYFLOWERS_PROFILE_HPP
#define PYFLOWERS_PROFILE_HPP

#include <string>

namespace pyflowers {

// The grammar's default, which is written only if there is something to write.
inline constexpr const char* default_profile_file = "profile.csv";

// Writes nothing when the program has no `profile` statements.
void write_profile(const std::string& file, int sig_figs);

}  // namespace pyflowers

#endif
