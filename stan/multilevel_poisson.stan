/*
 * Poisson counts for each plant, plant rates from a common lognormal distribution.
 *
 *     y[n] ~ Poisson(mu_plant[p]),  p = plant[n]
 *     mu_plant[p] ~ logN(mu, sigma2), that is log mu_plant[p] ~ N(mu, sigma2)
 *     mu ~ N(mu_mean, mu_sd^2),  sigma2 ~ scaled-inv-chi^2(sigma2_nu, sigma2_scale^2)
 *
 * Purpose: the lecture's third model, the one made for counts. Each plant enters through its
 * number of months and its total: a leapfrog step costs O(P). Totals are real, because the sum of
 * a plant's counts may exceed the largest integer that Stan holds.
 *
 * Source: Gelman et al., Bayesian Data Analysis, 3rd ed., sections 2.6 and 16.4; Papaspiliopoulos,
 * Roberts and Skold (2007), Statistical Science 22(1), for the two parametrisations.
 */
data {
  int<lower=1> N; // observations
  int<lower=1> P; // plants
  array[N] int<lower=1, upper=P> plant; // plant of each observation
  array[N] int<lower=0> y; // flowers of each observation
  real mu_mean; // prior mean of mu, on the log scale
  real<lower=0> mu_sd; // prior standard deviation of mu, on the log scale
  real<lower=0> sigma2_nu; // prior degrees of freedom of sigma2
  real<lower=0> sigma2_scale; // prior scale of sigma2, on the log scale
  int<lower=0, upper=1> centered; // 1: sample log mu_plant; 0: its standardised deviation
}
transformed data {
  vector[P] y_num = zeros_vector(P); // months of each plant
  vector[P] y_total = zeros_vector(P); // flowers of each plant over its months
  for (n in 1 : N) {
    y_num[plant[n]] += 1;
    y_total[plant[n]] += y[n];
  }
}
parameters {
  real mu; // mean of the plants' log rates
  real<lower=0> sigma2; // variance of the plants' log rates
  // log rate of each plant; centered or not, as the data ask
  
  vector<offset=(centered ? 0 : mu), multiplier=(centered ? 1 : sqrt(sigma2))>[P] log_mu_plant;
}
transformed parameters {
  vector<lower=0>[P] mu_plant = exp(log_mu_plant); // expected flowers per month
}
model {
  mu ~ normal(mu_mean, mu_sd);
  sigma2 ~ scaled_inv_chi_square(sigma2_nu, sigma2_scale);
  log_mu_plant ~ normal(mu, sqrt(sigma2));
  // Up to a constant the same as
  //   y ~ poisson(mu_plant[plant]);
  target += dot_product(y_total, log_mu_plant) - dot_product(y_num, mu_plant);
}
