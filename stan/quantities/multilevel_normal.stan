generated quantities {
  // log density of the priors; that of mu_plant is part of the model, and a flat one is 0
  real lprior = normal_lpdf(mu | mu_mean, mu_sd)
                + scaled_inv_chi_square_lpdf(sigma2 | sigma2_nu, sigma2_scale)
                + (sigma2_plant_nu > 0
                   ? scaled_inv_chi_square_lpdf(sigma2_plant | sigma2_plant_nu, sigma2_plant_scale)
                   : 0);
  vector[N] log_lik; // log likelihood of each observation
  vector[N] y_rep; // replicated observations
  for (n in 1 : N) {
    real sd_plant = sqrt(sigma2_plant[plant[n]]); // standard deviation of its plant's months
    log_lik[n] = normal_lpdf(y[n] | mu_plant[plant[n]], sd_plant);
    y_rep[n] = normal_rng(mu_plant[plant[n]], sd_plant);
  }
}
