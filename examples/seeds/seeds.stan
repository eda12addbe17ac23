/*
 * Germination of seeds: a logistic regression with an effect of each plate.
 *
 *     y[n] ~ Binomial(total[n], p[n]),  i = plate[n]
 *     logit p[n] = alpha0 + alpha1 x1[n] + alpha2 x2[n] + alpha12 x1[n] x2[n]
 *                  + b[i]
 *     b[i] ~ N(0, 1 / tau)
 *     alpha0, alpha1, alpha2, alpha12 ~ N(coef_mean, coef_sd^2)
 *     tau ~ Gamma(tau_shape, tau_rate)
 *
 * Purpose: do the kind of seed and the root extract change how many seeds
 * germinate, when plates differ more than a binomial allows? 21 plates, two
 * kinds of seed by two extracts. Effects of plates are sampled as standardised
 * deviations, because their standard deviation may be close to 0.
 *
 * Source: "Seeds" in BUGS Examples Volume 1, with the gamma prior on tau; data
 * of Crowder (1978), Applied Statistics 27, 34-37, table 3; also Breslow and
 * Clayton (1993), J. Amer. Statist. Assoc. 88, 9-25.
 */
data {
  int<lower=1> N; // observations
  int<lower=1> P; // plates
  array[N] int<lower=1, upper=P> plate; // plate of each observation
  vector<lower=0, upper=1>[N] x1; // 1: O. aegyptiaco 73, 0: O. aegyptiaco 75
  vector<lower=0, upper=1>[N] x2; // 1: cucumber extract, 0: bean extract
  array[N] int<lower=0> total; // seeds on the plate
  array[N] int<lower=0, upper=total> y; // seeds that germinated
  real coef_mean; // prior mean of each alpha
  real<lower=0> coef_sd; // prior standard deviation of each alpha
  real<lower=0> tau_shape; // prior shape of tau
  real<lower=0> tau_rate; // prior rate of tau
  int<lower=0, upper=1> prior_only; // 1: leave out the likelihood
  array[N] int<lower=0, upper=1> held_out; // 1: leave out this observation
}
transformed data {
  array[N - sum(held_out)] int<lower=1> seen; // observations in the likelihood
  {
    int i = 0;
    for (n in 1 : N) {
      if (held_out[n] == 0) {
        i += 1;
        seen[i] = n;
      }
    }
  }
}
parameters {
  real alpha0; // log odds of O. aegyptiaco 75 on bean extract
  real alpha1; // effect of O. aegyptiaco 73
  real alpha2; // effect of cucumber extract
  real alpha12; // interaction of seed and extract
  real<lower=0> tau; // precision of the plates' effects
  vector<multiplier=inv_sqrt(tau)>[P] b; // effect of each plate, log odds
}
transformed parameters {
  real<lower=0> sigma = inv_sqrt(tau); // sd of b
  // log odds of germination
  vector[N] logit_p = alpha0 + alpha1 * x1 + alpha2 * x2
                      + alpha12 * (x1 .* x2) + b[plate];
  // log density of the top-level priors
  real lprior = normal_lpdf([alpha0, alpha1, alpha2, alpha12] | coef_mean, coef_sd)
                + gamma_lpdf(tau | tau_shape, tau_rate);
}
model {
  target += lprior;
  b ~ normal(0, sigma);
  if (prior_only == 0) {
    y[seen] ~ binomial_logit(total[seen], logit_p[seen]);
  }
}
generated quantities {
  vector[N] log_lik; // log likelihood of each observation
  for (n in 1 : N) {
    log_lik[n] = binomial_logit_lpmf(y[n] | total[n], logit_p[n]);
  }
  // replicated germinated seeds
  array[N] int<lower=0> y_rep = binomial_rng(total, inv_logit(logit_p));
  // germinated seeds if each plate is laid out once more, and of 50 seeds of
  // O. aegyptiaco 75 on another plate with bean extract
  array[P] int<lower=0> y_new;
  for (n in 1 : N) {
    y_new[plate[n]] = binomial_rng(total[n], inv_logit(logit_p[n]));
  }
  int<lower=0> y_new_group = binomial_rng(50,
                                          inv_logit(alpha0
                                                    + normal_rng(0, sigma)));
}
