"""Every command on a saved run of a user program, for unusual names of columns and labels."""

import json
import unicodedata

import numpy as np
import pandas as pd
import pytest
from synthetic_fits import same

import pyflowers
from pyflowers.analysis.calibration import of_fit
from pyflowers.batches.keep import draws, ranks
from pyflowers.cli.main import main
from pyflowers.programs import Program
from pyflowers.reports import report
from pyflowers.resources import arviz

PROGRAM = """
data {
  int<lower=0> N;
  int<lower=1> P;
  int<lower=1> K;
  array[N] int<lower=0> y;
  array[N] int<lower=1, upper=P> site;
  matrix[N, K] x;
  vector[P] age;
  int<lower=0, upper=1> prior_only;
  array[N] int<lower=0, upper=1> held_out;
}
parameters {
  vector[P] alpha;
  vector[K] beta;
  real<lower=0> tau;
}
transformed parameters {
  real lprior = normal_lpdf(beta | 0, 1) + exponential_lpdf(tau | 1);
}
model {
  target += lprior;
  alpha ~ normal(0.1 * age, tau);
  if (!prior_only) {
    for (n in 1 : N) {
      if (!held_out[n]) y[n] ~ poisson_log(alpha[site[n]] + x[n] * beta);
    }
  }
}
generated quantities {
  vector[N] log_lik;
  array[N] int y_rep;
  array[P] int y_new;
  int y_new_group = poisson_log_rng(fmin(normal_rng(0, tau), 10));
  for (n in 1 : N) {
    real eta = alpha[site[n]] + x[n] * beta;
    log_lik[n] = poisson_log_lpmf(y[n] | eta);
    y_rep[n] = poisson_log_rng(fmin(eta, 10));
  }
  for (p in 1 : P) y_new[p] = poisson_log_rng(fmin(alpha[p], 10));
}
"""

NAMES = (
    *("visit day", "a,b", "it's", 'so "called"', "1st", "f[1]", "per/day", "no.", ".", "  two  "),
    *(unicodedata.normalize("NFC", "né"), unicodedata.normalize("NFD", "né"), "visit_day", "a=b"),
    *("real", "for", "class", "chain", "draw", "obs", "x", "y", "row", "tau", "alpha", "lp__"),
    *("log_lik", "y_rep", "site_index", "site", "held_out", "-", "%", "ä ö", "index", "花 🌸"),
)
"""Names of columns that have a meaning elsewhere or are hard to store."""

LABELS = (
    *("red rose", "a, b", "it's", 'so "called"', "x=1", "]", "[1]", "a] - alpha[b", "1", "01"),
    *(
        "per/day",
        "nan",
        "real",
        unicodedata.normalize("NFC", "é"),
        unicodedata.normalize("NFD", "é"),
    ),
)


def run(*words):
    """Run a command in this process and return its exit status."""
    with pytest.raises(SystemExit) as ended:
        main([str(word) for word in words])
    return ended.value.code or 0


@pytest.fixture(scope="module")
def own(tmp_path_factory):
    """The program's file, which is compiled once and declared for each table."""
    path = tmp_path_factory.mktemp("own") / "own.stan"
    path.write_text(PROGRAM)
    return path


def table(first):
    """Return a table and its declaration, with column names from `NAMES[first]` on."""
    group, time, value, treated, base, age = (NAMES[(first + 6 * k) % len(NAMES)] for k in range(6))
    groups, times = (
        [LABELS[(at + k) % len(LABELS)] for k in range(4)] for at in (first, first + 7)
    )
    rng = np.random.default_rng(1)
    rows = [
        (g, t, rng.poisson(3), rng.normal(), rng.normal(), groups.index(g))
        for g in groups
        for t in times
    ]
    declaration = {
        "data": {
            "y": {"column": value},
            "site": {"column": group, "index": True},
            "x": {"columns": [treated, base]},
            "age": {"column": age, "per": group},
            **{switch: {"value": 0} for switch in ("prior_only", "held_out")},
        },
        # In dims "obs" means the rows and "x" the matrix; without dims, the sizes decide.
        "dims": {} if group in ("obs", "x") else {"alpha": [group], "y_new": [group]},
        "table": {"group": group, "time": time},
    }
    return pd.DataFrame(rows, columns=[group, time, value, treated, base, age]), declaration


def cases():
    quick = {NAMES.index(name) for name in ("visit day", "obs")}
    slow = {NAMES.index(name) for name in ("a,b", "y", "real", "log_lik")}
    for first, name in enumerate(NAMES):
        for engine in ("stanli", "cmdstan"):
            marks = [pytest.mark.campaign]
            if first in slow:
                marks = [pytest.mark.slow]
            elif first in quick:
                marks = [pytest.mark.slow] if engine == "cmdstan" else []
            yield pytest.param(first, engine, marks=marks, id=f"{name}-{engine}")


