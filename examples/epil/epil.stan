/*
 * Seizure counts: a Poisson regression with an effect of each patient and of
 * each visit of a patient.
 *
 *     y[n] ~ Poisson(mu[n]),  p = patient[n]
 *     log mu[n] = a0 + alpha_Base log(base[p] / 4) + alpha_Trt treated[p]
 *                 + alpha_BT treated[p] log(base[p] / 4)
 *                 + alpha_Age log age[p] + alpha_V4 [visit[n] = 4]
 *                 + b1[p] + b[n],  each covariate minus its mean
 *     b1[p] ~ N(0, 1 / tau_b1),  b[n] ~ N(0, 1 / tau_b)
 *     coefficients ~ N(coef_mean, coef_sd^2)
 *     tau_b1, tau_b ~ Gamma(tau_shape, tau_rate)
 *
 * Purpose: does progabide reduce seizures? 59 patients counted their seizures
 * over four periods of two weeks, after eight weeks without treatment. Both
 * effects are sampled as standardised deviations, because many counts are too
 * small to fix them.
 *
 * Source: "Epil" in BUGS Examples Volume 1; Breslow and Clayton (1993),
 * J. Amer. Statist. Assoc. 88, 9-25, model III; data of Thall and Vail (1990),
 * Biometrics 46, 657-671.
 */
data {
  int<lower=1> N; // observations
  int<lower=1> P; // patients
  array[N] int<lower=1, upper=P> patient; // patient of each observation
  array[N] int<lower=1, upper=4> visit; // visit of each observation
  array[N] int<lower=0> y; // seizures in the two weeks before the visit
  vector<lower=0, upper=1>[P] treated; // 1: progabide, 0: placebo
  vector<lower=0>[P] base; // seizures in the eight weeks before treatment
  vector<lower=0>[P] age; // age of each patient, years
  real coef_mean; // prior mean of a0 and each alpha
  real<lower=0> coef_sd; // prior standard deviation of a0 and each alpha
  real<lower=0> tau_shape; // prior shape of both precisions
  real<lower=0> tau_rate; // prior rate of both precisions
  int<lower=0, upper=1> prior_only; // 1: leave out the likelihood
  array[N] int<lower=0, upper=1> held_out; // 1: leave out this observation
}
transformed data {
  array[N - sum(held_out)] int<lower=1> seen; // observations in the likelihood
  vector[P] log_base4 = log(base / 4); // log of seizures per two weeks
  vector[P] base_treated = treated .* log_base4; // the interaction
  vector[P] log_age = log(age); // log of age in years
  vector<lower=0, upper=1>[N] fourth; // 1: the fourth visit
  for (n in 1 : N) {
    fourth[n] = visit[n] == 4;
  }
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
  real a0; // log mean at the covariates' means
  real alpha_Base; // effect of log(base / 4)
  real alpha_Trt; // effect of the treatment
  real alpha_BT; // interaction of the treatment with log(base / 4)
  real alpha_Age; // effect of log age
  real alpha_V4; // effect of the fourth visit
  real<lower=0> tau_b1; // precision of the patients' effects
  real<lower=0> tau_b; // precision of the effects of single visits
  vector<multiplier=inv_sqrt(tau_b1)>[P] b1; // effect of each patient
  vector<multiplier=inv_sqrt(tau_b)>[N] b; // effect of each visit of a patient
}
transformed parameters {
  real<lower=0> sigma_b1 = inv_sqrt(tau_b1); // sd of b1
  real<lower=0> sigma_b = inv_sqrt(tau_b); // sd of b
  // log of the expected seizures
  vector[N] log_mu = (a0 + alpha_Base * (log_base4 - mean(log_base4))
                      + alpha_Trt * (treated - mean(treated))
                      + alpha_BT * (base_treated - mean(base_treated))
                      + alpha_Age * (log_age - mean(log_age)) + b1)[patient]
                     + alpha_V4 * (fourth - mean(fourth)) + b;
  // log density of the top-level priors
  real lprior = normal_lpdf([a0, alpha_Base, alpha_Trt, alpha_BT, alpha_Age,
                             alpha_V4] | coef_mean, coef_sd)
                + gamma_lpdf([tau_b1, tau_b] | tau_shape, tau_rate);
}
model {
  target += lprior;
  b1 ~ normal(0, sigma_b1);
  b ~ normal(0, sigma_b);
  if (prior_only == 0) {
    y[seen] ~ poisson_log(log_mu[seen]);
  }
}
generated quantities {
  // log mean where every covariate is 0
  real alpha0 = a0 - alpha_Base * mean(log_base4) - alpha_Trt * mean(treated)
                - alpha_BT * mean(base_treated) - alpha_Age * mean(log_age)
                - alpha_V4 * mean(fourth);
  vector[N] log_lik; // log likelihood of each observation
  for (n in 1 : N) {
    log_lik[n] = poisson_log_lpmf(y[n] | log_mu[n]);
  }
  // Replicated seizures. Draws of so vague a prior can exceed what Stan's
  // integers hold, so the rate is held at e^20.
  array[N] int<lower=0> y_rep = poisson_log_rng(fmin(log_mu, 20));
  // Seizures before the next visit, which is not a fourth: of each patient, and
  // of another patient at the covariates' means.
  array[P] int<lower=0> y_new;
  int<lower=0> y_new_group;
  {
    real a = a0 - alpha_V4 * mean(fourth);
    vector[P] of_visit = to_vector(normal_rng(zeros_vector(P), sigma_b));
    y_new = poisson_log_rng(fmin(a
                                 + alpha_Base * (log_base4 - mean(log_base4))
                                 + alpha_Trt * (treated - mean(treated))
                                 + alpha_BT
                                   * (base_treated - mean(base_treated))
                                 + alpha_Age * (log_age - mean(log_age)) + b1
                                 + of_visit, 20));
    y_new_group = poisson_log_rng(fmin(a
                                       + normal_rng(0,
                                                    hypot(sigma_b1, sigma_b)),
                                       20));
  }
}
