// The part of Stan's math library that its services use; the makefile includes it before anything
// else in every source that needs Stan.
//
// Services include all of <stan/math/prim.hpp> and <stan/math/rev.hpp>: 10 s of compiling for each
// source, three times what the services themselves take. Marking these as included, and including
// what is really used, makes the driver compile in half a minute instead of several. A function
// that is missing here is an error of the compiler, never a different result.

#ifndef PYFLOWERS_STAN_MATH_HPP
#define PYFLOWERS_STAN_MATH_HPP

#define STAN_MATH_HPP
#define STAN_MATH_PRIM_HPP
#define STAN_MATH_REV_HPP

#include <tbb/blocked_range.h>
#include <tbb/parallel_for.h>

#include <iomanip>
#include <stan/math/prim/err.hpp>
#include <stan/math/prim/fun/expm1.hpp>
#include <stan/math/prim/fun/log_sum_exp.hpp>
#include <stan/math/prim/fun/square.hpp>
#include <stan/math/prim/fun/sum.hpp>
#include <stan/math/prim/fun/to_matrix.hpp>
#include <stan/math/prim/fun/to_ref.hpp>
#include <stan/math/prim/fun/welford_covar_estimator.hpp>
#include <stan/math/prim/fun/welford_var_estimator.hpp>
#include <stan/math/prim/prob/normal_rng.hpp>
#include <stan/math/prim/prob/std_normal_rng.hpp>
#include <stan/math/rev/core.hpp>
#include <stan/math/rev/fun/grad.hpp>
#include <stan/math/rev/functor/gradient.hpp>

#endif
