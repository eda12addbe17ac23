// The profile file, one line for each profile and thread.

#include "profile.hpp"

#include <sstream>
#include <stan/math/rev/core/profiling.hpp>

#include "writers.hpp"

// Defined in the C++ code that stanc generates from a Stan program.
stan::math::profile_map& get_stan_profile_data();

namespace pyflowers {

void write_profile(const std::string& file, int sig_figs) {
  const stan::math::profile_map& profiles = get_stan_profile_data();
  if (profiles.empty()) return;
  OutputFile output(file, sig_figs);
  output.write_line(
      "name,thread_id,total_time,forward_time,reverse_time,chain_stack,no_chain_stack,"
      "autodiff_calls,no_autodiff_calls\n");
  for (const auto& [key, profile] : profiles) {
    std::ostringstream line;
    if (sig_figs >= 0) line.precision(sig_figs);
    line << key.first << ',' << key.second << ',' << profile.get_fwd_time() + profile.get_rev_time()
         << ',' << profile.get_fwd_time() << ',' << profile.get_rev_time() << ','
         << profile.get_chain_stack_used() << ',' << profile.get_nochain_stack_used() << ','
         << profile.get_num_rev_passes() << ',' << profile.get_num_no_AD_fwd_passes() << '\n';
    output.write_line(line.str());
  }
  output.finish();
}

}  // namespace pyflowers
