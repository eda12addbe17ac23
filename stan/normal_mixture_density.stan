/*
 * A mixture of normal densities in one coordinate, all of it known: a density to sample, no data.
 *
 *     p(x) = sum_k weight[k] N(x; location[k], scale[k]^2)
 *
 * Purpose: the lectures' bimodal targets, 0.7 N(1.5, 1) + 0.3 N(-1.5, 1) for Metropolis and
 * 0.3 N(-2, 1) + 0.7 N(2, 1) for Hamiltonian Monte Carlo, so that Stan's NUTS can be compared
 * with the samplers written by hand.
 *
 * Source: Neal (2011), MCMC using Hamiltonian dynamics, Handbook of Markov Chain Monte Carlo,
 * chapter 5; Stan User's Guide 2.35, "Finite mixtures".
 */
data {
  int<lower=1> K; // components
  simplex[K] weight; // weight of each component
  vector[K] location; // mean of each component
  vector<lower=0>[K] scale; // standard deviation of each component
}
transformed data {
  vector[K] log_height = log(weight) - log(scale); // log height of each component at its mean
}
parameters {
  real x; // the coordinate
}
model {
  // Up to a constant the same as
  //   target += log_sum_exp(terms);
  // with terms[k] = log(weight[k]) + normal_lpdf(x | location[k], scale[k]).
  target += log_sum_exp(log_height - 0.5 * square((x - location) ./ scale));
}
