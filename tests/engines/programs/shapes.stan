data {
  int<lower=0> Z;
}
parameters {
  real a;
  matrix[2, 3] m;
  array[2] vector[3] av;
  array[2, 2] matrix[2, 3] am;
  vector[Z] none;
}
transformed parameters {
  row_vector[2] r = [a, 2 * a];
}
model {
  a ~ std_normal();
  to_vector(m) ~ std_normal();
  for (i in 1 : 2) {
    av[i] ~ std_normal();
    for (j in 1 : 2) {
      to_vector(am[i, j]) ~ std_normal();
    }
  }
}
generated quantities {
  array[2, 3] int k;
  for (i in 1 : 2) {
    for (j in 1 : 3) {
      k[i, j] = poisson_rng(3);
    }
  }
}
