# glmmTMB: maximum likelihood by Laplace's approximation, and the plants' conditional modes.

source(file.path(Sys.getenv("RUNNERS"), "common.R"))
suppressWarnings(suppressPackageStartupMessages(library(glmmTMB)))

prepare <- function(job) {
  function(seed) glmmTMB(y ~ 1 + (1 | plant), data = job$frame, family = poisson())
}

save <- function(fit, job) {
  modes <- ranef(fit)$cond$plant[as.character(seq_len(job$num_plants)), "(Intercept)"]
  mu <- fixef(fit)$cond[[1]]
  save_estimates(mu, VarCorr(fit)$cond$plant[1, 1], exp(mu + modes))
}

race(prepare, save, c("glmmTMB", "TMB", "Matrix"))
