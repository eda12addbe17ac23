"""A user program and its table, for tests of declarations and their effects."""

import pandas as pd

TRIAL = """
data {
  int<lower=0> N;
  int<lower=1> P;
  int<lower=1> K;
  array[N] int<lower=0> y;
  array[N] int<lower=1, upper=P> patient;
  matrix[N, K] x;
  vector[P] age;
  real<lower=0> tau_scale;
  int<lower=0, upper=1> prior_only;
}
parameters {
  vector[P] alpha;
  vector[K] beta;
  real<lower=0> tau;
}
transformed parameters {
  real lprior = normal_lpdf(beta | 0, 1) + normal_lpdf(tau | 0, tau_scale);
  vector[N] eta = alpha[patient] + x * beta;
}
model {
  target += lprior;
  alpha ~ normal(0.01 * age, tau);
  if (!prior_only) y ~ poisson_log(eta);
}
generated quantities {
  vector[N] log_lik;
  array[N] int y_sim;
  for (n in 1:N) {
    log_lik[n] = poisson_log_lpmf(y[n] | eta[n]);
    y_sim[n] = poisson_log_rng(fmin(eta[n], 15));
  }
}
"""

DECLARATION = """
omit = ["eta"]
[data]
y       = { column = "seizures" }
patient = { column = "patient", index = true }
x       = { columns = ["treated", "base"] }
age     = { column = "age", per = "patient" }
[dims]
alpha = ["patient"]
beta = ["x"]
[priors]
tau_scale = 1.0
[roles]
y_rep = "y_sim"
[table]
group = "patient"
time = "visit"
[parameters.tau]
description = "spread of the patients"
unit = "{value} per {time} and {group}"
prior = "normal(0, tau_scale)"
"""

SECTIONS = {
    "omit": ["eta"],
    "data": {
        "y": {"column": "seizures"},
        "patient": {"column": "patient", "index": True},
        "x": {"columns": ["treated", "base"]},
        "age": {"column": "age", "per": "patient"},
    },
    "dims": {"alpha": ["patient"], "beta": ["x"]},
    "priors": {"tau_scale": 1.0},
    "roles": {"y_rep": "y_sim"},
    "table": {"group": "patient", "time": "visit"},
    "parameters": {
        "tau": {
            "description": "spread of the patients",
            "unit": "{value} per {time} and {group}",
            "prior": "normal(0, tau_scale)",
        }
    },
}


def visits():
    """Return the table of two patients with different numbers of visits, in random order."""
    rows = [
        ("Ann", 2, 5, 1, 0.5, 31),
        ("Bob", 1, 2, 0, 1.5, 44),
        ("Ann", 1, 3, 1, 0.5, 31),
        ("Bob", 2, 0, 0, 1.5, 44),
        ("Ann", 10, 4, 1, 0.5, 31),
    ]
    columns = ["patient", "visit", "seizures", "treated", "base", "age"]
    return pd.DataFrame(rows, columns=columns)
