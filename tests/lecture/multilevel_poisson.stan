// The lecture's third program, literally: only its array syntax is modernised.
data {
  int<lower=0> N; // number of observations
  int<lower=0> P; // number of plants
  array[N] int<lower=0> y; // flowers, plant-major: N / P months of each plant in turn
}
parameters {
  real mu;
  real<lower=0> sigma2;
  vector<lower=0>[P] mu_plant;
}
model {
  mu ~ normal(0, 100);
  sigma2 ~ scaled_inv_chi_square(1, 2);
  for (p in 1 : P) {
    mu_plant[p] ~ lognormal(mu, sqrt(sigma2));
    for (t in 1 : (N %/% P)) {
      y[(p - 1) * (N %/% P) + t] ~ poisson(mu_plant[p]);
    }
  }
}
