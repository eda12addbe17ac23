# brms with rstan on a formula, with brms' own priors; group effects are non-centred.

source(file.path(Sys.getenv("RUNNERS"), "common.R"))
source(file.path(Sys.getenv("RUNNERS"), "brms.R"))

prepare <- function(job) {
  first <- list(do.call(bf, job$formulas), data = job$frame, family = job$family)
  # Some chains never leave a random start; brms' own Weibull model of these data, in ?kidney, also starts at 0.
  both <- if (job$family == "weibull") list(init = "0") else list()
  brms_sampler(job, first, both)
}

save <- function(fit, job) {
  draws <- as.array(fit$fit)
  names <- dimnames(draws)[[3]]
  coefficients <- grep("^b_", names)
  # Coefficients of another parameter come last, as in the other packages.
  coefficients <- coefficients[order(grepl("^b_(sigma|zi)_", names[coefficients]))]
  others <- grep("^(sd_|cor_|r_|sds_|s_|sigma$|shape$|phi$)", names)
  # With se(), brms has a sigma that is always 0.
  others <- others[apply(draws[, , others, drop = FALSE], 3, sd) > 0]
  chosen <- draws[, , c(coefficients, others)]
  labels <- sub("^b_", "", names[coefficients])
  if (!is.null(job$at)) {
    # Columns are points; rows are draws, one chain after another.
    curve <- posterior_linpred(fit, newdata = job$at)
    labels <- paste0("curve[", seq_len(ncol(curve)), "]")
    size <- c(dim(draws)[1:2], ncol(curve) + dim(chosen)[3])
    chosen <- array(c(curve, chosen), size)
  }
  about <- list(coefficients = as.list(labels), num_divergent = rstan::get_num_divergent(fit$fit))
  write_draws(unname(chosen), about)
}

race(prepare, save, c("brms", "rstan", "StanHeaders"))
