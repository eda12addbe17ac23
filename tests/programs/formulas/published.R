# Print the reference estimates of test_published.py: run `Rscript published.R` in this folder.
# Last run with R 4.2.2, lme4 1.1-31, nlme 3.1-162, MASS 7.3-58.2, statmod 1.5.0
# and survival 3.5-3.
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

# Beta-binomial regression without herds, with phi on the log scale in the optimisation.
cat("\ncbpp, beta-binomial\n")
cbpp <- read("cbpp")
X <- model.matrix(~ factor(period), cbpp)
deviance <- function(p) {
  m <- plogis(drop(X %*% p[1:4]))
  phi <- exp(p[5])
  y <- cbpp$incidence
  n <- cbpp$size
  -sum(lchoose(n, y) + lbeta(y + m * phi, n - y + (1 - m) * phi) - lbeta(m * phi, (1 - m) * phi))
}
fit <- optim(c(-1.4, -1, -1, -1.5, 2), deviance, method = "BFGS", hessian = TRUE,
             control = list(reltol = 1e-14))
print(data.frame(estimate = fit$par, se = sqrt(diag(solve(fit$hessian)))), digits = 6)
cat("phi", exp(fit$par[5]), "\n")

# Stopping ratios: one binary row for each rating that was reached, 1 if it was the last.
cat("\ninhaler, stopping ratios with subjects\n")
stages <- do.call(rbind, lapply(1:3, function(j) {
  reached <- inhaler[inhaler$rating >= j, ]
  data.frame(reached, stage = factor(j), last = as.integer(reached$rating == j))
}))
fit <- lme4::glmer(last ~ 0 + stage + treat + period + carry + (1 | subject), stages, binomial,
                   nAGQ = 25)
print(coef(summary(fit))[, 1:2], digits = 6) # the signs of the slopes are opposite to those of eta
print(lme4::VarCorr(fit), digits = 6)

# test_parameters.py compares the posterior of `sigma ~ Sex` with this fit; its residual sd is that
# of girls, and the ratio that of boys to girls.
show_lme("Orthodont", varied <- lme(
  distance ~ age * Sex, random = ~ 1 | Subject, weights = varIdent(c(Female = 0.5), ~ 1 | Sex),
  transform(read("Orthodont"), Sex = factor(Sex, c("Male", "Female")))
))
print(coef(varied$modelStruct$varStruct, unconstrained = FALSE), digits = 7)
print(varied$apVar)

for (dist in c("lognormal", "weibull")) {
  call <- survival::Surv(time, 1 - censored) ~ age + sex
  fit <- survival::survreg(call, data = read("kidney"), dist = dist)
  cat("\nkidney", dist, "with scale", fit$scale, "\n")
  print(summary(fit)$table[, 1:2], digits = 7)
}
