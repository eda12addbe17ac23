"""Tables for papers: numbers of the summaries, rows, names, formats that escape them, refusals."""

import csv
import io
import re
import shutil
import subprocess
import sys
from dataclasses import replace

import docx
import html5lib
import numpy as np
import pandas as pd
import pytest
from markdown_it import MarkdownIt
from synthetic_fits import synthetic_fit, table

import pyflowers
from pyflowers.analysis import paper_formats as formats
from pyflowers.analysis.paper_formats import Prose, Row, Sheet
from pyflowers.display import format_number
from pyflowers.errors import ConfigError, PyflowersError

STRANGE = ["a_b", "50% & <x|y>", r"\{$#~^*`"]
"""Names with characters that Markdown, HTML or LaTeX would read as their own."""


def data():
    rng = np.random.default_rng(1)
    frame = pd.DataFrame({"g": np.repeat([f"s{i}" for i in range(6)], 5)})
    frame["x"] = rng.normal(size=30)
    frame["dose"] = np.tile(["low", "mid", "high"], 10)
    frame["y"] = 1 + frame["x"] + rng.normal(size=30)
    frame["n"] = rng.poisson(np.exp(0.5 + 0.3 * frame["x"]))
    return frame


@pytest.fixture(scope="module")
def fits():
    """Fits of three families, with a curve, a factor and groups."""
    how = {"seed": 1, "chains": 1, "warmup": 50, "draws": 40, "engine": "stanli"}
    return [
        pyflowers.fit("y ~ x + (1 | g)", data(), **how),
        pyflowers.fit("n ~ x + dose + (1 | g)", data(), family="negbinomial", **how),
        pyflowers.fit("y ~ s(x)", data(), family="student", **how),
    ]


@pytest.fixture(scope="module")
def shipped():
    """Two fits of one program with other draws, and one of another program."""
    plants = table(["rose", "tulip", "iris"], 6)
    return [
        *(synthetic_fit("multilevel_poisson", plants, seed=seed) for seed in (1, 2)),
        synthetic_fit("iid_normal", plants),
    ]


@pytest.mark.parametrize("estimate", ["median", "mean"])
def test_numbers_are_those_of_the_summaries(fits, estimate):
    found = pyflowers.table(fits, estimate=estimate, interval=0.8, inline=True)
    frame, record = found.to_frame(), found.to_dict()
    assert record["interval"] == 0.8
    for fit, name, its in zip(fits, found.names, record["models"], strict=True):
        summary = fit.summary(interval=0.8)
        assert set(its["rows"]) == set(summary.index) & set(found.rows)
        for row, numbers in its["rows"].items():
            expected = summary.loc[row, [estimate, "10%", "90%"]].tolist()
            np.testing.assert_array_equal(list(numbers.values()), expected)
            middle, low, high = map(format_number, expected)
            assert frame.loc[row, name] == f"{middle} [{low}, {high}]"
        missing = [row for row in found.rows if row not in its["rows"]]
        assert (frame.loc[missing, name] == "").all()


def test_rows_are_the_parameters_with_those_of_one_quantity_together(fits):
    assert list(pyflowers.table(fits).rows) == [
        *("Intercept", "b[x]", "b[doselow]", "b[dosemid]", "sds_x"),
        *("sd_g[Intercept]", "shape", "sigma", "nu"),
    ]


def test_groups_rows_and_curves_are_left_out_unless_named(fits, shipped):
    curve = [name for name in fits[2].summary(all=True).index if name.startswith("s_x")]
    groups = [name for name in fits[0].summary(all=True).index if name.startswith("r_g")]
    assert len(curve) > 1
    assert len(groups) == 6
    assert not {*curve, *groups} & set(pyflowers.table(fits).rows)
    assert list(pyflowers.table(fits, rows=["s_x", "r_g"]).rows) == [*curve, *groups]
    assert list(pyflowers.table(shipped).rows) == ["mu", "sigma2"]
    assert list(pyflowers.table(shipped[0], rows=["mu_plant[iris]"]).rows) == ["mu_plant[iris]"]