@pytest.mark.slow
@pytest.mark.parametrize(("first", "engine"), list(cases()))
def test_every_command_reads_a_run_whatever_its_columns_are_called(
    own, cmdstan, first, engine, tmp_path, capsys
):
    frame, declaration = table(first)
    group, time, value, *covariates = frame.columns
    how = {"cmdstan": "embedded"} if engine == "cmdstan" else {}
    options = {"seed": 1, "chains": 2, "warmup": 100, "draws": 100, "engine": engine, **how}
    program = Program.open(own, declaration=declaration)
    fit = pyflowers.fit(program, frame, **options)
    saved = fit.save(tmp_path / "run")

    back = pyflowers.Fit.load(saved)
    assert same(back, fit)
    for name, values in fit.data.values.items():
        np.testing.assert_array_equal(back.data[name], values)
    labels = [f"alpha[{label}]" for label in dict.fromkeys(frame[group])]
    assert back.summary().index.tolist() == [
        *labels,
        *(f"beta[{covariate}]" for covariate in covariates[:2]),
        "tau",
    ]
    assert (back.data.by_group.column, back.data.by_time.column) == (group, time)
    assert back.data.value_name == value

    read = arviz().from_netcdf(saved / "draws.nc")
    (dim,) = set(read.posterior["alpha"].dims) - {"chain", "draw"}
    assert read.posterior[dim].values.tolist() == list(dict.fromkeys(frame[group]))
    assert read.log_likelihood["y"].dims == ("chain", "draw", "obs")
    assert read.log_likelihood[dim].values.tolist() == frame[group].tolist()
    assert set(read.posterior_predictive.data_vars) == {"y"}

    for command in ("check", "predict", "sensitivity", "loo", "replay"):
        assert run(command, saved) in (0, 3), command  # 3: so few draws fail the diagnostics
    assert run("loo", saved, "--by-group") == 0
    assert "bitwise equal" in capsys.readouterr().out
    assert run("contrast", saved, *labels, f"{labels[0]} - {labels[1]} > 0", "--json") == 0
    shown = json.loads(capsys.readouterr().out)
    assert [*labels, f"{labels[0]} - {labels[1]} > 0"] == [
        each["expression"] for each in shown["contrasts"]
    ]
    if engine == "cmdstan":
        assert run("report", saved, "--out", tmp_path / "report.html") == 0
    else:
        report([back], tmp_path / "report.html")
    assert (tmp_path / "report.html").stat().st_size > 10_000


WORDS = """
data { int N; vector[N] y; array[N] int row; int plant_index; }
parameters { real chain; real draw; real lambda; vector[2] class; }
model {
  chain ~ std_normal();
  draw ~ std_normal();
  lambda ~ std_normal();
  class ~ std_normal();
  y ~ normal(chain, 1);
}
"""


def test_parameters_may_be_called_as_something_else_is(own_program, tmp_path):
    program = own_program("words", WORDS)
    block = {"N": 2, "y": [1.0, 2.0], "row": [7, 8], "plant_index": 3}
    how = {"seed": 1, "chains": 2, "warmup": 100, "draws": 50, "engine": "stanli"}
    fit = pyflowers.fit(program, block, **how)
    assert list(fit.draws) == ["chain", "draw", "lambda", "class"]
    back = pyflowers.Fit.load(fit.save(tmp_path / "run"))
    assert same(back, fit)
    assert (back.data["row"].tolist(), back.data["plant_index"]) == ([7, 8], 3)
    assert list(back.idata.posterior) == ["chain_", "draw_", "lambda", "class"]
    kept = draws(back)
    assert list(kept) == ["chain", "draw", "chain_", "draw_", "lambda", "class[1]", "class[2]"]
    np.testing.assert_array_equal(kept["chain_"], fit.draws["chain"].ravel())
    shares = pyflowers.contrast(back, "lambda > 0", "sum(class) - lambda > class[2]").conditions()
    above = fit.draws["class"][..., 0] > fit.draws["lambda"]
    expected = [(fit.draws["lambda"] > 0).mean(), above.mean()]
    np.testing.assert_allclose(shares["probability"], expected)
    # By Stan's name and by the posterior's name
    one, other = (pyflowers.contrast(back, f"{name} > 0") for name in ("draw", "draw_"))
    share = (fit.draws["draw"] > 0).mean()
    np.testing.assert_allclose([c.conditions()["probability"] for c in (one, other)], share)
    found = ranks(back, {"chain": 0.0, "draw": 0.0})
    assert found["rank"].tolist() == [(fit.draws[name] < 0).sum() for name in ("chain", "draw")]
    assert of_fit(back, {"draw": 0.0}, 1)["mean"] == pytest.approx(fit.draws["draw"].mean())
    line = pyflowers.plots.trace_first_chain(back, "draw").axes[0].lines[0]
    np.testing.assert_array_equal(line.get_ydata(), fit.draws["draw"][0])
