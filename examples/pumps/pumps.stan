/*
 * Failures of pumps: Poisson counts with exposure, failure rates from a common
 * gamma distribution.
 *
 *     y[n] ~ Poisson(theta[p] t[n]),  p = pump[n]
 *     theta[p] ~ Gamma(alpha, beta)
 *     alpha ~ Exponential(alpha_rate),  beta ~ Gamma(beta_shape, beta_rate)
 *
 * Purpose: how often does each pump of a power plant fail? The ten pumps ran
 * for very different times, so a pump with a short record borrows from the
 * others.
 *
 * Source: "Pumps" in BUGS Examples Volume 1; George, Makov and Smith (1993),
 * Scand. J. Statist. 20, 147-156; data of Gaver and O'Muircheartaigh (1987),
 * Technometrics 29, 1-15.
 */
data {
  int<lower=1> N; // observations
  int<lower=1> P; // pumps
  array[N] int<lower=1, upper=P> pump; // pump of each observation
  vector<lower=0>[N] t; // time in operation, thousands of hours
  array[N] int<lower=0> y; // failures in that time
  real<lower=0> alpha_rate; // prior rate of alpha
  real<lower=0> beta_shape; // prior shape of beta
  real<lower=0> beta_rate; // prior rate of beta
  int<lower=0, upper=1> prior_only; // 1: leave out the likelihood
  array[N] int<lower=0, upper=1> held_out; // 1: leave out this observation
}
transformed data {
  array[N - sum(held_out)] int<lower=1> seen; // observations in the likelihood
  {
    int i = 0;
    for (n in 1 : N) {
      if (held_out[n] == 0) {
        i += 1;
        seen[i] = n;
      }
    }
  }
}
parameters {
  real<lower=0> alpha; // shape of the distribution of failure rates
  real<lower=0> beta; // rate of the distribution of failure rates
  vector<lower=0>[P] theta; // failures of each pump per thousand hours
}
transformed parameters {
  vector<lower=0>[N] mu = theta[pump] .* t; // expected failures
  // log density of the top-level priors
  real lprior = exponential_lpdf(alpha | alpha_rate)
                + gamma_lpdf(beta | beta_shape, beta_rate);
}
model {
  target += lprior;
  theta ~ gamma(alpha, beta);
  if (prior_only == 0) {
    y[seen] ~ poisson(mu[seen]);
  }
}
generated quantities {
  vector[N] log_lik; // log likelihood of each observation
  for (n in 1 : N) {
    log_lik[n] = poisson_lpmf(y[n] | mu[n]);
  }
  // Replicated failures. Draws of the prior can exceed what Stan's integers
  // hold, so the rate is held at a thousand million.
  array[N] int<lower=0> y_rep = poisson_rng(fmin(mu, 1e9));
  // failures in the next thousand hours: of each pump, and of another pump
  array[P] int<lower=0> y_new = poisson_rng(fmin(theta, 1e9));
  int<lower=0> y_new_group = poisson_rng(fmin(gamma_rng(alpha, beta), 1e9));
}
