# Estimate a formula's coefficients by glmmTMB; every posterior is compared with them. The estimates are not raced.

source(file.path(Sys.getenv("RUNNERS"), "common.R"))
suppressWarnings(suppressPackageStartupMessages(library(glmmTMB)))

job <- read_job()
family <- if (job$family == "negbinomial") nbinom2() else job$family
fit <- glmmTMB(job$formula, data = job$frame, family = family)
write_json_file("estimates.json", as.numeric(fixef(fit)$cond))