def test_rows_are_named_and_ordered_as_asked(fits):
    asked = ["sigma", "b[x]=Dose = mg", "b[doselow]"]
    found = pyflowers.table(fits, rows=asked)
    assert list(found.rows) == ["sigma", "Dose = mg", "b[doselow]"]
    labels = {"sigma": "sigma", "b[x]": "Dose = mg", "b[doselow]": "b[doselow]"}
    assert pyflowers.table(fits, rows=labels).to_frame().equals(found.to_frame())


def test_parameters_of_different_models_share_a_row(fits):
    rows = {"shape": "dispersion", "sigma": "dispersion"}
    found = pyflowers.table(fits, rows=rows, inline=True)
    numbers = [its["rows"]["dispersion"]["median"] for its in found.to_dict()["models"]]
    names = ("sigma", "shape", "sigma")
    expected = [f.summary().loc[n, "median"] for f, n in zip(fits, names, strict=True)]
    assert numbers == expected


def test_a_label_with_an_equals_sign_is_found():
    plants = table(["a", "a=b", "a=c"], 4)
    fit = synthetic_fit("multilevel_poisson", plants)
    found = pyflowers.table(fit, rows=["mu_plant[a=b]", "mu_plant[a=c]=C"])
    assert found.rows == {"mu_plant[a=b]": ("mu_plant[a=b]",), "C": ("mu_plant[a=c]",)}


def test_data_and_family_are_below(fits):
    frame = pyflowers.table(fits).to_frame()
    assert frame.loc["Observations"].tolist() == ["30", "30", "30"]
    assert frame.loc["Groups (g)"].tolist() == ["6", "6", ""]
    assert frame.loc["Family"].tolist() == ["gaussian", "negbinomial", "student"]


def test_only_rows_in_the_likelihood_are_counted(shipped):
    fit = shipped[0]
    values = {**fit.data.values, fit.program.declaration.roles.held_out: [1] * 5 + [0] * 13}
    held_out = replace(fit, data=replace(fit.data, values=values))
    assert pyflowers.table(held_out).to_frame().loc["Observations", "Model 1"] == "13"


def test_elpd_is_that_of_loo_also_for_two_fits_of_one_program(shipped):
    found = pyflowers.table(shipped, loo=True)
    frame, models = found.to_frame(), found.to_dict()["models"]
    for fits in (shipped[1:], [shipped[0], shipped[2]]):
        expected = pyflowers.loo(fits).table()
        for fit in fits:
            its = models[shipped.index(fit)]["elpd"]
            assert its["elpd"] == expected.loc[fit.name, "elpd"]
            assert its["se"] == expected.loc[fit.name, "se"]
    best = int(np.argmax([its["elpd"]["elpd"] for its in models]))
    assert frame.loc["elpd difference"].iloc[best] == "0"
    for its in models:
        expected = its["elpd"]["elpd"] - models[best]["elpd"]["elpd"]
        assert its["elpd"]["difference"] == pytest.approx(expected, abs=1e-9)
    assert re.fullmatch(r"-\d+\.\d+ \(\d+\.\d+\)", frame.loc["elpd", "Model 1"])
    assert found.notes == found.elpd.cautions != []
    assert any("Model 3" in note for note in found.notes)


def test_r2_is_that_of_explained(fits, shipped):
    found = pyflowers.table([*fits, shipped[2]], r2=True, inline=True)
    frame, models = found.to_frame(), found.to_dict()["models"]
    for fit, name, its in zip(found.fits, found.names, models, strict=True):
        expected = pyflowers.explained(fit).table().droplevel("model").loc["R2"]
        for label, numbers in its["r2"].items():
            of = label.removeprefix("R²").strip(" ()") or "model"
            assert list(numbers.values()) == expected.loc[of].tolist()
            assert frame.loc[label, name].startswith(format_number(expected.loc[of, "median"]))
    assert list(models[0]["r2"]) == ["R² (conditional)", "R² (marginal)"]
    assert list(models[2]["r2"]) == ["R²"]
    assert frame.loc["R²", "Model 1"] == ""
    assert "R$^2$" in found.to_latex()


