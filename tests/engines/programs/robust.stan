data {
  int<lower=1> N;
  vector[N] x;
  vector[N] y;
}
parameters {
  real a;
  real b;
  real<lower=0> sigma;
  real<lower=1> nu;
}
model {
  a ~ cauchy(0, 2.5);
  b ~ double_exponential(0, 1);
  sigma ~ weibull(2, 1);
  nu ~ gamma(2, 0.1);
  y ~ student_t(nu, a + b * x, sigma);
}
