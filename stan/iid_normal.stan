/*
 * One normal distribution for all plants and months.
 *
 *     y[n] ~ N(mu, sigma2),  mu ~ N(mu_mean, mu_sd^2),
 *     sigma2 ~ scaled-inv-chi^2(sigma2_nu, sigma2_scale^2)
 *
 * Purpose: the lecture's first model, which pools every plant; the baseline that the
 * multilevel models are compared with. The data enter through their count, mean and sum of
 * squared deviations, so that a leapfrog step costs the same for any number of rows.
 *
 * Source: Gelman et al., Bayesian Data Analysis, 3rd ed., sections 2.6 and 3.2.
 */
data {
  int<lower=1> N; // observations
  vector[N] y; // flowers of each observation
  real mu_mean; // prior mean of mu
  real<lower=0> mu_sd; // prior standard deviation of mu
  real<lower=0> sigma2_nu; // prior degrees of freedom of sigma2
  real<lower=0> sigma2_scale; // prior scale of sigma2, in flowers
}
transformed data {
  real y_mean = mean(y); // sufficient: the mean ...
  real y_ss = dot_self(y - y_mean); // ... and the sum of squared deviations from it
}
parameters {
  real mu; // expected flowers per plant and month
  real<lower=0> sigma2; // variance of flowers
}
model {
  mu ~ normal(mu_mean, mu_sd);
  sigma2 ~ scaled_inv_chi_square(sigma2_nu, sigma2_scale);
  // Up to a constant (BDA3 eq. 3.2) the same as
  //   y ~ normal(mu, sqrt(sigma2));
  target += -0.5
            * (N * log(sigma2) + (y_ss + N * square(y_mean - mu)) / sigma2);
}
