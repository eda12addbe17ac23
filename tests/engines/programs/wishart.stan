data {
  int<lower=1> N;
  array[N] vector[2] y;
}
parameters {
  vector[2] mu;
  cov_matrix[2] Sigma;
  ordered[2] cut;
}
model {
  mu ~ std_normal();
  cut ~ normal(0, 2);
  Sigma ~ inv_wishart(4, identity_matrix(2));
  y ~ multi_normal(mu, Sigma);
}
