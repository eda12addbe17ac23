"""Formulas that join what brms' formulas can say, each with every command, plot and report."""

import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cache

import numpy as np
import pandas as pd
import pytest
from command_line import run
from curves_by_hand import splines
from scipy.special import expit, ndtr, softmax

from pyflowers import Fit

pytestmark = pytest.mark.usefixtures("in_a_shell")

NUM = 48
LABELS = list("abcdefgh")
HOW = ("--chains", 2, "--warmup", 100, "--draws", 50, "--seed", 1)
KINSHIP = pd.DataFrame(
    0.5 ** np.abs(np.subtract.outer(np.arange(8), np.arange(8))), index=LABELS, columns=LABELS
)


@cache
def table() -> pd.DataFrame:
    """Return a table with a response of each kind, whose mean depends on x and g."""
    rng = np.random.default_rng(54)
    g = np.repeat(np.arange(8), 6)
    frame = pd.DataFrame({"x": rng.uniform(-1.5, 1.5, NUM), "z": rng.normal(0.5, 1, NUM)})
    frame["g"], frame["day"] = np.array(LABELS)[g], np.tile(np.arange(6), 8)
    frame["site"] = np.where(g < 4, "near", "far")
    other = (g + rng.integers(1, 8, NUM)) % 8
    frame["g2"] = np.array(LABELS)[other]
    frame["w1"] = rng.uniform(0.2, 0.8, NUM)
    frame["w2"] = 1 - frame.w1
    frame["f"] = rng.permutation(np.tile(["u", "v"], NUM // 2))
    frame["dose"] = rng.permutation(np.tile(["low", "mid", "high"], NUM // 3))
    frame["level"] = rng.permutation(np.tile([1, 2, 3], NUM // 3))
    frame["month"] = rng.permutation(np.tile(np.arange(1, 13), NUM // 12))
    frame["hours"] = rng.uniform(1, 3, NUM)
    frame["s"], frame["w"] = rng.uniform(0.2, 0.6, NUM), rng.integers(1, 4, NUM)
    frame["n"] = rng.integers(5, 12, NUM)
    eta = 0.6 * frame.x + rng.normal(0, 0.5, 8)[g]
    noise = rng.normal(0, 0.5, NUM) * np.exp(0.3 * frame.x)
    frame["y"] = 1 + eta + noise
    frame["gap"] = frame.y.where(np.arange(NUM) % 9 != 4)
    is_zero = rng.random(NUM) < expit(-1.2 + 0.5 * frame.x)
    frame["time"] = np.exp(0.5 + 0.5 * eta + 0.4 * rng.normal(size=NUM)) + 0.3
    frame["kind"] = np.resize([0, 0, 1, 0, -1, 2, 0], NUM)
    frame["word"] = np.where(frame.kind == 1, "right", "none")
    frame["end"] = frame.time + 0.5
    frame["amount"] = np.where(is_zero, 0, rng.gamma(3, np.exp(0.4 * eta) / 3))
    frame["count"] = rng.poisson(np.exp(1 + 0.5 * eta))
    frame["zeros"] = np.where(is_zero, 0, frame["count"])
    frame["seen"] = rng.poisson(np.exp(1.2 + 0.3 * eta)) + 1
    share = rng.beta(6 * expit(eta), 6 * expit(-eta))
    frame["share"] = np.where(is_zero, 0, np.where(rng.random(NUM) < 0.15, 1, share))
    frame["from_0"] = np.where(is_zero, 0, share)
    frame["success"] = np.where(is_zero, 0, rng.binomial(frame.n, expit(eta)))
    frame["angle"] = rng.vonmises(2 * np.arctan(0.5 * eta), 4)
    liking = np.stack([0 * eta, eta, 0.3 - frame.x]) + rng.gumbel(size=(3, NUM))
    frame["way"] = np.array(["walk", "bus", "own car"])[liking.argmax(axis=0)]
    chances = softmax(np.stack([0 * eta, eta, 0.3 - frame.x], axis=1), axis=1)
    frame[["walk", "bus", "car"]] = rng.multinomial(frame.n, chances)
    latent = eta + rng.logistic(size=NUM)
    frame["rating"] = 1 + (latent > -0.8).astype(int) + (latent > 0.7)
    frame["pain"] = np.array(["none", "mild", "severe"])[frame.rating - 1]
    frame["cured"] = np.where(latent > 0, "yes", "no")
    return frame.round(4)


def new_rows() -> pd.DataFrame:
    """Return rows of the table, the second of which has another x, factor and group."""
    frame = table().iloc[[0, 13, 30, 47]].reset_index(drop=True)
    frame.loc[1, ["x", "f", "dose", "level", "g", "site"]] = [0.7, "v", "mid", 3, "c", "near"]
    return frame


# Definitions


def of(fit, name, label=None):
    """Return draws of a parameter, or of one of its elements, with an axis for rows."""
    if label is None:
        return fit.draws[name][..., None]
    its = fit.posterior[name]
    return its.values[..., [str(each) for each in its[its.dims[-1]].values].index(label), None]


def line(fit, rows, *columns, tag=""):
    """Return an intercept and the slopes of numeric columns."""
    found = of(fit, f"Intercept{tag}")
    for column in columns:
        found = found + of(fit, f"b{tag}", column) * rows[column].to_numpy(float)
    return found


def by_v(fit, rows, tag=""):
    """Return the effect of the level v of f."""
    return of(fit, f"b{tag}", "fv") * (rows.f == "v").to_numpy(float)


def in_groups(fit, rows, name="r_g", column="g"):
    """Return the effects of the rows' groups."""
    return fit.draws[name][..., [LABELS.index(label) for label in rows[column]]]


def curve(fit, rows, name, column="x"):
    """Return a smooth."""
    basis = splines(fit.program, f"S_{name}", rows[column].to_numpy(float))
    return fit.draws[f"s_{name}"] @ np.asarray(basis).T


def steps(fit, rows, tag=""):
    """Return a monotonic effect of level, whose levels are 1, 2 and 3."""
    shares = fit.draws[f"share_level{tag}"]
    up_to = np.concatenate([np.zeros_like(shares[..., :1]), np.cumsum(shares, axis=-1)], axis=-1)
    return 2 * of(fit, f"mo_level{tag}") * up_to[..., rows.level.to_numpy() - 1]


def sigma_by_group(fit, rows):
    eta = line(fit, rows, "x") + curve(fit, rows, "x") + by_v(fit, rows)
    log_sigma = line(fit, rows, "x", tag="_sigma") + in_groups(fit, rows, "r_g_sigma")
    return eta, eta, {"sigma": np.exp(log_sigma)}


def zeros_by_x(fit, rows):
    eta = line(fit, rows, "x") + in_groups(fit, rows)
    zi, shape = expit(line(fit, rows, "x", tag="_zi")), line(fit, rows, tag="_shape")
    shape = np.exp(shape + by_v(fit, rows, "_shape"))
    return eta, (1 - zi) * np.exp(eta), {"zi": zi, "shape": shape}


def hurdle_poisson(fit, rows):
    eta = line(fit, rows) + steps(fit, rows)
    hu, mean = expit(line(fit, rows, "x", tag="_hu") + by_v(fit, rows, "_hu")), np.exp(eta)
    return eta, (1 - hu) * mean / -np.expm1(-mean), {"hu": hu}


def hurdle_negbinomial(fit, rows):
    eta = line(fit, rows, "x") + in_groups(fit, rows)
    mean, shape = np.logaddexp(0, eta), of(fit, "shape")
    hu = expit(line(fit, rows, tag="_hu") + in_groups(fit, rows, "r_g_hu"))
    zero = -shape * np.log1p(mean / shape)  # the log of the probability of 0 without the hurdle
    return eta, (1 - hu) * mean / -np.expm1(zero), {"hu": hu}


def hurdle_gamma(fit, rows):
    eta = line(fit, rows, "x") + in_groups(fit, rows)
    hu = expit(line(fit, rows, tag="_hu") + by_v(fit, rows, "_hu"))
    shape = np.exp(line(fit, rows, "x", tag="_shape"))
    return eta, (1 - hu) * np.exp(eta), {"hu": hu, "shape": shape}


def hurdle_lognormal(fit, rows):
    eta = line(fit, rows, "x")
    hu = expit(line(fit, rows, "x", tag="_hu") + curve(fit, rows, "x_hu"))
    return eta, (1 - hu) * np.exp(eta + of(fit, "sigma") ** 2 / 2), {"hu": hu}


def weibull(fit, rows):
    eta = line(fit, rows, "x") + in_groups(fit, rows)
    shape = np.exp(line(fit, rows, tag="_shape") + by_v(fit, rows, "_shape"))
    return eta, np.exp(eta), {"shape": shape}


def lognormal(fit, rows):
    eta = line(fit, rows, "x")
    for label in ("mid", "high"):
        eta = eta + of(fit, "b", f"dose{label}") * (rows.dose == label).to_numpy(float)
    sigma = np.exp(line(fit, rows, tag="_sigma") + by_v(fit, rows, "_sigma"))
    return eta, np.exp(eta + sigma**2 / 2), {"sigma": sigma}


def known_errors(fit, rows):
    eta = line(fit, rows, "x") + steps(fit, rows) + in_groups(fit, rows)
    return eta, eta, {"nu": of(fit, "nu") + 0 * eta}


def beta_binomial(fit, rows):
    eta = line(fit, rows, "x") + in_groups(fit, rows)
    phi = np.exp(line(fit, rows, tag="_phi") + by_v(fit, rows, "_phi"))
    return eta, rows.n.to_numpy() * ndtr(eta), {"phi": phi}


def zero_inflated_binomial(fit, rows):
    eta, zi = line(fit, rows, "x") + by_v(fit, rows), expit(line(fit, rows, "x", tag="_zi"))
    eta = eta + of(fit, "b", "x:fv") * (rows.x * (rows.f == "v")).to_numpy()
    return eta, (1 - zi) * rows.n.to_numpy() * -np.expm1(-np.exp(eta)), {"zi": zi}


def ordered_beta(fit, rows):
    eta, is_v = line(fit, rows) + by_v(fit, rows), (rows.f == "v").to_numpy()
    basis = np.asarray(splines(fit.program, "S_x_f", rows.x.to_numpy()))
    own = fit.draws["s_x_f"].reshape(*eta.shape[:2], 2, basis.shape[1])
    for j, rows_of in enumerate((~is_v, is_v)):
        slope = of(fit, "b", f"x:f{'uv'[j]}") * rows.x.to_numpy()
        eta = eta + rows_of * (own[:, :, j] @ basis.T + slope)
    low = expit(eta - of(fit, "cutzero"))
    high = expit(eta - of(fit, "cutzero") - np.exp(of(fit, "cutone")))
    phi = np.exp(line(fit, rows, "x", tag="_phi"))
    return eta, high + (low - high) * expit(eta), {"phi": phi}


def zero_inflated_beta(fit, rows):
    eta = line(fit, rows, "x") + in_groups(fit, rows)
    zi = expit(line(fit, rows, "x", tag="_zi"))
    phi = np.exp(line(fit, rows, tag="_phi") + steps(fit, rows, "_phi"))
    return eta, (1 - zi) * -np.expm1(-np.exp(eta)), {"zi": zi, "phi": phi}


def inverse_gaussian(fit, rows):
    eta = line(fit, rows, "x") + in_groups(fit, rows)
    return eta, np.exp(eta), {"shape": np.exp(line(fit, rows, "x", tag="_shape"))}


def series(fit, rows):
    eta = line(fit, rows, "x")
    return eta, eta, {"sigma": np.exp(line(fit, rows, "x", tag="_sigma"))}


def units(fit, rows):
    eta = line(fit, rows, "x") + by_v(fit, rows)
    return eta, eta, {"sigma": of(fit, "sigma") + 0 * eta}


def skew_normal(fit, rows):
    members = rows.w1.to_numpy() * in_groups(fit, rows, "r_mm_g_g2")
    members = members + rows.w2.to_numpy() * in_groups(fit, rows, "r_mm_g_g2", "g2")
    eta = line(fit, rows, "x") + members
    return eta, eta, {"alpha": line(fit, rows, "x", tag="_alpha")}


def process(fit, rows):
    """Equations 8 and 14 of Riutort-Mayol et al. (2023), from the coefficients of the sines."""
    low, high = table().x.min(), table().x.max()
    boundary = 1.5 * (high - low) / 2
    root = np.arange(1, 11) * np.pi / (2 * boundary)
    sines = np.sin(root * (rows.x.to_numpy()[:, None] - (low + high) / 2 + boundary))
    eta = line(fit, rows) + by_v(fit, rows) + fit.draws["gp_x"] @ (sines / np.sqrt(boundary)).T
    return eta, eta, {"beta": np.exp(line(fit, rows, "x", tag="_beta"))}


def quantile(fit, rows):
    eta = line(fit, rows, "x") + curve(fit, rows, "x") + in_groups(fit, rows)
    return eta, eta + of(fit, "sigma") * (1 - 2 * 0.9) / (0.9 * 0.1), {}


def von_mises(fit, rows):
    eta = line(fit, rows, "x") + in_groups(fit, rows)
    kappa = np.exp(line(fit, rows, "x", tag="_kappa"))
    return eta, 2 * np.arctan(eta), {"kappa": kappa}


def categorical(fit, rows):
    bus = line(fit, rows, "x", tag="_mubus") + in_groups(fit, rows, "r_g_mubus")
    car = line(fit, rows, "x", tag="_muowncar") + curve(fit, rows, "x_muowncar")
    etas = [np.zeros_like(bus), bus, car]
    return None, softmax(np.stack(etas, axis=2), axis=2), {"mubus": bus, "muowncar": car}


def multinomial(fit, rows):
    bus = line(fit, rows, tag="_mubus") + steps(fit, rows, "_mubus")
    car = line(fit, rows, "x", tag="_mucar") + in_groups(fit, rows, "r_g_mucar")
    etas = [np.zeros_like(bus), bus, car]
    return None, softmax(np.stack(etas, axis=2), axis=2), {"mubus": bus, "mucar": car}


def sratio(fit, rows):
    eta = of(fit, "b", "x") * rows.x.to_numpy() + in_groups(fit, rows)
    stop = -np.expm1(-np.exp(fit.draws["threshold"][..., None] - eta[:, :, None]))
    first, second = stop[:, :, 0], (1 - stop[:, :, 0]) * stop[:, :, 1]
    shares = np.stack([first, second, 1 - first - second], axis=2)
    return eta, np.einsum("cdjr,j->cdr", shares, [1, 2, 3]), {}


def acat(fit, rows):
    eta = of(fit, "b", "x") * rows.x.to_numpy() + steps(fit, rows)
    odds = np.cumsum(eta[:, :, None] - fit.draws["threshold"][..., None], axis=2)
    shares = softmax(np.concatenate([np.zeros_like(odds[:, :, :1]), odds], axis=2), axis=2)
    return eta, np.einsum("cdjr,j->cdr", shares, [1, 2, 3]), {}


def relatives(fit, rows):
    effects = fit.draws["r_g"][..., [LABELS.index(label) for label in rows.g], :]
    eta = line(fit, rows, "x") + effects[..., 0] + effects[..., 1] * rows.x.to_numpy()
    return eta, -np.expm1(-np.exp(eta)), {}


def missing(fit, rows):
    eta = line(fit, rows, "x") + in_groups(fit, rows)
    return eta, eta, {"sigma": np.exp(line(fit, rows, "z", tag="_sigma"))}


def truncated(fit, rows):
    eta = line(fit, rows, "x") + curve(fit, rows, "month", "month")
    return eta + np.log(rows.hours.to_numpy()), np.exp(eta) * rows.hours.to_numpy(), {}


def shifted(fit, rows):
    eta = line(fit, rows, "x") + by_v(fit, rows) + in_groups(fit, rows)
    sigma = sum(
        of(fit, "b_sigma", f"f{level}") * (rows.f == level).to_numpy(float) for level in "uv"
    )
    return eta, of(fit, "ndt") + np.exp(eta + np.exp(sigma) ** 2 / 2), {"sigma": np.exp(sigma)}


# Cases


@dataclass(frozen=True)
class Case:
    """A formula, the definition of its predictions, and what does not apply to it.

    Attributes
    ----------
    definition : callable
        Takes a fit and rows; returns the linear predictor (None if there are several), the expected
        response, and the parameters that have terms.
    refused : dict of str to str
        Commands that do not apply, and a part of the sentence that each answers.
    """

    formula: str
    family: str
    definition: Callable
    options: tuple[str, ...] = ()
    contrast: str = "b[x] > 0"
    refused: dict[str, str] = field(default_factory=dict)


OF_NUMBERS = {"probability": "needs ratings, successes or counts"}
OF_STUDENT = {"population": "the population of r_g is a Student t distribution"}
OF_SEVERAL = {"linear": "choose a linear predictor, such as"}

CASES = {
    "sigma": Case(
        "y ~ s(x, k=4) + f; sigma ~ x + (1 | g)", "gaussian", sigma_by_group, refused=OF_NUMBERS
    ),
    "zi": Case("zeros ~ x + (1 | g); zi ~ x; shape ~ f", "zero_inflated_negbinomial", zeros_by_x),
    "hurdle_poisson": Case(
        "zeros ~ mo(level); hu ~ x + f", "hurdle_poisson", hurdle_poisson, contrast="b_hu[x] > 0"
    ),
    "hurdle_negbinomial": Case(
        "zeros ~ x + (1 | g); hu ~ 1 + (1 | g)",
        "hurdle_negbinomial(softplus)",
        hurdle_negbinomial,
        refused={"effects hu": "hu of zeros ~ x + (1 | g); hu ~ 1 + (1 | g) has no covariates"},
    ),
    "hurdle_gamma": Case(
        "amount ~ x + (1 | g); hu ~ f; shape ~ x", "hurdle_gamma", hurdle_gamma, refused=OF_NUMBERS
    ),
    "hurdle_lognormal": Case(
        "amount ~ x; hu ~ s(x, k=4)", "hurdle_lognormal", hurdle_lognormal, refused=OF_NUMBERS
    ),
    "weibull": Case(
        "time | cens(kind, y2 = end) ~ x + (1 | gr(g, dist=student)); shape ~ f",
        "weibull",
        weibull,
        refused={**OF_NUMBERS, **OF_STUDENT},
    ),
    "lognormal": Case(
        'time | cens(word) + trunc(lb = 0.01, ub = 90) ~ x + C(dose, levels=["low", "mid", "high"])'
        "; sigma ~ f",
        "lognormal",
        lognormal,
        refused=OF_NUMBERS,
    ),
    "se": Case(
        "y | se(s, sigma = TRUE) + weights(w) ~ x + mo(level) + (1 | g)",
        "student",
        known_errors,
        contrast="mo_level > 0",
        refused={**OF_NUMBERS, "effects nu": "nu of y | se("},
    ),
    "beta_binomial": Case(
        "success | trials(n) ~ x + (1 | g); phi ~ f", "beta_binomial(probit)", beta_binomial
    ),
    "zero_inflated_binomial": Case(
        "success | trials(n) ~ x * f; zi ~ x",
        "zero_inflated_binomial(cloglog)",
        zero_inflated_binomial,
    ),
    "ordered_beta": Case(
        "share ~ f + s(x, k=4, by=f); phi ~ x",
        "ordered_beta",
        ordered_beta,
        contrast="b[fv] > 0",
        refused=OF_NUMBERS,
    ),
    "zero_inflated_beta": Case(
        "from_0 ~ x + (1 | g); zi ~ x; phi ~ mo(level)",
        "zero_inflated_beta(cloglog)",
        zero_inflated_beta,
        refused=OF_NUMBERS,
    ),
    "inverse_gaussian": Case(
        "time ~ x + (1 | gr(g, by=site)); shape ~ x",
        "inverse_gaussian",
        inverse_gaussian,
        refused=OF_NUMBERS,
    ),
    "series": Case(
        "y ~ x + ar(time = day, gr = g); sigma ~ x", "student", series, refused=OF_NUMBERS
    ),
    "units": Case(
        "y ~ x + f + cosy(gr = g)",
        "gaussian",
        units,
        refused={**OF_NUMBERS, "effects sigma": "as in sigma ~ x"},
    ),
    "skew_normal": Case(
        "y ~ x + (1 | mm(g, g2, weights = cbind(w1, w2))); alpha ~ x",
        "skew_normal",
        skew_normal,
        refused=OF_NUMBERS,
    ),
    "process": Case(
        "time ~ f + gp(x, k=10); beta ~ x",
        "exgaussian",
        process,
        contrast="b[fv] > 0",
        refused=OF_NUMBERS,
    ),
    "quantile": Case(
        "y ~ s(x, k=4) + (1 | g)",
        "asym_laplace",
        quantile,
        ("--prior", "quantile=0.9"),
        refused=OF_NUMBERS,
    ),
    "von_mises": Case(
        "angle ~ x + (1 | g); kappa ~ x",
        "von_mises",
        von_mises,
        refused={**OF_NUMBERS, "explained": "predicts directions, whose variance"},
    ),
    "categorical": Case(
        'C(way, levels=["walk", "bus", "own car"]) ~ x + (1 | g); muowncar ~ s(x, k=4)',
        "categorical",
        categorical,
        contrast="b_mubus[x] > 0",
        refused={
            **OF_SEVERAL,
            "expected": "have no order",
            "observation": "have no order",
            "explained": "categories without an order",
        },
    ),
    "multinomial": Case(
        "cbind(walk, bus, car) | trials(n) ~ x + (1 | g); mubus ~ mo(level)",
        "multinomial",
        multinomial,
        contrast="b_mucar[x] > 0",
        refused={**OF_SEVERAL, "explained": "categories without an order"},
    ),
    "sratio": Case(
        'C(pain, levels=["none", "mild", "severe"]) ~ x + (1 | gr(g, dist=student))',
        "sratio(cloglog)",
        sratio,
        refused=OF_STUDENT,
    ),
    "acat": Case("rating ~ x + mo(level)", "acat", acat),
    "relatives": Case(
        "cured ~ x + (x | gr(g, cov=A))", "bernoulli(cloglog)", relatives, ("--known", "A")
    ),
    "missing": Case(
        "gap | mi() ~ x + (1 | g); sigma ~ z",
        "gaussian",
        missing,
        ("--prior", "b[x] ~ normal(0.5, 0.2)", "--prior", "sd ~ exponential(1)"),
        refused=OF_NUMBERS,
    ),
    "truncated": Case(
        'seen | trunc(lb = 1, ub = 40) + weights(w, kind = survey) ~ x + s(month, bs="cc", k=5, '
        "period=12) + offset(log(hours))",
        "poisson",
        truncated,
    ),
    "shifted": Case(
        "time ~ x + f + (1 | g); sigma ~ 0 + f", "shifted_lognormal", shifted, refused=OF_NUMBERS
    ),
}


# What is asked of each fit

COMMANDS = {
    "check": "check RUN --out OUT",
    "effects": "effects RUN --out OUT",
    "slopes": "effects RUN x --slopes",
    "expected": "predict RUN --new NEW --kind expected --draws --out OUT",
    "linear": "predict RUN --new NEW --kind linear",
    "observation": "predict RUN --new NEW --kind observation",
    "probability": "predict RUN --new NEW --kind probability",
    "grid": "predict RUN --grid x=-1:1:1",
    "population": "predict RUN --grid x=-1:1:1 --groups population",
    "loo": "loo RUN --out OUT",
    "explained": "loo RUN --explained",
    "sensitivity": "sensitivity RUN --out OUT",
    "table": "table RUN",
    "replay": "replay RUN",
}
OF_EDITED = ("check", "effects", "linear", "observation", "grid", "loo", "sensitivity")


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """A folder with the tables."""
    folder = tmp_path_factory.mktemp("tables")
    table().to_csv(folder / "table.csv", index=False)
    new_rows().to_csv(folder / "new.csv", index=False)
    KINSHIP.to_csv(folder / "A.csv")
    return folder


def of_command(case, files):
    """Return a formula with its options, as arguments of a command."""
    options = (f"A={files / 'A.csv'}" if each == "A" else each for each in case.options)
    return (case.formula, "--family", case.family, *options, "--data", files / "table.csv")


@pytest.fixture(scope="module")
def run_of(files, tmp_path_factory):
    """The run folder of each formula, with its figures."""
    found = {}

    def folder(name):
        if name not in found:
            out = tmp_path_factory.mktemp("runs") / name
            words = of_command(CASES[name], files)
            assert run("fit", *words, "--engine", "stanli", "--out", out, *HOW) == 0
            found[name] = out
        return found[name]

    return folder


def answered(capfd, words, refusal=""):
    """Run a command that prints JSON, or is refused in one sentence."""
    capfd.readouterr()
    status = run(*words, "--json")
    printed = capfd.readouterr()
    if refusal:
        assert (status, printed.out) == (1, ""), words
        assert refusal in printed.err
        assert printed.err.count("\n") == 1
    else:
        assert status in (0, 3), (words, printed.err)
        assert printed.err == "", words
        assert json.loads(printed.out)


def test_there_are_25_formulas():
    assert len(CASES) >= 25


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_predictions_of_new_rows_are_their_definitions(name, run_of):
    fit, rows = Fit.load(run_of(name)), new_rows()
    linear, expected, parameters = CASES[name].definition(fit, rows)
    found = {"linear": linear, "expected": expected}
    if linear is None:
        found = {"probability": expected}
    for kind, values in found.items():
        draws = fit.predict(rows, kind=kind).draws().to_numpy()
        np.testing.assert_allclose(draws, values, rtol=1e-10, atol=1e-10, err_msg=kind)
    for parameter, values in parameters.items():
        draws = fit.predict(rows, parameter=parameter).draws().to_numpy()
        np.testing.assert_allclose(draws, values, rtol=1e-10, atol=1e-10, err_msg=parameter)


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_every_command_answers_or_says_why_not(name, run_of, files, tmp_path, capfd):
    case, folder = CASES[name], run_of(name)
    assert len(list((folder / "plots").iterdir())) >= 4
    parameters = case.definition(Fit.load(folder), new_rows())[2]
    asked = {key: text.split() for key, text in COMMANDS.items()}
    asked |= {f"effects {each}": ["effects", "RUN", "--parameter", each] for each in parameters}
    asked["contrast"] = ["contrast", "RUN", case.contrast, "--out", "OUT"]
    asked["update"] = ["fit", "--from", "RUN", "--seed", "2", "--plots", "none", "--out", "OUT"]
    assert case.refused.keys() <= asked.keys()
    for key, words in asked.items():
        paths = {"RUN": folder, "NEW": files / "new.csv", "OUT": tmp_path / key}
        answered(capfd, [paths.get(word, word) for word in words], case.refused.get(key, ""))
    what = of_command(case, files)
    answered(capfd, ["prior", *what, "--seed", 1, "--draws", 50, "--out", tmp_path / "prior"])
    answered(capfd, ["prior", *what, "--list"])
    assert run("report", folder, "--out", tmp_path / "report.html") == 0
    assert run("report", folder, "--format", "txt") == 0
    assert "Traceback" not in capfd.readouterr().err


def edited(name, files, folder):
    """Write the program of a formula, edit it, and return the arguments that fit it."""
    program, case = folder / "mine.stan", CASES[name]
    numbers = case.options if name == "quantile" else ()  # `new` takes densities only
    written = replace(case, options=()) if numbers else case
    assert run("new", program, *of_command(written, files)) == 0
    program.write_text(program.read_text("utf-8") + "// edited\n", "utf-8")
    return (program, "--data", files / "table.csv", *numbers)


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_an_edited_program_is_asked_the_same(name, run_of, files, tmp_path, capfd):
    fit, out = Fit.load(run_of(name)), tmp_path / "run"
    what = (*edited(name, files, tmp_path), "--engine", "stanli")
    assert run("fit", *what, "--out", out, "--plots", "none", *HOW) == 0
    again = Fit.load(out)
    assert not again.model.evaluates
    theirs = fit.program.log_lik(again.draws, fit.data)
    np.testing.assert_allclose(again.draws["log_lik"], theirs, rtol=1e-7, atol=1e-9)
    for key in OF_EDITED:
        paths = {"RUN": out, "NEW": files / "new.csv", "OUT": tmp_path / key}
        words = [paths.get(word, word) for word in COMMANDS[key].split()]
        answered(capfd, words, CASES[name].refused.get(key, ""))
    assert run("report", out, "--out", tmp_path / "report.html") == 0


@pytest.mark.slow
@pytest.mark.parametrize("name", ["weibull", "ordered_beta", "skew_normal", "multinomial"])
def test_the_edited_program_is_compiled_and_asked_the_same(name, files, tmp_path, capfd):
    out = tmp_path / "run"
    what = (*edited(name, files, tmp_path), "--engine", "cmdstan")
    assert run("fit", *what, "--out", out, *HOW) == 0
    fit, rows = Fit.load(out), new_rows()
    linear, expected, _ = CASES[name].definition(fit, rows)
    kinds = {"linear": linear, "expected": expected}
    if linear is None:
        kinds = {"probability": expected}
    for kind, values in kinds.items():
        draws = fit.predict(rows, kind=kind).draws().to_numpy()
        np.testing.assert_allclose(draws, values, rtol=1e-10, atol=1e-10, err_msg=kind)
    for key in (*OF_EDITED, "replay"):
        paths = {"RUN": out, "NEW": files / "new.csv", "OUT": tmp_path / key}
        words = [paths.get(word, word) for word in COMMANDS[key].split()]
        answered(capfd, words, CASES[name].refused.get(key, ""))
    assert run("report", out, "--out", tmp_path / "report.html") == 0
