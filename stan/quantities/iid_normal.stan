generated quantities {
  // log density of the priors
  real lprior = normal_lpdf(mu | mu_mean, mu_sd)
                + scaled_inv_chi_square_lpdf(sigma2 | sigma2_nu, sigma2_scale);
  vector[N] log_lik; // log likelihood of each observation
  vector[N] y_rep; // replicated observations
  for (n in 1 : N) {
    log_lik[n] = normal_lpdf(y[n] | mu, sqrt(sigma2));
    y_rep[n] = normal_rng(mu, sqrt(sigma2));
  }
}
