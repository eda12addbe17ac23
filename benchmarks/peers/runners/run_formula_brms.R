# brms with rstan on a formula, with brms' own priors; group effects are non-centred.

source(file.path(Sys.getenv("RUNNERS"), "common.R"))
source(file.path(Sys.getenv("RUNNERS"), "brms.R"))

prepare <- function(job) {
  brms_sampler(job, list(job$formula, data = job$frame, family = job$family))
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
