/*
 * A normal distribution for each plant, plant means from a common normal distribution.
 *
 *     y[n] ~ N(mu_plant[p], sigma2_plant[p]),  p = plant[n]
 *     mu_plant[p] ~ N(mu, sigma2)
 *     mu ~ N(mu_mean, mu_sd^2),  sigma2 ~ scaled-inv-chi^2(sigma2_nu, sigma2_scale^2)
 *     sigma2_plant[p] ~ scaled-inv-chi^2(sigma2_plant_nu, sigma2_plant_scale^2)
 *
 * Purpose: the lecture's second model. sigma2_plant_nu = -2 with sigma2_plant_scale = 0 is its
 * flat prior on sigma2_plant, which is proper in the posterior only for plants with three or more
 * observations that are not all equal: pyflowers checks that before it calls Stan. Each plant
 * enters through its count, mean and sum of squared deviations: a leapfrog step costs O(P).
 *
 * Source: Gelman et al., Bayesian Data Analysis, 3rd ed., sections 5.4 and 11.6; Papaspiliopoulos,
 * Roberts and Skold (2007), Statistical Science 22(1), for the two parametrisations.
 */
data {
  int<lower=1> N; // observations
  int<lower=1> P; // plants
  array[N] int<lower=1, upper=P> plant; // plant of each observation
  vector[N] y; // flowers of each observation
  real mu_mean; // prior mean of mu
  real<lower=0> mu_sd; // prior standard deviation of mu
  real<lower=0> sigma2_nu; // prior degrees of freedom of sigma2
  real<lower=0> sigma2_scale; // prior scale of sigma2, in flowers
  real<lower=-2> sigma2_plant_nu; // prior degrees of freedom of sigma2_plant; -2: flat
  real<lower=0> sigma2_plant_scale; // prior scale of sigma2_plant, in flowers; 0: flat
  int<lower=0, upper=1> centered; // 1: sample mu_plant itself; 0: its standardised deviation
}
transformed data {
  vector[P] y_num = zeros_vector(P); // observations of each plant
  vector[P] y_mean = zeros_vector(P); // their mean
  vector[P] y_ss = zeros_vector(P); // their sum of squared deviations from the mean
  real prior_ss = sigma2_plant_nu * square(sigma2_plant_scale); // nu s^2 of sigma2_plant
  for (n in 1 : N) {
    y_num[plant[n]] += 1;
    y_mean[plant[n]] += y[n];
  }
  for (p in 1 : P) {
    y_mean[p] /= fmax(y_num[p], 1);
  }
  // The second pass keeps y_ss exact when the mean is large against the deviations.
  for (n in 1 : N) {
    y_ss[plant[n]] += square(y[n] - y_mean[plant[n]]);
  }
}
parameters {
  real mu; // mean of the plant means
  real<lower=0> sigma2; // variance of the plant means
  // expected flowers per month; centered or not, as the data ask
  
  vector<offset=(centered ? 0 : mu), multiplier=(centered ? 1 : sqrt(sigma2))>[P] mu_plant;
  vector<lower=0>[P] sigma2_plant; // variance between a plant's months
}
model {
  mu ~ normal(mu_mean, mu_sd);
  sigma2 ~ scaled_inv_chi_square(sigma2_nu, sigma2_scale);
  mu_plant ~ normal(mu, sqrt(sigma2));
  // One inverse chi-square kernel (BDA3 section 3.2), up to a constant the same as
  //   y ~ normal(mu_plant[plant], sqrt(sigma2_plant[plant]));
  //   sigma2_plant ~ scaled_inv_chi_square(sigma2_plant_nu, sigma2_plant_scale);
  // and without the second statement where that prior is flat.
  target += -0.5
            * (dot_product(y_num + sigma2_plant_nu + 2, log(sigma2_plant))
               + dot_product(y_ss + prior_ss
                             + y_num .* square(y_mean - mu_plant),
                             inv(sigma2_plant)));
}
