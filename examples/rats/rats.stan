/*
 * Growth of rats: a straight line for each rat, intercepts and slopes from
 * common normal distributions.
 *
 *     y[n] ~ N(mu[n], 1 / tau_c),  r = rat[n]
 *     mu[n] = alpha[r] + beta[r] (age[n] - xbar)
 *     alpha[r] ~ N(alpha_c, 1 / tau_alpha),  beta[r] ~ N(beta_c, 1 / tau_beta)
 *     alpha_c, beta_c ~ N(coef_mean, coef_sd^2)
 *     tau_c, tau_alpha, tau_beta ~ Gamma(tau_shape, tau_rate)
 *
 * Purpose: how fast do young rats grow, and how much do they differ? 30 rats
 * were weighed at the same five ages. Ages are centred at their mean xbar, so
 * that intercepts and slopes hardly depend on each other; five weights fix the
 * line of a rat well, so lines are sampled as they are.
 *
 * Source: "Rats" in BUGS Examples Volume 1; Gelfand, Hills, Racine-Poon and
 * Smith (1990), J. Amer. Statist. Assoc. 85, 972-985, section 6.
 */
data {
  int<lower=1> N; // observations
  int<lower=1> R; // rats
  array[N] int<lower=1, upper=R> rat; // rat of each observation
  vector<lower=0>[N] age; // age at each observation, days
  vector[N] y; // weight at each observation, grams
  real coef_mean; // prior mean of alpha_c and beta_c
  real<lower=0> coef_sd; // prior standard deviation of alpha_c and beta_c
  real<lower=0> tau_shape; // prior shape of the three precisions
  real<lower=0> tau_rate; // prior rate of the three precisions
  int<lower=0, upper=1> prior_only; // 1: leave out the likelihood
  array[N] int<lower=0, upper=1> held_out; // 1: leave out this observation
}
transformed data {
  array[N - sum(held_out)] int<lower=1> seen; // observations in the likelihood
  real<lower=0> xbar = mean(age); // mean age, days
  real<lower=0> next_age = max(age) + 7; // age at the next weighing, days
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
  real alpha_c; // mean weight at age xbar, grams
  real beta_c; // mean growth, grams per day
  real<lower=0> tau_c; // precision of a weight about its rat's line
  real<lower=0> tau_alpha; // precision of the rats' weights at age xbar
  real<lower=0> tau_beta; // precision of the rats' growth
  vector[R] alpha; // weight of each rat at age xbar, grams
  vector[R] beta; // growth of each rat, grams per day
}
transformed parameters {
  real<lower=0> sigma = inv_sqrt(tau_c); // sd about the line, grams
  real<lower=0> sigma_alpha = inv_sqrt(tau_alpha); // sd of alpha, grams
  real<lower=0> sigma_beta = inv_sqrt(tau_beta); // sd of beta, grams per day
  // expected weight, grams
  vector[N] mu = alpha[rat] + beta[rat] .* (age - xbar);
  // log density of the top-level priors
  real lprior = normal_lpdf([alpha_c, beta_c] | coef_mean, coef_sd)
                + gamma_lpdf([tau_c, tau_alpha, tau_beta] | tau_shape, tau_rate);
}
model {
  target += lprior;
  alpha ~ normal(alpha_c, sigma_alpha);
  beta ~ normal(beta_c, sigma_beta);
  if (prior_only == 0) {
    y[seen] ~ normal(mu[seen], sigma);
  }
}
generated quantities {
  real alpha0 = alpha_c - xbar * beta_c; // mean weight at birth, grams
  vector[N] log_lik; // log likelihood of each observation
  for (n in 1 : N) {
    log_lik[n] = normal_lpdf(y[n] | mu[n], sigma);
  }
  vector[N] y_rep = to_vector(normal_rng(mu, sigma)); // replicated weights
  // weight at the next weighing: of each rat, and of another rat
  vector[R] y_new = to_vector(normal_rng(alpha + beta * (next_age - xbar),
                                         sigma));
  real y_new_group = normal_rng(normal_rng(alpha_c, sigma_alpha)
                                + normal_rng(beta_c, sigma_beta)
                                  * (next_age - xbar),
                                sigma);
}
