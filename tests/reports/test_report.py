"""The report holds the results, warns if they are bad, and is valid, accessible HTML."""

import base64
import csv
import dataclasses
import itertools
import json
import os
import re
import xml.etree.ElementTree as ET
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from contrast import contrast
from pages import SECTIONS, Page, number_of, text_of
from pages import report as checked_report
from synthetic_fits import synthetic_fit, table, with_pathfinder

import pyflowers
from pyflowers.analysis.calibration import Calibration
from pyflowers.batches import Batch
from pyflowers.display import format_cell
from pyflowers.errors import ConfigError
from pyflowers.fits.fit import Fit
from pyflowers.reports import render_report, report
from pyflowers.reports.material import Material
from pyflowers.reports.page import to_svg
from pyflowers.reports.sections.provenance import PROVENANCE
from pyflowers.workflow.experiment import compare_all

pytestmark = pytest.mark.usefixtures("in_a_shell")


@pytest.fixture(scope="module")
def runs(lecture_fits, tmp_path_factory):
    """The lecture's fits as run folders."""
    folder = tmp_path_factory.mktemp("runs")
    return {name: fit.save(folder / name) for name, fit in lecture_fits.items()}


@pytest.fixture(scope="module")
def compared(runs):
    """The comparison of methods for each run."""
    return compare_all([Fit.load(folder) for folder in runs.values()])


def report_of(runs, comparisons):
    return render_report([Fit.load(run) for run in runs.values()], comparisons=comparisons)


@pytest.mark.slow
def test_methods_may_be_compared_while_figures_are_drawn(runs, compared, html):
    asked = []

    def compare():
        asked.append(os.getpid())
        return compared

    assert report_of(runs, compare) == html
    assert asked == [os.getpid()]


@pytest.fixture(scope="module")
def html(runs, compared):
    """The report on the lecture's run folders, with the comparison of methods."""
    return report_of(runs, compared)


@pytest.fixture(scope="module")
def page(html):
    return Page(html)


def test_sections_headings_and_links_are_in_order(page, html):
    assert page.sections == SECTIONS
    levels = [int(n.tag[-1]) for n in page.tree.iter() if re.search("}h[1-6]$", str(n.tag))]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(b - a <= 1 for a, b in itertools.pairwise(levels))
    ids = [node.get("id") for node in page.tree.iter() if node.get("id")]
    assert len(set(ids)) == len(ids)
    targets = [node.get("href").removeprefix("#") for node in page.nodes("a")]
    assert set(targets) <= set(ids)
    assert len(html.encode()) <= 4 * 1024 * 1024


def test_every_number_is_the_one_in_the_run_folder(page, runs):
    sources = {}
    for name, folder in runs.items():
        with (folder / "summary.csv").open(encoding="utf-8") as file:
            rows = {row.pop("parameter"): row for row in csv.DictReader(file)}
        sources[f"{name}/summary.csv"] = rows
        verdict = json.loads((folder / "diagnostics.json").read_text(encoding="utf-8"))
        checks = [check for part in ("computation", "prior") for check in verdict[part]["checks"]]
        sources[f"{name}/diagnostics.json"] = {check["name"]: check for check in checks}
    seen = set()
    for node in page.nodes("data"):
        if node.get("data-file") is None:
            continue
        place = node.get("data-file"), node.get("data-row"), node.get("data-column")
        file, row, column = place
        written = sources[file][row][column]
        value = float("nan") if written in ("", None) else float(written)
        # Draws from a file are added up in a different order, so the last bit may differ.
        assert float(node.get("value")) == pytest.approx(value, rel=1e-12, nan_ok=True), place
        if file.endswith(".csv"):
            assert number_of(node) == format_cell(column, value), place
        else:
            assert float(number_of(node)) == pytest.approx(value, rel=5e-3, abs=5e-4), place
        seen.add(place)
    expected = {
        (file, row, column)
        for file, rows in sources.items()
        for row, columns in rows.items()
        for column in (columns if file.endswith(".csv") else ["value"])
    }
    assert seen == expected


def test_no_number_of_a_summary_table_is_untraceable(page):
    """Each number in a model's tables and in the verdict names its file."""
    for node in page.nodes("td", under="models"):
        numbers = page.nodes("data", under=node)
        if not numbers:
            # The tables of priors hold options, which are also in run.json and the last section.
            assert re.fullmatch(r"-?[\d.]+|default|[a-zσχ].*", text_of(node)), text_of(node)
        for number in numbers:
            assert number.get("data-file"), text_of(node)


