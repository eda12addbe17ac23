# Code shared by the runners of brms: rstan's compiler, and a sampler that compiles once.

suppressPackageStartupMessages(library(brms))

# Debian's R packages lack Boost and Eigen, which are among the system's C++ headers.
library(rstan, quietly = TRUE)
if (!nzchar(system.file("include", package = "BH"))) rstan_options(boost_lib = "/usr/include")

# Returns a function of a seed that calls brm with the arguments in `first`; those in `both` are also those of a
# further posterior.
brms_sampler <- function(job, first, both = list()) {
  fit <- NULL
  function(seed) {
    options <- c(both, list(
      chains = job$chains, iter = job$warmup + job$draws, warmup = job$warmup,
      cores = job$cores, seed = seed, refresh = 0, silent = 2
    ))
    again <- list(fit, recompile = FALSE)
    # A further posterior reuses the compiled model, as brms' users do.
    fit <<- if (is.null(fit)) do.call(brm, c(first, options)) else do.call(update, c(again, options))
    fit
  }
}
