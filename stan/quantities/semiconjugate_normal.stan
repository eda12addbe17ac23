generated quantities {
  // log density of the priors
  real lprior = normal_lpdf(theta | mu0, tau0)
                + scaled_inv_chi_square_lpdf(sigma2 | nu0, sigma0);
  vector[N] log_lik; // log likelihood of each observation
  vector[N] y_rep; // replicated observations
  for (n in 1 : N) {
    log_lik[n] = normal_lpdf(y[n] | theta, sqrt(sigma2));
    y_rep[n] = normal_rng(theta, sqrt(sigma2));
  }
}