@pytest.mark.slow
def test_a_title_and_a_question_of_the_users_are_at_the_top(three_plants):
    mine = {"title": "Beds <2025>", "question": "Does the bed matter?"}
    page = checked_report(three_plants, **mine)
    assert text_of(page.nodes("h1")[0]) == "Beds <2025>"
    assert text_of(page.nodes("title")[0]) == "Beds <2025> – pyflowers report"
    assert [text_of(node) for node in page.nodes("p")][1] == "Does the bed matter?"
    only = checked_report(three_plants, question="Does the bed matter?")
    assert text_of(only.nodes("h1")[0]) == "Does the bed matter?"
    usual = checked_report(three_plants)
    assert text_of(usual.nodes("h1")[0]) == "What do the data say about flowers by plant and month?"
    order = [node.tag.split("}")[1] for node in usual.tree.iter() if node.get("id") == "answer"]
    assert order == ["section"]
    nodes = list(usual.tree.iter())
    assert nodes.index(usual.by_id("answer")) < nodes.index(usual.nodes("nav")[0])


@pytest.fixture(scope="module")
def three_plants():
    return synthetic_fit("iid_normal", table(["a", "b", "c"], 4))


@pytest.fixture(scope="module")
def regressions():
    """A Poisson and a negative binomial regression of the same counts."""
    rng = np.random.default_rng(3)
    frame = pd.DataFrame({"x": rng.normal(size=80), "bed": np.repeat(list("abcdefgh"), 10)})
    frame["dug"] = np.tile([0, 1], 40)
    frame["Count"] = rng.negative_binomial(5, 5 / (5 + np.exp(1 + 0.3 * frame.x - frame.dug)))
    how = {"seed": 1, "engine": "stanli", "chains": 2, "warmup": 300, "draws": 300}
    formula = "Count ~ x + dug + (1 | bed)"
    families = ("poisson", "negbinomial")
    return [pyflowers.fit(formula, frame, family=family, **how) for family in families]


@pytest.mark.slow
def test_the_answer_of_a_regression_is_a_sentence_for_each_effect(regressions):
    fit = regressions[1]
    page = Page(render_report(fit))
    assert text_of(page.nodes("h1")[0]) == "What are the effects of x and dug on Count?"
    of_x, of_dug = (text_of(node) for node in page.nodes("li", under="answer")[:2])
    found = pyflowers.effects(fit, "x", "dug")
    (more, _), (fewer, of_ratio) = found.ratios_in_words()
    row = found.table().loc[("dug", "1 - 0")]
    assert row["95%"] < 0
    ends = f"{format_cell('', -row['95%'])} to {format_cell('', -row['5%'])} fewer"
    assert of_x.startswith(f"{more} Count per unit of x (90% interval")
    assert of_dug.startswith(
        f"{fewer} Count for dug = 1 compared with 0 (90% interval {of_ratio}), or "
        f"{format_cell('', -row['median'])} fewer (90% interval {ends}). "
        "The probability of fewer, not more, is"
    )
    shown = page.nodes("img", under="answer")
    assert len(shown) == 1
    phone, *_ = page.nodes("source", under="answer")
    assert int(phone.get("width")) < 390
    assert "data:image/svg+xml" in phone.get("srcset")


@pytest.mark.slow
def test_formulas_are_not_called_by_the_names_of_their_programs(regressions):
    slugs = [fit.name for fit in regressions]
    for fits, label in ((regressions[1:], "this model"), (regressions, "negbinomial")):
        page = Page(render_report(fits))
        commands = [node for node in page.nodes("pre") if node.get("class") == "command"]
        for node in (*page.nodes("script"), *commands):  # commands name the folders of the runs
            node.clear()
        seen = text_of(page.tree) + " ".join(page.alts)
        images = [image.get("src").split(",")[1] for image in page.nodes("img")]
        drawn = "".join(base64.b64decode(image).decode() for image in images)
        assert label in seen
        hidden = [name for name in slugs if name in seen.replace(f"{name}.stan", "") + drawn]
        assert hidden == []


def test_models_whose_names_begin_alike_are_told_apart():
    frame = pd.DataFrame({"x": np.arange(30.0), "z": np.tile([0.0, 1, 3], 10)})
    frame["y"] = np.random.default_rng(1).normal(size=30)
    how = {"seed": 1, "engine": "stanli", "chains": 2, "warmup": 200, "draws": 200}
    fits = [pyflowers.fit(formula, frame, **how) for formula in ("y ~ x", "y ~ x + z")]
    made = Material(fits, {}, ())
    short, long = (fit.name for fit in fits)
    assert long.startswith(short)
    assert made.in_words(f"{short}, {long} and {long}.stan") == "Model 1, Model 2 and Model 2.stan"