def test_a_model_without_r2_has_a_note():
    how = {"seed": 1, "chains": 1, "warmup": 50, "draws": 40, "engine": "stanli"}
    frame = pd.DataFrame({"y": [0.1, -0.3, 0.4, 0.0, 0.2]})
    fit = pyflowers.fit("y ~ 1", frame, family="von_mises", **how)
    found = pyflowers.table(fit, names=["Directions"], r2=True)
    assert not [row for row in found.to_frame().index if row.startswith("R²")]
    why = "predicts directions, whose variance cannot be partitioned; "
    assert f"Directions: {why}compare models with pyflowers loo" in found.notes


def test_failed_sampling_is_a_note():
    def stuck(draws, stats):
        draws["mu"][0] += 100

    plants = table(["a", "b", "c"], 6)
    fit = synthetic_fit("multilevel_poisson", plants, change=stuck)
    found = pyflowers.table(fit, names=["Poisson"])
    assert found.notes == ["Poisson: the sampling did not converge, so do not report its estimates"]
    assert f"note: {found.notes[0]}" in str(found)
    assert found.notes[0] in found._repr_html_()


def test_a_mean_that_does_not_exist_is_a_dash_and_a_note(shipped):
    plants = table(["a", "b", "c"], 3)
    fit = synthetic_fit("multilevel_normal", plants)
    found = pyflowers.table(fit, rows=["sigma2_plant"], estimate="mean")
    assert found.to_frame().iloc[0, 0] == "–"
    assert np.isnan(found.to_dict()["models"][0]["rows"]["sigma2_plant[a]"]["mean"])
    assert any("use its median" in note for note in found.notes)
    assert pyflowers.table(fit).notes == []


def test_an_interval_below_takes_a_line_of_its_own(shipped):
    below, inline = (pyflowers.table(shipped[:2], inline=its) for its in (False, True))
    frame = below.to_frame()
    assert frame.index[:2].tolist() == ["mu", ""]
    joined = [" ".join(frame.iloc[:2][name]) for name in frame]
    assert joined == inline.to_frame().iloc[0].tolist()
    assert below.to_html().count("<br>") == 2 * 2


# Formats

SHEET = Sheet(
    tuple(STRANGE),
    (
        (
            Row("b[x]_1 * <i>", (("-0.5", "[-1.2e-05, inf]"), (), ("–",))),
            Row("[mg] a\nb](c)", ((), ("118386 [8.2, 1e+10]",), ("0",))),
        ),
        (Row("Family", (("beta_binomial",), ("a-b",), ("",)), is_text=True),),
    ),
    "Medians & 90% intervals.",
)
LABELS = ["b[x]_1 * <i>", r"[mg] a\nb](c)", "Family"]


def test_html_is_parsed_as_it_was_meant():
    text = formats.html(SHEET)
    assert text.isascii()
    parser = html5lib.HTMLParser(strict=True, namespaceHTMLElements=False)
    (root,) = parser.parseFragment(text)
    assert root.find("caption").text == SHEET.note
    assert [cell.text for cell in root.findall("thead/tr/th")] == STRANGE
    assert [len(body) for body in root.findall("tbody")] == [2, 1]
    rows = root.findall("tbody/tr")
    assert [row.find("th").text for row in rows] == LABELS
    cells = [["|".join(cell.itertext()) for cell in row.findall("td")] for row in rows]
    assert cells == [
        ["−0.5|[−1.2×10⁻⁵, ∞]", "", "–"],
        ["", "118386 [8.2, 1×10¹⁰]", "0"],
        ["beta_binomial", "a-b", ""],
    ]


