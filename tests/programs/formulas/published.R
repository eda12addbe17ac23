# Print the reference estimates of test_published.py: run `Rscript published.R` in this folder.
# Last run with R 4.2.2, lme4 1.1-31, nlme 3.1-162, MASS 7.3-58.2 and statmod 1.5.0.
suppressMessages({library(lme4); library(nlme)})

read <- function(name) read.csv(file.path("data", paste0(name, ".csv")))

show <- function(name, fit) {
  cat("\n", name, "\n", sep = "")
  print(coef(summary(fit))[, 1:2], digits = 7)
  print(as.data.frame(VarCorr(fit))[c("grp", "var1", "var2", "sdcor")], digits = 7)
}

show("sleepstudy", lmer(Reaction ~ Days + (Days | Subject), read("sleepstudy")))

cbpp <- transform(read("cbpp"), period = factor(period))
show("cbpp", glmer(cbind(incidence, size - incidence) ~ period + (1 | herd), cbpp, binomial))

show("Penicillin", lmer(diameter ~ 1 + (1 | plate) + (1 | sample), read("Penicillin")))

# glmer warns about the scale of HEIGHT, but finds the same estimates with cHEIGHT.
ticks <- transform(read("grouseticks"), YEAR = factor(YEAR))
show("grouseticks", glmer(
  TICKS ~ YEAR + HEIGHT + (1 | BROOD) + (1 | INDEX) + (1 | LOCATION), ticks, poisson
))

epilepsy <- transform(read("epilepsy"), Trt = factor(Trt))
show("epilepsy", glmer(
  count ~ zAge + zBase * Trt + (1 | patient) + (1 | obs), epilepsy, poisson
))
show("epilepsy-patients", glmer(count ~ zAge + zBase * Trt + (1 | patient), epilepsy, poisson))

inhaler <- read("inhaler")
cat("\ninhaler without subjects\n")
rated <- transform(inhaler, rating = factor(rating))
print(coef(summary(MASS::polr(rating ~ treat + period + carry, rated, Hess = TRUE)))[, 1:2])

# Subjects' intercepts are integrated out by Gauss-Hermite quadrature with 61 nodes.
cat("\ninhaler with subjects\n")
nodes <- statmod::gauss.quad.prob(61, "normal")
X <- as.matrix(inhaler[c("treat", "period", "carry")])
natural <- function(p) c(cumsum(c(p[1], exp(p[2:3]))), p[4:6], exp(p[7]))
deviance <- function(p) {
  value <- natural(p)
  threshold <- c(-Inf, value[1:3], Inf)
  eta <- outer(drop(X %*% value[4:6]), value[7] * nodes$nodes, "+")
  above <- plogis(threshold[inhaler$rating + 1] - eta)
  log_lik <- log(above - plogis(threshold[inhaler$rating] - eta))
  -sum(log(exp(rowsum(log_lik, inhaler$subject)) %*% nodes$weights))
}
start <- c(0.6, 1, 0.2, -0.8, 0.2, -0.2, 0)
fit <- optim(start, deviance, method = "BFGS", hessian = TRUE, control = list(reltol = 1e-13))
jacobian <- sapply(1:7, function(j) {
  step <- replace(numeric(7), j, 1e-5)
  (natural(fit$par + step) - natural(fit$par - step)) / 2e-5
})
se <- sqrt(diag(jacobian %*% solve(fit$hessian) %*% t(jacobian)))
names <- c("1|2", "2|3", "3|4", colnames(X), "sd")
print(data.frame(estimate = natural(fit$par), se = se, row.names = names), digits = 6)

show_lme <- function(name, fit) {
  cat("\n", name, "\n", sep = "")
  print(summary(fit)$tTable[, 1:2], digits = 7)
  print(VarCorr(fit))
}

show_lme("Machines", lme(score ~ Machine, random = ~ 1 | Worker/Machine, read("Machines")))
show_lme("Oxboys", lme(height ~ age, random = ~ age | Subject, read("Oxboys")))
