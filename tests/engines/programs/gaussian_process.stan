data {
  int<lower=1> N;
  array[N] real x;
  vector[N] y;
}
parameters {
  real<lower=0> length;
  real<lower=0> height;
  real<lower=0> sigma;
}
model {
  length ~ inv_gamma(5, 5);
  height ~ std_normal();
  sigma ~ std_normal();
  y ~ multi_normal(rep_vector(0, N),
                   add_diag(gp_exp_quad_cov(x, height, length), square(sigma)));
}
