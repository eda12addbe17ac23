/*
 * A mixture of K normal distributions, the component of each point summed out.
 *
 *     p(y[n]) = sum_k weight[k] N(y[n]; mu[k], sigma2[k])
 *     weight ~ Dirichlet(weight_alpha, ..., weight_alpha)
 *     mu[k] ~ N(mu_mean, mu_sd^2),  sigma2[k] ~ scaled-inv-chi^2(sigma2_nu, sigma2_scale^2)
 *
 * Purpose: the lecture's Gaussian mixture. The density stays the same when components swap their
 * numbers, so its posterior has K! copies of each mode. is_ordered = 1 keeps the one with
 * mu[1] < ... < mu[K]; is_ordered = 0 keeps them all, to show label switching. The component's
 * number has no gradient and is summed out, which also mixes better than sampling it. A normal log
 * density is quadratic in y, so those of all points and components are one product of matrices.
 *
 * Source: Stan User's Guide 2.35, "Finite mixtures"; Jasra, Holmes and Stephens (2005),
 * Statistical Science 20(1), for label switching.
 */
data {
  int<lower=1> N; // points
  vector[N] y; // the points
  int<lower=2> K; // components
  int<lower=0, upper=1> is_ordered; // 1: means in increasing order; 0: in any
  real<lower=0> weight_alpha; // prior concentration of each weight
  real mu_mean; // prior mean of a component's mean
  real<lower=0> mu_sd; // its prior standard deviation
  real<lower=0> sigma2_nu; // prior degrees of freedom of a component's variance
  real<lower=0> sigma2_scale; // its prior scale, in units of y
}
transformed data {
  real y_mean = mean(y); // subtracted before taking powers, to avoid cancellation
  matrix[N, 3] powers; // 1, y and y^2
  powers[ : , 1] = ones_vector(N);
  powers[ : , 2] = y - y_mean;
  powers[ : , 3] = square(y - y_mean);
}
parameters {
  simplex[K] weight; // share of points in each component
  ordered[is_ordered ? K : 0] mu_ordered; // means of the components, or none
  vector[is_ordered ? 0 : K] mu_free; // means in any order, or none
  vector<lower=0>[K] sigma2; // variances of the components
}
transformed parameters {
  vector[K] mu = is_ordered ? mu_ordered : mu_free; // means of the components
}
model {
  matrix[3, K] coefficients; // of powers of y in the log density of each component
  matrix[N, K] log_joint; // log density of each point and component, without its constant
  weight ~ dirichlet(rep_vector(weight_alpha, K));
  mu ~ normal(mu_mean, mu_sd);
  sigma2 ~ scaled_inv_chi_square(sigma2_nu, sigma2_scale);
  // Up to a constant the same as, for each n,
  //   target += log_sum_exp(terms);
  // with terms[k] = log(weight[k]) + normal_lpdf(y[n] | mu[k], sqrt(sigma2[k])).
  coefficients[1] = (log(weight) - 0.5 * log(sigma2)
                     - 0.5 * square(mu - y_mean) ./ sigma2)';
  coefficients[2] = ((mu - y_mean) ./ sigma2)';
  coefficients[3] = (-0.5 * inv(sigma2))';
  log_joint = powers * coefficients;
  for (n in 1 : N) {
    target += log_sum_exp(log_joint[n]);
  }
}