def test_the_answer_leaves_out_columns_on_which_the_mean_does_not_depend():
    rng = np.random.default_rng(1)
    frame = pd.DataFrame({"x": rng.normal(size=40), "z": np.tile([0, 1], 20)})
    frame["y"] = frame.x + rng.normal(size=40) * np.exp(frame.z)
    how = {"seed": 1, "engine": "stanli", "chains": 2, "warmup": 200, "draws": 200}
    page = Page(render_report(pyflowers.fit(["y ~ x", "sigma ~ z"], frame, **how)))
    assert text_of(page.nodes("h1")[0]) == "What is the effect of x on y?"
    (of_x,) = (text_of(node) for node in page.nodes("li", under="answer"))
    assert "per unit of x" in of_x


def test_lines_of_groups_are_captioned_by_the_group_that_is_drawn():
    frame = pd.DataFrame({"bed": np.repeat(list("abcdef"), 5), "plot": np.tile(range(5), 6)})
    frame["x"] = frame.bed.map(dict(zip("abcdef", [0.1, 1, 2, 3, 5, 8], strict=True)))
    frame["y"] = frame.x + np.random.default_rng(1).normal(size=30)
    frame["plot"] = [f"p{number}" for number in frame["plot"]]
    how = {"seed": 1, "engine": "stanli", "chains": 2, "warmup": 200, "draws": 200}
    fit = pyflowers.fit("y ~ x + (1 | bed) + (1 | plot)", frame, **how)
    page = Page(render_report(fit))
    assert "fitted lines over x, by plot." in page.output("effects")
    assert any("fitted lines over x for 5 labels of plot." in alt for alt in page.alts)


@pytest.mark.slow
@pytest.mark.parametrize(("num", "which"), [(1, "each column"), (4, "each of the first 3 columns")])
def test_the_answer_says_that_it_chose_the_largest_effects(num, which):
    rng = np.random.default_rng(1)
    frame = pd.DataFrame({f"x{i}": rng.normal(size=40) for i in range(num)})
    formula = f"y ~ arm + {' + '.join(frame)}"
    frame["arm"] = np.tile(list("abcde"), 8)
    frame["y"] = 3 * (frame.arm == "d") + rng.normal(size=40)
    how = {"seed": 1, "engine": "stanli", "chains": 2, "warmup": 200, "draws": 200}
    page = Page(render_report(pyflowers.fit(formula, frame, **how)))
    first, *others = (text_of(node) for node in page.nodes("li", under="answer"))
    assert " higher y for arm = d compared with a " in first
    stated = f"{1 + len(others)} of {4 + num} effects are stated, among them the largest of {which}"
    assert stated in page.output("answer")


def test_rows_of_groups_and_curves_are_named_where_they_are_left_out():
    rng = np.random.default_rng(1)
    frame = pd.DataFrame({"x": rng.normal(size=40), "bed": np.tile(list("abcd"), 10)})
    frame["y"] = rng.normal(size=40)
    how = {"seed": 1, "engine": "stanli", "chains": 2, "warmup": 50, "draws": 50}
    fit = pyflowers.fit("y ~ s(x) + (1 | bed)", frame, **how)
    rows = fit.summary(all=True).index.str.partition("[").get_level_values(0)
    num = int(rows.isin(["s_x", "r_bed"]).sum())
    assert f"{num} values of s_x, r_bed not shown: add --all" in str(fit)
    page = Page(render_report(fit))
    (first,) = (n for n in page.nodes("table", under="models") if "R-hat" in text_of(n))
    (whole,) = (n for n in page.nodes("table", under="models") if "r_hat" in text_of(n))
    assert "sds_x" in text_of(first)
    assert not {"s_x[", "r_bed["} & set(re.findall(r"\w+\[", text_of(first)))
    assert {"s_x[", "r_bed["} <= set(re.findall(r"\w+\[", text_of(whole)))
    assert f"groups and curves ({len(rows)} rows)" in page.output("models")


def test_the_equations_have_all_priors(regressions):
    (box,) = (
        text_of(n) for n in Page(render_report(regressions[1])).nodes("pre", under="models")[:1]
    )
    for part in ("Intercept at the means of the terms ~ t(3,", "b[x] ~ N(0,", "b[dug] ~ N(0,"):
        assert part in box
    for part in ("sd_bed ~ t(3, 0,", "shape ~ Inv-Gamma(0.4, 0.3)", "r_bed ~ normal(0, sd_bed"):
        assert part in box