def test_markdown_is_rendered_as_it_was_meant():
    page = MarkdownIt("commonmark").enable("table").render(formats.markdown(SHEET))
    root = html5lib.parseFragment(page, namespaceHTMLElements=False)
    assert ["".join(cell.itertext()) for cell in root.findall("table/thead/tr/th")] == [
        "",
        *STRANGE,
    ]
    rows = [["".join(cell.itertext()) for cell in row] for row in root.findall("table/tbody/tr")]
    assert [row[0] for row in rows] == [LABELS[0], "", *LABELS[1:]]
    assert [row[1] for row in rows] == ["−0.5", "[−1.2×10⁻⁵, ∞]", "", "beta_binomial"]
    assert root.find("p").text == SHEET.note
    assert root.find(".//a") is None


def test_latex_escapes_names_and_has_formulas():
    lines = formats.latex(SHEET).splitlines()
    assert lines[0] == r"\begin{tabular}{lccc}"
    assert lines[2] == (
        r" & a\_b & 50\% \& \textless{}x\textbar{}y\textgreater{} & "
        r"\textbackslash{}\{\$\#\textasciitilde{}\textasciicircum{}*` \\"
    )
    assert lines[4:8] == [
        r"b[x]\_1 * \textless{}i\textgreater{} & $-0.5$ &  & -- \\",
        r" & [$-1.2 \times 10^{-5}$, $\infty$] &  &  \\",
        r"{}[mg] a\textbackslash{}nb](c) &  & $118386$ [$8.2$, $1 \times 10^{10}$] & $0$ \\",
        r"\midrule",
    ]
    assert lines[8] == r"Family & beta\_binomial & a-b &  \\"
    assert all(line.count("&") - line.count(r"\&") == 3 for line in lines if line.endswith(r"\\"))


PROSE = Prose(
    (
        "The prior of b_x-1 was N(-0.5, 2²), from 1.2e-05 to 3-4; a_b ~ x + (1 | g) failed: 50%.",
        "The mean was -2, χ² ≥ 1 × 3 …",
    )
)


ENGINE = next(filter(shutil.which, ("tectonic", "lualatex", "xelatex", "pdflatex")), "")


def has_booktabs():
    """Whether the LaTeX engine can compile tables; tectonic downloads what it lacks."""
    if ENGINE != "tectonic" and shutil.which("kpsewhich"):
        done = subprocess.run(["kpsewhich", "booktabs.sty"], capture_output=True, check=False)
        return done.returncode == 0
    return bool(ENGINE)


