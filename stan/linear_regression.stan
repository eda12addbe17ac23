/*
 * A straight line through points, with flat priors.
 *
 *     y[n] ~ N(alpha + beta x[n], sigma^2),  p(alpha, beta, sigma) = sigma^(-log_flat)
 *
 * Purpose: the lecture's Bayesian regression, whose posterior is known: alpha and beta are t
 * distributed with N - 3 degrees of freedom where the prior is flat in sigma, with N - 2 where it
 * is flat in log(sigma). Points enter through their second moments about their means, so that a
 * leapfrog step costs the same for any number of them.
 *
 * Source: Gelman et al., Bayesian Data Analysis, 3rd ed., section 14.2.
 */
data {
  int<lower=4> N; // points
  vector[N] x; // where each point is
  vector[N] y; // what was measured there
  int<lower=0, upper=1> log_flat; // 1: prior flat in log(sigma); 0: flat in sigma
}
transformed data {
  real x_mean = mean(x); // sufficient: the means ...
  real y_mean = mean(y);
  real x_ss = dot_self(x - x_mean); // ... the sums of squared deviations from them
  real y_ss = dot_self(y - y_mean);
  real xy_ss = dot_product(x - x_mean, y - y_mean); // ... and of their products
}
parameters {
  real alpha; // the line at x = 0
  real beta; // its slope
  real<lower=0> sigma; // standard deviation of y about the line
}
model {
  // Sum of squared residuals: about the means, and of the line at the means.
  real ss = y_ss - 2 * beta * xy_ss + square(beta) * x_ss
            + N * square(y_mean - alpha - beta * x_mean);
  // Up to a constant the same as
  //   y ~ normal(alpha + beta * x, sigma);
  //   target += -log_flat * log(sigma);
  target += -(N + log_flat) * log(sigma) - 0.5 * ss / square(sigma);
}
