# lme4: maximum likelihood by Laplace's approximation, and the plants' conditional modes.

source(file.path(Sys.getenv("RUNNERS"), "common.R"))
suppressPackageStartupMessages(library(lme4))

prepare <- function(job) {
  function(seed) glmer(y ~ 1 + (1 | plant), data = job$frame, family = poisson())
}

save <- function(fit, job) {
  rates <- exp(coef(fit)$plant[as.character(seq_len(job$num_plants)), "(Intercept)"])
  save_estimates(fixef(fit)[[1]], VarCorr(fit)$plant[1, 1], rates)
}

race(prepare, save, c("lme4", "Matrix"))
