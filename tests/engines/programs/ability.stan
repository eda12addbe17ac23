data {
  int<lower=1> N;
  int<lower=1> P;
  array[N] int<lower=1, upper=P> person;
  array[N] int<lower=0, upper=1> y;
}
parameters {
  vector[P] ability;
  cholesky_factor_corr[2] L;
  real<lower=0> scale;
  array[2] real easiness;
}
model {
  L ~ lkj_corr_cholesky(2);
  scale ~ exponential(1);
  easiness ~ logistic(0, 1);
  ability ~ normal(0, scale);
  for (n in 1 : N) {
    y[n] ~ bernoulli_logit(ability[person[n]] + easiness[n % 2 + 1] * L[2, 1]);
  }
}