def compiled(body, folder):
    """Compile a LaTeX document with a body; skip the test without an engine."""
    if not has_booktabs():
        pytest.skip("there is no LaTeX engine with booktabs")
    page = [r"\documentclass{article}\usepackage[T1]{fontenc}\usepackage{booktabs}"]
    page += [r"\begin{document}", body, r"\end{document}"]
    (folder / "t.tex").write_text("\n".join(page), encoding="utf-8")
    options = ["-interaction=nonstopmode", "-halt-on-error"]
    if ENGINE == "tectonic":
        options = []
    done = subprocess.run(
        [ENGINE, *options, "t.tex"], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout
    assert (folder / "t.pdf").is_file()


@pytest.mark.parametrize("body", [formats.latex(SHEET), PROSE.latex()], ids=["table", "prose"])
def test_latex_is_compiled(body, tmp_path):
    compiled(body, tmp_path)


FOUR = Sheet(
    ("Seizures, Poisson", "Negative binomial", "With slopes", "Without age"),
    (
        (
            Row("Intercept at the means of the columns", (("-1.234", "[-1.567, -0.901]"),) * 4),
            Row("log(base):treated", (("-0.345", "[-0.678, -0.012]"),) * 3 + ((),)),
            Row("sd_patient[Intercept]", (("0.512", "[0.401, 0.667]"),) * 4),
        ),
        (
            Row("Observations", (("236",),) * 4),
            Row("Family", (("poisson",), *(("negbinomial",),) * 3), is_text=True),
            Row("elpd difference", (("-123.4 (23.1)",), ("0",), ("-0.4 (1.3)",), ("-1.2 (1.9)",))),
        ),
    ),
    "Posterior medians, with 90% intervals in brackets.",
)


def test_four_models_fit_the_page_of_an_article(tmp_path):
    four = formats.latex(FOUR)
    size = re.match(r"\{(\\\w+)\\setlength\{\\tabcolsep\}\{3pt\}\n\\begin\{tabular\}", four)
    assert size
    assert size[1] in (r"\small", r"\footnotesize", r"\scriptsize")
    assert max(len(line.partition("&")[0].strip()) for line in four.splitlines()[2:8]) <= 24
    two = replace(
        FOUR,
        models=FOUR.models[:2],
        parts=tuple(
            tuple(replace(row, cells=row.cells[:2]) for row in part) for part in FOUR.parts
        ),
    )
    assert formats.latex(two).startswith(r"\begin{tabular}{lcc}")
    compiled(f"\\noindent {four}\n\n\\noindent {formats.latex(two)}", tmp_path)
    if ENGINE != "tectonic":
        assert "Overfull" not in (tmp_path / "t.log").read_text(encoding="utf-8", errors="replace")


def test_no_line_of_a_cell_is_broken_in_word():
    (grid,) = formats.docx(FOUR).tables
    cells = grid.rows[1].cells
    assert cells[1].text == "−1.234\n[−1.567,\xa0−0.901]"
    size = cells[1].paragraphs[0].runs[0].font.size
    assert docx.shared.Pt(7) <= size < docx.shared.Pt(11)
    assert sum(cell.width for cell in cells) <= docx.shared.Inches(6)
    longest = len("[−1.567, −0.901]")
    assert cells[1].width >= longest * 0.5 * size


def test_signed_numbers_of_prose_are_typeset_and_names_are_escaped():
    assert PROSE.markdown() == (
        r"The prior of b\_x-1 was N(−0.5, 2²), from 1.2×10⁻⁵ to 3-4; a\_b \~ x + (1 \| g) failed: "
        "50%. The mean was −2, χ² ≥ 1 × 3 …\n"
    )
    assert PROSE.latex().splitlines() == [
        r"The prior of b\_x-1 was N($-0.5$, 2$^2$), from $1.2 \times 10^{-5}$ to 3-4; a\_b "
        r"\textasciitilde{} x + (1 \textbar{} g) failed: 50\%.",
        r"The mean was $-2$, $\chi$$^2$ $\ge$ 1 $\times$ 3 \ldots{}",
    ]
    assert str(PROSE).startswith("The prior of b_x-1 was N(-0.5, 2²), from 1.2e-05 to 3-4;")


def test_text_is_aligned_and_keeps_ascii_numbers():
    lines = formats.text(replace(SHEET, models=("A", "第二个", "C")))
    assert lines[0].split() == ["A", "第二个", "C"]
    assert "[-1.2e-05, inf]" in lines[3]
    assert lines[1] == lines[5] == lines[7] == "─" * len(lines[1])
    assert lines[-1] == SHEET.note


def test_a_frame_is_written_as_csv():
    text = formats.frame(SHEET).to_csv()
    head, *rows = csv.reader(io.StringIO(text))
    assert head == ["parameter", *STRANGE]
    assert [row[0] for row in rows] == [LABELS[0], "", *LABELS[1:]]
    assert rows[1] == ["", "[-1.2e-05, inf]", "", ""]


def test_word_shows_the_same_cells(tmp_path):
    formats.docx(SHEET).save(tmp_path / "t.docx")
    document = docx.Document(tmp_path / "t.docx")
    (grid,) = document.tables
    rows = [[cell.text for cell in row.cells] for row in grid.rows]
    assert rows[0] == ["", *STRANGE]
    assert [row[0] for row in rows[1:]] == LABELS
    assert rows[1][1:] == ["−0.5\n[−1.2×10⁻⁵,\xa0∞]", "", "–"]
    assert document.paragraphs[-1].text == SHEET.note


def test_word_needs_its_package(shipped, monkeypatch):
    monkeypatch.setitem(sys.modules, "docx", None)
    with pytest.raises(ConfigError, match=r"needs the package python-docx; run pip install"):
        pyflowers.table(shipped[0]).to_docx()


# Refusals

BAD = {
    "no fits": (lambda fits: pyflowers.table([]), "there is no fit"),
    "no fit": (lambda fits: pyflowers.table("run"), "takes only fits"),
    "one name": (lambda fits: pyflowers.table(fits, names=["A"]), "names is 1, but .* is 3"),
    "a text of names": (lambda fits: pyflowers.table(fits, names="ABC"), "must be a list"),
    "an empty name": (lambda fits: pyflowers.table(fits, names=["A", " ", "C"]), "not empty"),
    "a name twice": (lambda fits: pyflowers.table(fits, names=["A"] * 3), "are called 'A'"),
    "an estimate": (lambda fits: pyflowers.table(fits, estimate="mode"), "median or mean"),
    "an interval": (lambda fits: pyflowers.table(fits, interval=90), "between 0 and 1"),
    "two intervals": (
        lambda fits: pyflowers.table([fits[0], fits[1].with_interval(0.5)]),
        "Model 1 has 90% intervals and Model 2 has 50% intervals; choose one",
    ),
    "no rows": (lambda fits: pyflowers.table(fits, rows=[]), "at least one parameter"),
    "a text of rows": (lambda fits: pyflowers.table(fits, rows="mu"), "must be a list"),
    "a number as a row": (lambda fits: pyflowers.table(fits, rows=[3]), "no model has"),
    "a misspelt row": (lambda fits: pyflowers.table(fits, rows=["sigma=S"]), "mean sigma2?"),
    "a misspelt element": (
        lambda fits: pyflowers.table(fits, rows=["mu_plant[ros]"]),
        re.escape("did you mean mu_plant[rose]?"),
    ),
    "a row twice": (lambda fits: pyflowers.table(fits, rows=["mu", "mu=M"]), "requested twice"),
    "an empty label": (lambda fits: pyflowers.table(fits, rows=["mu="]), "and not empty"),
    "a number as a label": (lambda fits: pyflowers.table(fits, rows={"mu": 3}), "must be text"),
    "one label for a vector": (
        lambda fits: pyflowers.table(fits, rows=["mu_plant=Rate"]),
        re.escape("mu_plant has 3 elements; give a label to one of them, such as mu_plant[rose]="),
    ),
    "one label twice in a model": (
        lambda fits: pyflowers.table(fits, rows={"mu": "A", "sigma2": "A"}),
        "row 'A': this is the label of mu and sigma2 in Model 1; give each parameter",
    ),
    "elpd of other data": (
        lambda fits: pyflowers.table(
            [fits[0], synthetic_fit("iid_normal", table(["a", "b"], 5))], loo=True
        ),
        "different data",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_request_is_one_sentence(shipped, name):
    call, says = BAD[name]
    with pytest.raises(PyflowersError, match=says) as error:
        call(shipped)
    assert "\n" not in str(error.value)
    assert ". " not in str(error.value)


def test_long_names_and_labels_are_folded_in_latex():
    rows = (Row("a label that is long, of a coefficient", (("1", "[0, 2]"), ("3", "[2, 4]"))),)
    found = formats.latex(Sheet(("A", "A model with a long name"), (rows,), "A note."))
    assert found.splitlines()[2:7] == [
        r" & A & A model with a \\",
        r" &  & long name \\",
        r"\midrule",
        r"a label that is long, of a & $1$ & $3$ \\",
        r"coefficient & [$0$, $2$] & [$2$, $4$] \\",
    ]
