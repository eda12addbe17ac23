functions {
  vector decay(real t, vector y, real rate) {
    return -rate * y;
  }
}
data {
  vector[3] y;
}
parameters {
  real<lower=0> rate;
  real<lower=0> sigma;
}
model {
  array[3] vector[1] state = ode_rk45(decay, [2.0]', 0, {0.5, 1.0, 2.0}, rate);
  rate ~ lognormal(0, 1);
  sigma ~ exponential(1);
  for (i in 1 : 3) {
    y[i] ~ normal(state[i, 1], sigma);
  }
}