def test_the_answer_is_computed_from_the_best_model(page, lecture_fits):
    answer = page.output("answer")
    summary = lecture_fits["multilevel_poisson"].summary()
    for plant in ("1", "2", "3"):
        row = summary.loc[f"mu_plant[{plant}]"]
        median, low, high = (format_cell("", row[name]) for name in ("median", "5%", "95%"))
        output = f"{median} for plant {plant} (90% interval {low} to {high})"
        assert output in answer
    assert "12 observations are too few for the conclusion" in answer


def test_the_answer_has_no_number_that_is_not_a_result(html):
    page = Page(html)
    section = page.by_id("answer")
    for node in page.nodes("data", under=section):
        node.text = ""
    output = text_of(section)
    for constant in ("1. The answer", "90% interval", "12 observations", "sigma2", *_PLANTS):
        output = output.replace(constant, "")
    assert not re.search(r"\d", output), output


_PLANTS = tuple(f"plant {i}" for i in (1, 2, 3))


def test_each_image_has_alternative_text_and_decodes(page):
    images = page.nodes("img")
    # Images of the answer; the data; shrinkage; predictive checks; PSIS-LOO and R²; the two models
    # that have VB; the priors; the appendix.
    assert len(images) == 1 + 1 + 1 + (3 + 1) + 2 + (4 + 3) + 1 + 3 * 4
    assert len({image.get("alt") for image in images}) == len(images)
    for image in images:
        assert len(image.get("alt")) > 40
        kind, raw = image.get("src").split(",", 1)
        assert kind == "data:image/svg+xml;base64"
        root = ET.fromstring(base64.b64decode(raw))
        assert root.tag.endswith("svg")


def test_nothing_outside_the_file_is_named(page):
    for node in page.tree.iter():
        for name, value in node.attrib.items():
            if name in ("src", "href", "srcset", "action", "data", "poster"):
                assert value.startswith(("#", "data:")), (node.tag, name, value)
    (style,) = page.nodes("style")
    assert "url(" not in style.text
    assert "@import" not in style.text
    assert [node.get("type") for node in page.nodes("script")] == ["application/json"]
    assert not page.nodes("link")


def stick(draws, stats):
    """Make the chains disagree and diverge."""
    draws["mu"][0] += 5
    stats["divergent__"][:, ::20] = 1


def shift(draws, stats):
    """Move the groups' means away from the data."""
    draws["mu_plant"][...] *= 3


REFUSED = "it has no data; give it some with --data FILE"
FINDING = "the counts of flowers are smaller on average than the model predicts (mean"
GOOD = {"iid_normal": None}
VERDICTS = [  # defects of fits, refused models, kind of banner, texts in it, texts in the verdict
    (GOOD, [], "pass", ["This fit can be trusted. All 6 diagnostics pass."], []),
    (
        *(GOOD | {"multilevel_poisson": stick}, ["multilevel_normal"], "fail"),
        [
            "Do not trust the answer: it rests on multilevel_poisson, whose diagnostics fail.",
            "Do not use the results of multilevel_poisson until these are fixed.",
            *("R-hat", "divergences 100, must be ≤ 0", "Refit with --adapt-delta 0.99"),
        ],
        ["Not all. 4 of 12 diagnostics fail.", f"multilevel_normal was not fitted. {REFUSED}."],
    ),
    (
        *({"iid_normal": stick, "multilevel_poisson": None}, [], "warn"),
        [
            "The answer can be trusted: it rests on multilevel_poisson. iid_normal did not pass "
            "every check.",
            "Do not use the results of iid_normal until these are fixed.",
        ],
        ["Not all. 4 of 12 diagnostics fail."],
    ),
    (
        *({"iid_normal": stick}, [], "fail"),
        ["Do not trust the answer: it rests on iid_normal, whose diagnostics fail."],
        ["No. 4 of 6 diagnostics fail."],
    ),
    (
        *(GOOD | {"multilevel_poisson": shift}, [], "warn"),
        [
            "The answer can be trusted: it rests on iid_normal. multilevel_poisson did not pass "
            "every check. All 12 diagnostics of 2 fits pass.",
            *(FINDING, "(mean, p > 0.9995)"),
        ],
        [f"multilevel_poisson: {FINDING}"],
    ),
    *(
        (GOOD, ["m0", "m1"][:num], "warn", [f"This fit can be trusted; {were} not fitted."], [said])
        for num, were, said in (
            (1, "one model was", "m0 was not fitted. it has no data"),
            (2, "2 models were", "m1 was not fitted. it has no data"),
        )
    ),
]


