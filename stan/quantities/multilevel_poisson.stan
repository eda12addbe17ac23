generated quantities {
  // log density of the priors; that of mu_plant is part of the model
  real lprior = normal_lpdf(mu | mu_mean, mu_sd)
                + scaled_inv_chi_square_lpdf(sigma2 | sigma2_nu, sigma2_scale);
  vector[N] log_lik; // log likelihood of each observation
  array[N] int y_rep; // replicated observations
  for (n in 1 : N) {
    log_lik[n] = poisson_log_lpmf(y[n] | log_mu_plant[plant[n]]);
    // Stan's integers end at 2^31: a rate beyond e^20 is cut there.
    y_rep[n] = poisson_log_rng(fmin(log_mu_plant[plant[n]], 20));
  }
}
