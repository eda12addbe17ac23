# rstanarm's stan_glmer, compiled when it was packaged. Its prior on the plants' sd can only be a gamma
# distribution: decov's default, which is exponential, replaces the other methods' prior.

source(file.path(Sys.getenv("RUNNERS"), "common.R"))
suppressPackageStartupMessages(library(rstanarm))

prepare <- function(job) {
  function(seed) {
    stan_glmer(
      y ~ 1 + (1 | plant),
      data = job$frame, family = poisson(),
      prior_intercept = normal(0, 100, autoscale = FALSE),
      prior_covariance = decov(shape = 1, scale = 1),
      chains = job$chains, iter = job$warmup + job$draws, warmup = job$warmup,
      cores = job$cores, seed = seed, refresh = 0
    )
  }
}

save <- function(fit, job) {
  draws <- as.array(fit$stanfit)
  names <- dimnames(draws)[[3]]
  mu <- draws[, , "(Intercept)"]
  plants <- match(sprintf("b[(Intercept) plant:%d]", seq_len(job$num_plants)), names)
  stopifnot(!anyNA(plants))
  mu_plant <- exp(draws[, , plants, drop = FALSE] + as.vector(mu))
  sigma2 <- draws[, , "Sigma[plant:(Intercept),(Intercept)]"]
  save_draws(mu, sigma2, unname(mu_plant), rstan::get_num_divergent(fit$stanfit))
}

race(prepare, save, c("rstanarm", "rstan", "StanHeaders"))