@pytest.mark.slow
@pytest.mark.parametrize(("defects", "refused", "kind", "in_banner", "in_verdict"), VERDICTS)
def test_the_banner_is_that_of_the_model_of_the_answer(
    defects, refused, kind, in_banner, in_verdict
):
    data = table(["a", "b", "c"], 8)
    fits = [synthetic_fit(name, data, change=change) for name, change in defects.items()]
    page = checked_report(*fits, refused=dict.fromkeys(refused, REFUSED))
    banner, verdict = page.output("banner"), page.output("verdict")
    assert page.by_id("banner").get("class") == f"banner {kind}"
    assert (page.by_id("banner").get("role") == "alert") == (kind != "pass")
    assert banner.startswith(in_banner[0])
    assert [text for text in in_banner if text not in banner] == []
    assert [text for text in in_verdict if text not in verdict] == []
    passing = [name for name, change in defects.items() if change is not stick]
    assert not any(f"results of {name}" in banner for name in passing)
    assert ("do not rely on the results below" in page.output("answer")) == (kind == "fail")
    order = [node.get("id") for node in page.tree.iter() if node.get("id")]
    assert order.index("banner") < order.index("answer")
    words = [text_of(node) for node in page.nodes("span", under="checks")]
    assert words.count("FAILED") >= 2 or shift not in defects.values()


README_PRIORS = {"mu_mean": 1.5, "mu_sd": 1, "sigma2_nu": 5, "sigma2_scale": 0.7}


def test_the_banner_names_what_was_examined_and_what_depends_on_its_prior():
    fit = pyflowers.fit("multilevel_poisson", priors=README_PRIORS, seed=1, engine="exact")
    found = pyflowers.sensitivity(fit)
    assert found.sensitive == ["sigma2"]
    prior = found.distances["prior"]
    of_means = max(prior[name] for name in prior.index if name.startswith("mu_plant"))
    assert of_means < 0.05
    page = checked_report(fit)
    banner = page.output("banner")
    assert page.by_id("banner").get("class") == "banner pass"
    assert banner.startswith("This fit can be trusted.")
    shown = f"sigma2 depends on its prior (sensitivity {prior['sigma2']:.2g})"
    assert f"{shown}; the answer does not depend on the prior ({of_means:.2g})." in banner
    assert "Computation passed, prior passed, data passed." in banner
    assert "choose another" not in page.output("sensitivity")


@pytest.mark.slow
def test_the_banner_says_that_the_answer_depends_on_the_prior():
    rng = np.random.default_rng(2)
    frame = pd.DataFrame({"x": rng.normal(size=30)})
    frame["Y"] = 0.5 * frame.x + rng.normal(size=30)
    how = {"seed": 1, "engine": "stanli", "chains": 4, "warmup": 300, "draws": 400}
    tight = pyflowers.fit("Y ~ x", frame, priors={"b_scale[x]": 0.25}, **how)
    found = pyflowers.sensitivity(tight)
    effects = pyflowers.effects(tight, "x")
    np.testing.assert_allclose(effects.draws()[..., 0], tight.draws["b"][..., 0])
    of_answer = float(found.distances["prior"]["b[x]"])
    assert of_answer > 0.05
    page = checked_report(tight)
    assert page.by_id("banner").get("class") == "banner warn"
    assert page.output("banner").startswith(
        "Read the answer with care: it depends on the prior. All 6 diagnostics pass."
    )
    assert f"; the answer depends on the prior, too ({of_answer:.2g})" in page.output("banner")
    wide = checked_report(pyflowers.fit("Y ~ x", frame, **how))
    assert wide.by_id("banner").get("class") == "banner pass"
    assert "the answer depends" not in wide.output("banner")


