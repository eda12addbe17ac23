# brms with rstan on a formula, with brms' own priors; group effects are non-centred.

source(file.path(Sys.getenv("RUNNERS"), "common.R"))
suppressPackageStartupMessages(library(brms))

# Debian takes Boost and Eigen out of the R packages and has them among the C++ headers.
library(rstan, quietly = TRUE)
if (!nzchar(system.file("include", package = "BH"))) rstan_options(boost_lib = "/usr/include")

prepare <- function(job) {
  fit <- NULL
  function(seed) {
    options <- list(
      chains = job$chains, iter = job$warmup + job$draws, warmup = job$warmup,
      cores = job$cores, seed = seed, refresh = 0, silent = 2
    )
    first <- list(job$formula, data = job$frame, family = job$family)
    again <- list(fit, recompile = FALSE)
    # A further posterior reuses the compiled model, as brms' users do.
    fit <<- if (is.null(fit)) do.call(brm, c(first, options)) else do.call(update, c(again, options))
    fit
  }
}

save <- function(fit, job) {
  draws <- as.array(fit$fit)
  names <- dimnames(draws)[[3]]
  coefficients <- grep("^b_", names)
  others <- grep("^(sd_|cor_|r_|sigma$|shape$)", names)
  about <- list(
    coefficients = sub("^b_", "", names[coefficients]),
    num_divergent = rstan::get_num_divergent(fit$fit)
  )
  write_draws(unname(draws[, , c(coefficients, others)]), about)
}

race(prepare, save, c("brms", "rstan", "StanHeaders"))
