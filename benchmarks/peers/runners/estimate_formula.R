# Estimate what the posteriors of a formula are compared with, such as coefficients by glmmTMB. This is not raced.

source(file.path(Sys.getenv("RUNNERS"), "common.R"))
suppressWarnings(suppressPackageStartupMessages(library(glmmTMB)))

main <- function() {
  job <- read_job()
  estimate <- switch(job$family, weibull = by_quadrature, sratio = by_steps, by_glmmtmb)
  if (!is.null(job$at)) estimate <- by_mgcv
  write_json_file("estimates.json", as.list(as.numeric(estimate(job)))) # a list, even of one
}

by_mgcv <- function(job) {
  predict(mgcv::gam(job$formulas[[1]], data = job$frame, method = "REML"), job$at)
}

# Estimates of the first formula, and then of that of sigma or zi, if there is one.
by_glmmtmb <- function(job) {
  formula <- job$formulas[[1]]
  parameters <- lapply(job$formulas[-1], function(its) reformulate(deparse(its[[3]])))
  names(parameters) <- vapply(job$formulas[-1], function(its) deparse(its[[2]]), "")
  dispformula <- if (is.null(parameters$sigma)) ~1 else parameters$sigma
  response <- formula[[2]]
  if (is.call(response) && response[[1]] == "|") {
    term <- response[[3]]
    y <- response[[2]]
    formula[[2]] <- y
    if (term[[1]] == "trials") formula[[2]] <- bquote(cbind(.(y), .(term[[2]]) - .(y)))
    # The dispersion of a normal response is the logarithm of its variance.
    if (term[[1]] == "se") dispformula <- eval(bquote(~ 0 + offset(2 * log(.(term[[2]])))))
  }
  family <- switch(job$family,
    negbinomial = nbinom2(), beta_binomial = betabinomial(), zero_inflated_poisson = poisson(),
    bernoulli = binomial(), job$family
  )
  ziformula <- if (is.null(parameters$zi)) ~0 else parameters$zi
  fit <- glmmTMB(formula, job$frame, family, ziformula = ziformula, dispformula = dispformula)
  found <- fixef(fit)
  c(found$cond, found$zi, if (!is.null(parameters$sigma)) found$disp / 2)
}

# Stopping ratios are logistic regressions: a row for each rating that was reached, 1 if it was the last.
by_steps <- function(job) {
  formula <- job$formulas[[1]]
  y <- job$frame[[deparse(formula[[2]])]]
  num_steps <- max(y) - 1
  steps <- do.call(rbind, lapply(seq_len(num_steps), function(step) {
    data.frame(job$frame[y >= step, ], step = step, is_last = as.integer(y[y >= step] == step))
  }))
  formula <- update(formula, is_last ~ 0 + factor(step) + .)
  # Laplace's approximation, which glmmTMB uses, is half a standard error away here.
  found <- lme4::fixef(lme4::glmer(formula, steps, binomial, nAGQ = 25))
  # The probability of a step increases with its threshold, and decreases with the predictor.
  c(head(found, num_steps), -tail(found, -num_steps))
}

# Censored Weibull times with normal effects of one group, which are integrated out by Gauss-Hermite quadrature.
by_quadrature <- function(job) {
  formula <- job$formulas[[1]]
  y <- job$frame[[deparse(formula[[2]][[2]])]]
  is_censored <- job$frame[[deparse(formula[[2]][[3]][[2]])]] == 1
  group <- job$frame[[deparse(lme4::findbars(formula)[[1]][[3]])]]
  X <- model.matrix(lme4::nobars(formula[-2]), job$frame)
  nodes <- normal_nodes(61)
  deviance <- function(p) {
    eta <- outer(drop(X %*% head(p, -2)), exp(p[ncol(X) + 1]) * nodes$at, "+")
    shape <- exp(p[ncol(X) + 2])
    scale <- exp(eta) / gamma(1 + 1 / shape) # exp(eta) is the mean, as in all packages
    log_lik <- dweibull(y, shape, scale, log = TRUE)
    log_lik[is_censored, ] <- pweibull(y, shape, scale, lower.tail = FALSE, log.p = TRUE)[is_censored, ]
    -sum(log(exp(rowsum(log_lik, group)) %*% nodes$weights))
  }
  start <- c(mean(log(y)), numeric(ncol(X) - 1), log(0.5), 0)
  scale <- c(1, 1 / apply(abs(X[, -1]), 2, max), 1, 1)
  how <- list(parscale = scale, maxit = 1000, reltol = 1e-12)
  # The search may try an infinite shape, of which R warns.
  fit <- suppressWarnings(optim(start, deviance, method = "BFGS", control = how))
  stopifnot(fit$convergence == 0)
  fit$par[seq_len(ncol(X))]
}

# Nodes and weights of the standard normal distribution: eigenvectors of its Jacobi matrix (Golub and Welsch 1969).
normal_nodes <- function(num) {
  jacobi <- matrix(0, num, num)
  next_to <- cbind(seq_len(num - 1), seq_len(num - 1) + 1)
  jacobi[next_to] <- jacobi[next_to[, 2:1]] <- sqrt(seq_len(num - 1))
  found <- eigen(jacobi, symmetric = TRUE)
  list(at = found$values, weights = found$vectors[1, ]^2)
}

main()