def test_the_banner_tells_averages_from_predictions_of_single_values():
    rng = np.random.default_rng(2)
    frame = pd.DataFrame({"x": rng.normal(size=400)})
    frame["Score"] = 5 + 0.5 * frame.x + rng.normal(size=400)
    most = 7.0 - 0.4 * rng.random(400)
    frame["Score"] = np.where(frame.Score > 7, most, frame.Score)
    how = {"seed": 1, "engine": "stanli", "chains": 2, "warmup": 300, "draws": 500}
    page = checked_report(pyflowers.fit("Score ~ x", frame, **how))
    assert page.by_id("banner").get("class") == "banner warn"
    assert page.output("banner").startswith(
        "The averages and effects can be trusted, but predictions of single values near the "
        "largest Score are wrong. All 6 diagnostics pass."
    )
    counted = r"1 of \d+ predictive checks concerns only predictions of single values\."
    assert re.search(counted, page.output("banner"))
    assert "data limited" in page.output("banner")
    assert "single value: the largest of the values of Score is smaller" in page.output("checks")
    assert "Not in every respect." in page.output("verdict")


def test_every_diagnostic_has_value_threshold_and_source(page, lecture_fits):
    tables = page.nodes("table", under="verdict")  # of the diagnostics, and of the priors
    found = [row for table in tables for row in page.nodes("tr", under=table)[1:]]
    rows = [[text_of(c) for c in list(row)] for row in found]
    verdict = lecture_fits["iid_normal"].verdict
    checks = (*verdict.computation.checks, *verdict.prior.checks)
    assert [row[0] for row in rows] == [check.name for check in checks]
    for row, check in zip(rows, checks, strict=True):
        assert row[-2].startswith(f"{check.relation} {check.threshold:.4g}")
        assert row[-1] == check.source
        assert len(row) == 1 + 3 + 2


def test_the_predictive_checks_of_each_model_are_a_table(page):
    section = page.by_id("checks")
    rows = [" ".join(text_of(cell) for cell in row) for row in page.nodes("tr", under="checks")]
    assert rows[0] == "Check iid_normal multilevel_normal multilevel_poisson Statistic"
    assert any(row.startswith("loo_pit") and row.count("passed") == 3 for row in rows)
    assert "All 24 predictive checks pass." in text_of(section)
    assert "group_outlier is left out: sigma2_plant has a flat prior" in text_of(section)


@pytest.mark.slow
def test_missing_months_and_left_out_plants_are_said():
    data = table([f"p{i}" for i in range(60)], 12, missing=0.2)
    page = Page(render_report([synthetic_fit("multilevel_poisson", data)]))
    output = page.output("data")
    assert f"{60 * 12 - len(data)} combinations of plant and month are missing, in" in output
    assert "A cross at the foot of a panel marks a missing observation." in output
    alts = " ".join(page.alts)
    assert "the other labels are left out" in alts
    assert "are left out, but are in the summary table" in alts
    assert "of the lowest and the highest of 60 groups (plant) are:" in page.output("answer")


def test_a_method_that_disagrees_is_said_to():
    fit = synthetic_fit("iid_normal", table(["a", "b", "c"], 4))
    found = with_pathfinder(compare_all([fit])["iid_normal"])
    page = Page(render_report([fit], comparisons={"iid_normal": found}))
    told = [text_of(node) for node in page.nodes("p", under="methods")]
    (sentence,) = [text for text in told if text.startswith("Pathfinder")]
    assert re.search(
        r"Pathfinder does not agree with NUTS: its median of mu is [\d.]+ and", sentence
    )
    assert "times as wide and its Pareto k-hat is 2.50, above 0.7. Do not use it here." in sentence
    assert not any("ADVI" in text for text in told)
    assert [text_of(cell) for cell in page.nodes("td", under="methods")].count("Pathfinder") == 2


def test_the_command_repeats_the_run(page):
    command = text_of(page.nodes("pre", under="provenance")[0])
    assert command == "pyflowers report --seed 1 --engine cmdstan --out report.html"


def test_the_methods_paragraph_has_what_the_run_records(page, lecture_fits):
    (said,) = (text_of(quote) for quote in page.nodes("blockquote", under="provenance"))
    best = lecture_fits["multilevel_poisson"]
    worst = {check.name: check.number for check in best.verdict.computation.checks}
    assert said.startswith("We analysed 12 observations of flowers in 3 groups (plant) with the")
    assert "The priors were N(0, 100²) for mu and scaled-inv-χ²(1, 2²) for sigma2." in said
    assert f"R-hat was at most {worst['R-hat']}" in said
    assert f"at least {worst['bulk ESS']} in bulk and {worst['tail ESS']} in the tails" in said
    assert re.search(r"moved conclusions about ([\w, ]+)\.", said)[1] == "mu and sigma2"
    assert said.count("(PSIS-LOO)") == 2


