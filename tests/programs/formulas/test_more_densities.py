"""Written programs have the log density of brms for its families, links, terms and priors."""

import json
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from curves_by_hand import Interpreted
from formula_cases import CASES as FIRST_CASES
from more_formula_cases import CASES, known_covariance, table
from scipy import stats

from pyflowers.data import from_frame
from pyflowers.programs import Program
from pyflowers.programs.families import family_names, find_family

pytestmark = pytest.mark.quick

BRMS = json.loads((Path(__file__).parent / "brms_more.json").read_text(encoding="utf-8"))
REFERENCE = {case["name"]: case for case in BRMS["cases"]}
BY_NAME = {case.name: case for case in CASES}


@cache
def rows():
    """Return the table of all cases, read once."""
    return from_frame(table())


def written(case):
    """Return a case's program and its data block, with the case's priors."""
    known = {"A": known_covariance()} if "cov = A" in case.formula else None
    program = Program.from_formula(
        case.formula,
        rows(),
        family=case.family,
        priors=case.priors,
        centered=False,
        known=known,
    )
    whole, _ = program.fill(program.read(rows()), program.resolve_priors(case.hyperparameters))
    return program, whole


def rotated(z, theirs, ours):
    """Return the standardised effects, of labels in our order, that give the same effects.

    Effects are the product of the Cholesky factor of their known covariance, which depends on the
    order of the labels, and of standardised effects.
    """
    factor, our_factor = (
        np.linalg.cholesky(known_covariance().loc[[*names], [*names]]) for names in (theirs, ours)
    )
    effects = (z @ factor.T)[:, [theirs.index(label) for label in ours]]
    return np.linalg.solve(our_factor, effects.T).T


def in_our_order(program, data, groups, point):
    """Return a point's arrays with labels in the order of the program."""
    found = {name: np.asarray(its, dtype=float) for name, its in point.items()}
    for tag, theirs in groups.items():
        group = next(name for name in ("g", "h", "mm_g_g2") if tag.startswith(name))
        labels = data.labels[group.removeprefix("mm_").removesuffix("_g2")].names
        order = [theirs.index(label) for label in labels]
        for name in (f"z_{tag}", f"u_{tag}"):
            if name in found:
                found[name] = found[name][..., order]
        if f"known_{tag}" in data.values:
            found[f"z_{tag}"] = rotated(np.asarray(point[f"z_{tag}"]), theirs, labels)
        if found[f"sd_{tag}"].ndim == 2:  # with by=f: brms has a column for each level
            found[f"sd_{tag}"] = found[f"sd_{tag}"].T
    return found


def mapped(program, point):
    """Return the parameters in Stan's order, and the log density of ours less that of brms' there.

    pyflowers samples single effects themselves, but brms standardises them. The effects of
    ``dist=student`` have a t distribution, over whose scales u brms samples.
    """
    values, more = [], 0.0
    for name in program.source.blocks.parameters:
        its = point.get(name, point.get(f"{name}_at_means"))
        if name.startswith("r_"):
            tag = name.removeprefix("r_")
            sd, z = point[f"sd_{tag}"].item(), point[f"z_{tag}"][0]
            its = sd * z
            if f"df_{tag}" in point:
                df, u = point[f"df_{tag}"], point[f"u_{tag}"]
                its = its * np.sqrt(df * u)
                more += stats.t.logpdf(its, df, scale=sd).sum()
                # u is the inverse of a χ², whose log density has the Jacobian -2 log u.
                more -= (stats.chi2.logpdf(1 / u, df) - 2 * np.log(u)).sum()
                more -= stats.norm.logpdf(z).sum()
            else:
                more -= len(z) * np.log(sd)
        assert its is not None, name
        values.append(np.ravel(its, order="F"))
    return np.concatenate(values), more


def differences(case):
    """Return our log densities minus those of brms, one per point, and our log densities."""
    program, data = written(case)
    reference = REFERENCE[case.name]
    points = [in_our_order(program, data, reference["groups"], its) for its in reference["points"]]
    values, more = zip(*(mapped(program, point) for point in points), strict=True)
    ours, _ = Interpreted(program, data).evaluate(np.array(values))
    return ours - more - [point["log_density"] for point in points], ours


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_log_density_is_that_of_brms(case):
    """The densities differ by a constant, because the interpreter leaves out some constants."""
    difference, ours = differences(case)
    assert np.ptp(difference) < 1e-9 * np.abs(ours).max()
    assert np.ptp(ours) > 1  # otherwise the test is empty


def test_every_family_and_link_is_compared():
    compared = {find_family(case.family).text for case in (*CASES, *FIRST_CASES)}
    links = ((name, each) for name in family_names() for each in links_of(name))
    every = {find_family(f"{name}({link})").text for name, link in links}
    assert every - compared == {"ordered_beta"}  # brms 2.18 lacks it


def links_of(name):
    family = find_family(name)
    return family.link, *family.links


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("sratio_probit", {"family": "sratio"}),
        ("weibull_softplus", {"family": "weibull"}),
        ("geometric", {"family": "poisson"}),
        ("cens_weibull", {"formula": "positive ~ x"}),
        ("cens_trunc", {"formula": "y | cens(event) ~ x"}),
        ("weights_gaussian", {"formula": "y ~ x + (1 | g)"}),
        ("mm_weights", {"formula": "y ~ x + (1 | mm(g, g2))"}),
        ("by_slopes", {"priors": {**BY_NAME["by_slopes"].priors, "cor_g": "lkj(2)"}}),
        ("mo", {"hyperparameters": {}}),
        ("cosy", {"priors": {**BY_NAME["cosy"].priors, "cosy": "beta(1.5, 2)"}}),
        ("sigma_slopes", {"priors": {**BY_NAME["sigma_slopes"].priors, "cor_g_sigma": "lkj(2)"}}),
    ],
)
def test_another_density_would_be_seen(name, changes):
    """The negative control."""
    difference, _ = differences(replace(BY_NAME[name], **changes))
    assert np.ptp(difference) > 1e-3
