# Print mgcv's curve of mcycle for test_curves.py: run `Rscript mcycle.R` in this folder.
# Last run with R 4.2.2 and mgcv 1.8-41.
suppressMessages(library(mgcv))
mcycle <- read.csv("data/mcycle.csv")
fit <- gam(accel ~ s(times, bs = "cr", k = 10), data = mcycle, method = "REML")
at <- data.frame(times = seq(3, 55, by = 6))
found <- predict(fit, at, se.fit = TRUE)
print(data.frame(at, fit = found$fit, se = found$se.fit), digits = 7)
print(sqrt(fit$sig2), digits = 7)
