# brms with rstan: the same priors, sigma2 = sd^2, so p(sd) = 2 sd p(sigma2); always non-centred.

source(file.path(Sys.getenv("RUNNERS"), "common.R"))
suppressPackageStartupMessages(library(brms))

# Debian takes Boost and Eigen out of the R packages and has them among the C++ headers.
library(rstan, quietly = TRUE)
if (!nzchar(system.file("include", package = "BH"))) rstan_options(boost_lib = "/usr/include")

prepare <- function(job) {
  prior <- c(
    set_prior("normal(0, 100)", class = "Intercept"),
    set_prior("", class = "sd"), # flat, for the next line to say it all
    set_prior(
      "target += scaled_inv_chi_square_lpdf(square(sd_1[1]) | 1, 2) + log(sd_1[1])",
      check = FALSE
    )
  )
  fit <- NULL
  function(seed) {
    options <- list(
      chains = job$chains, iter = job$warmup + job$draws, warmup = job$warmup,
      cores = job$cores, seed = seed, refresh = 0, silent = 2
    )
    first <- list(y ~ 1 + (1 | plant), data = job$frame, family = poisson(), prior = prior)
    again <- list(fit, recompile = FALSE)
    # A further posterior reuses the compiled model, as brms' users do.
    fit <<- if (is.null(fit)) do.call(brm, c(first, options)) else do.call(update, c(again, options))
    fit
  }
}

save <- function(fit, job) {
  draws <- as.array(fit$fit)
  names <- dimnames(draws)[[3]]
  mu <- draws[, , "b_Intercept"]
  plants <- which(startsWith(names, "r_plant["))
  stopifnot(identical(names[plants], sprintf("r_plant[%d,Intercept]", seq_len(job$num_plants))))
  mu_plant <- exp(draws[, , plants, drop = FALSE] + as.vector(mu))
  divergent <- rstan::get_num_divergent(fit$fit)
  save_draws(mu, draws[, , "sd_plant__Intercept"]^2, unname(mu_plant), divergent)
}

race(prepare, save, c("brms", "rstan", "StanHeaders"))
