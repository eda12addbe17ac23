# brms with rstan: the same priors, sigma2 = sd^2, so p(sd) = 2 sd p(sigma2); always non-centred.

source(file.path(Sys.getenv("RUNNERS"), "common.R"))
source(file.path(Sys.getenv("RUNNERS"), "brms.R"))

prepare <- function(job) {
  prior <- c(
    set_prior("normal(0, 100)", class = "Intercept"),
    set_prior("", class = "sd"), # flat, because the next prior replaces it
    set_prior(
      "target += scaled_inv_chi_square_lpdf(square(sd_1[1]) | 1, 2) + log(sd_1[1])",
      check = FALSE
    )
  )
  brms_sampler(job, list(y ~ 1 + (1 | plant), data = job$frame, family = poisson(), prior = prior))
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