def test_a_methods_paragraph_admits_what_failed():
    values = np.random.default_rng(1).normal(4200, 10, 15)
    frame = pd.DataFrame({"plant": [*"abc"] * 5, "month": np.arange(15) // 3, "flowers": values})
    options = {"chains": 2, "warmup": 500, "draws": 1000, "thin": 2}
    fit = pyflowers.fit("iid_normal", frame, seed=1, engine="stanli", **options)
    page = Page(render_report([fit]))
    (said,) = (text_of(quote) for quote in page.nodes("blockquote", under="provenance"))
    assert "2 chains of 500 warmup iterations and 500 draws each, seed 1" in said
    assert "The prior and the data were in conflict (mu, sigma2)." in said
    assert re.search(r"Of \d+ posterior predictive checks, \d+ failed: mean, .*\.", said)


def test_a_fit_that_did_not_converge_has_no_methods_paragraph():
    def diverge(_, stats):
        stats["divergent__"][:, :9] = 1

    fit = synthetic_fit("iid_normal", table(["a", "b", "c"], 4), change=diverge)
    said = text_of(Page(render_report([fit])).nodes("blockquote", under="provenance")[0])
    assert said == "The sampling did not converge, so there is no result to report."


def test_the_report_says_where_the_chains_started():
    cold = pyflowers.fit("iid_normal", seed=1, engine="stanli")
    warm = cold.update(priors={"mu_sd": 50}, warm=True)
    page = Page(render_report([warm], sections=[PROVENANCE]))
    (methods,) = (text_of(quote) for quote in page.nodes("blockquote"))
    assert "4 chains of 100 warmup iterations and 1,000 draws each" in methods
    assert "The chains started from the last states of the chains of an earlier fit." in methods
    assert "started from the last states of iid_normal, but this command starts it" in text_of(
        page.tree
    )


@pytest.mark.slow
def test_fits_with_options_of_their_own_have_a_command_each():
    data = table(["a", "b", "c"], 4)
    fits = [synthetic_fit("iid_normal", data, seed=1)]
    fits.append(synthetic_fit("multilevel_poisson", data, seed=2, priors={"mu_sd": 0.1}))
    page = Page(render_report(fits, out=Path("my report.html")))
    command = text_of(page.nodes("pre", under="provenance")[0])
    first, second, last = command.split(" && ")
    assert first.startswith(
        "pyflowers fit iid_normal --data data.csv --seed 1 --draws 500 --engine"
    )
    assert "--prior mu_sd=0.1" in second
    assert last.startswith("pyflowers report 'my report_runs/iid_normal'")


@pytest.mark.parametrize(
    ("fits", "message"),
    [
        (lambda a, b: [], "report: there is no fit to report"),
        (
            lambda a, b: [a, a],
            "report: two fits have the name iid_normal; leave one out, or give each its own",
        ),
        (lambda a, b: [a, b], "report: the fits use different data; write a separate report for"),
    ],
)
def test_fits_that_make_no_report_are_refused(fits, message):
    first = synthetic_fit("iid_normal", table(["a", "b"], 4))
    other = synthetic_fit("multilevel_poisson", table(["a", "c"], 4))
    with pytest.raises(ConfigError, match=re.escape(message)):
        render_report(fits(first, other))


def test_a_report_that_cannot_be_written_is_one_sentence(tmp_path):
    (tmp_path / "file").write_text("")
    fit = synthetic_fit("iid_normal", table(["a", "b"], 4))
    with pytest.raises(ConfigError, match=r"report .*page\.html cannot be written"):
        report([fit], tmp_path / "file" / "page.html")


def test_figures_follow_light_and_dark():
    from pyflowers import plots

    fit = synthetic_fit("multilevel_poisson", table(["#0072b2", "var(--ink)", "</style>"], 4))
    svg = to_svg(plots.shrinkage(fit))
    root = ET.fromstring(svg)
    texts = ["".join(node.itertext()) for node in root.iter() if node.tag.endswith("text")]
    assert {"#0072b2", "var(--ink)", "</style>"} <= set(texts)  # labels are unchanged
    drawn = [node.get("style", "") for node in root.iter()]
    assert any("var(--model)" in style for style in drawn)
    assert not any(plots.LIGHT.model in style for style in drawn)
    assert f"--model:{plots.DARK.model}" in svg.partition("prefers-color-scheme:dark")[2]


PAIRS = [
    *(("ink", paper) for paper in ("paper", "panel", "pass-paper", "fail-paper", "warn-paper")),
    *(("muted", "paper"), ("link", "paper"), ("link", "warn-paper"), ("pass", "paper")),
    *(("pass", "pass-paper"), ("fail", "paper"), ("fail", "fail-paper")),
]


def test_contrast_is_aa():
    import pyflowers.reports

    path = Path(pyflowers.reports.__file__).parent / "templates" / "report.css"
    roots = re.findall(r":root \{(.*?)\}", path.read_text(encoding="utf-8"), re.DOTALL)
    light, dark = (dict(re.findall(r"--([\w-]+): (#\w{6});", root)) for root in roots[:2])
    for colours in (light, {**light, **dark}):
        low = [pair for pair in PAIRS if contrast(*map(colours.get, pair)) < 4.5]
        assert low == []


def calibration_of(fit, tmp_path, *, right):
    """Return a calibration of a fit's program with made-up ranks: uniform, or too low for mu."""
    rng = np.random.default_rng(1)
    ranks = rng.integers(0, 51, 200)
    of_mu = {"parameter": "mu", "rank": ranks if right else ranks // 2}
    found = [of_mu, {"parameter": "sigma2", "rank": rng.integers(0, 51, 200)}]
    same = {"task": list(map(str, range(200))), "true": 0.0, "mean": 0.0, "sd": 1.0}
    same |= {"num_draws": 50, "ess": 400.0, "divergent": 0}
    ledger = {"outcome": ["done"] * 200, "verdict": "passed", "error": None}

    class Made(Batch):
        """A batch without a ledger."""

        def table(self, name="summary"):
            return pd.concat([pd.DataFrame({**same, **own}) for own in found], ignore_index=True)

        def ledger(self):
            return pd.DataFrame(ledger)

    program, priors = fit.record.program, {**fit.record.priors, "mu_sd": 2.0}
    return Calibration(Made(tmp_path / "sbc"), fit.name, 1, sha256=program.sha256, priors=priors)


@pytest.mark.slow
def test_calibrations_are_a_section_and_part_of_the_verdict(tmp_path):
    data = table(["a", "b", "c"], 4)
    fit = synthetic_fit("iid_normal", data)
    assert "calibration" not in Page(render_report([fit])).sections

    right = Page(render_report([fit], calibrations=[calibration_of(fit, tmp_path, right=True)]))
    section = right.by_id("calibration")
    said = text_of(section)
    assert "iid_normal is calibrated: over 200 data sets, all 2 quantities stay inside" in said
    assert "Its priors differ from the fit's priors: mu_sd = 2." in said
    assert len(right.nodes("img", under="calibration")) == 1
    assert "The calibration passes." in right.output("banner")
    assert right.by_id("banner").get("class") == "banner pass"

    wrong = Page(render_report([fit], calibrations=[calibration_of(fit, tmp_path, right=False)]))
    said = wrong.output("calibration")
    assert "over 200 data sets, 1 of 2 quantities leaves the 99.99% band: mu." in said
    banner = wrong.by_id("banner")
    assert banner.get("class") == "banner fail"
    lead = "Do not trust the answer: it rests on iid_normal, whose computation is not calibrated."
    assert text_of(banner).startswith(lead)
    assert "The calibration fails." in text_of(banner)
    verdict = wrong.output("verdict")
    assert verdict.index("No.") < verdict.index("the ranks of mu are not uniform")
    assert "iid_normal: the ranks of mu are not uniform over 200 simulated data sets" in verdict

    # Even if one model is not calibrated, the answer may rest on another model.
    other = synthetic_fit("multilevel_poisson", data)
    both = render_report([fit, other], calibrations=[calibration_of(fit, tmp_path, right=False)])
    page = Page(both)
    rests_on = "iid_normal" if "it rests on iid_normal" in page.output("banner") else ""
    assert page.by_id("banner").get("class") == ("banner fail" if rests_on else "banner warn")
    assert "No calibration of multilevel_poisson was given." in page.output("calibration")
    assert "--calibration" in page.output("provenance")


def test_a_calibration_of_something_else_is_refused(tmp_path):
    data = table(["a", "b", "c"], 4)
    fit, other = (synthetic_fit(name, data) for name in ("iid_normal", "multilevel_poisson"))
    found = calibration_of(fit, tmp_path, right=True)
    with pytest.raises(ConfigError, match="is for iid_normal, but the report is on multilevel_p"):
        render_report([other], calibrations=[found])
    with pytest.raises(ConfigError, match="iid_normal has changed since then; run pyflowers sbc "):
        render_report([fit], calibrations=[dataclasses.replace(found, sha256="0")])
