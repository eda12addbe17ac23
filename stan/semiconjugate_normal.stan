/*
 * One normal distribution, its mean and variance independent a priori.
 *
 *     x[n] ~ N(theta, sigma2),  theta ~ N(mu0, tau0^2),
 *     sigma2 ~ scaled-inv-chi^2(nu0, sigma0^2)
 *
 * Purpose: the model of the lecture's variational Bayes, whose mean-field updates are closed form.
 * NUTS samples here the posterior that pyflowers.vb approximates and pyflowers.exact integrates;
 * the symbols are those of the lecture. The prior is semi-conjugate: the posterior is neither
 * normal nor inverse chi-square, and theta and sigma2 depend on each other in it.
 *
 * Source: Gelman et al., Bayesian Data Analysis, 3rd ed., sections 2.6, 3.2 and 13.7.
 */
data {
  int<lower=0> N; // observations; none leaves the prior
  vector[N] y; // the observations x
  real mu0; // prior mean of theta
  real<lower=0> tau0; // prior standard deviation of theta
  real<lower=0> nu0; // prior degrees of freedom of sigma2
  real<lower=0> sigma0; // prior scale of sigma2
}
transformed data {
  real y_mean = N > 0 ? mean(y) : 0; // sufficient: the mean ...
  real y_ss = dot_self(y - y_mean); // ... and the sum of squared deviations from it
}
parameters {
  real theta; // mean of the observations
  real<lower=0> sigma2; // their variance
}
model {
  theta ~ normal(mu0, tau0);
  sigma2 ~ scaled_inv_chi_square(nu0, sigma0);
  // Up to a constant (BDA3 eq. 3.2) the same as
  //   y ~ normal(theta, sqrt(sigma2));
  target += -0.5
            * (N * log(sigma2) + (y_ss + N * square(y_mean - theta)) / sigma2);
}
