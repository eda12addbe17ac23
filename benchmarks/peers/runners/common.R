# Code shared by all runners in R; common.py describes what a runner does and writes.

suppressPackageStartupMessages(library(jsonlite))

given <- (function() {
  words <- commandArgs(trailingOnly = TRUE)
  names <- sub("^--", "", words[c(TRUE, FALSE)])
  setNames(as.list(words[c(FALSE, TRUE)]), names)
})()

# The runners state the priors of common.py themselves: mu ~ N(0, 100^2), sigma2 ~ scaled-inv-chi^2(1, 2^2).

read_job <- function() {
  block <- fromJSON(given$data)
  options <- intersect(c("chains", "warmup", "draws", "cores", "seed"), names(given))
  whole <- lapply(given[options], as.integer)
  if (!is.null(block$formula)) {
    frame <- as.data.frame(block$frame, stringsAsFactors = TRUE)
    formulas <- lapply(strsplit(block$formula, "; ", fixed = TRUE)[[1]], as.formula)
    at <- if (!is.null(block$at)) as.data.frame(block$at)
    return(c(list(frame = frame, formulas = formulas, family = block$family, at = at), whole))
  }
  frame <- data.frame(y = block$y, plant = factor(block$plant, levels = seq_len(block$num_plants)))
  c(list(frame = frame, num_plants = block$num_plants), whole)
}

write_json_file <- function(name, content) {
  path <- file.path(given$out, name)
  unfinished <- paste0(path, ".unfinished")
  write(toJSON(content, auto_unbox = TRUE, digits = NA), unfinished)
  file.rename(unfinished, path)
}

# prepare(job) returns a function of a seed; save(fit, job) is called after the clock has stopped.
race <- function(prepare, save, packages) {
  begun_at <- as.numeric(Sys.time())
  job <- read_job()
  known <- list(begun_at = begun_at, reading = as.numeric(Sys.time()) - begun_at)
  versions <- lapply(setNames(packages, packages), function(p) as.character(packageVersion(p)))
  known$versions <- c(versions, R = paste(R.version$major, R.version$minor, sep = "."))
  sampler <- prepare(job)
  sampler(job$seed)
  known$first_at <- as.numeric(Sys.time())
  write_json_file("timings.json", known)
  start <- as.numeric(Sys.time())
  fit <- sampler(job$seed + 1L)
  known$further <- as.numeric(Sys.time()) - start
  write_json_file("timings.json", known)
  save(fit, job)
}

# mu and sigma2 are matrices (draw, chain); mu_plant is an array (draw, chain, plant).
save_draws <- function(mu, sigma2, mu_plant, num_divergent) {
  shape <- c(dim(mu), 2 + dim(mu_plant)[3])
  write_draws(array(c(mu, sigma2, mu_plant), shape), list(num_divergent = num_divergent))
}

# draws is an array (draw, chain, element); about is written with its shape.
write_draws <- function(draws, about) {
  shape <- dim(draws)
  connection <- file(file.path(given$out, "draws.bin"), "wb")
  writeBin(as.vector(aperm(draws, c(3, 1, 2))), connection, size = 8, endian = "little")
  close(connection)
  write_json_file("posterior.json", c(about, list(shape = c(shape[2], shape[1], shape[3]))))
}

save_estimates <- function(mu, sigma2, mu_plant) {
  estimates <- list(mu = mu, sigma2 = sigma2, mu_plant = as.numeric(mu_plant))
  write_json_file("posterior.json", list(estimates = estimates))
}
