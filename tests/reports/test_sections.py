"""A section of the report is one record, and the page is a join over the list of them."""

import base64
import json
import re

import pytest
from matplotlib.figure import Figure
from pages import Page, faults, text_of
from synthetic_fits import synthetic_fit, table

import pyflowers
from pyflowers.errors import ConfigError
from pyflowers.reports import SECTIONS, Section, render_report, section_of
from pyflowers.reports.markup import code, fill, paragraph
from pyflowers.reports.section import Picture, Table

# A toy section: how many observations there are. This is all that it needs.


def content(material):
    num = material.data.num_obs
    yield paragraph(fill("The report on {} has {} rows.", code(material.best.name), num))
    yield Table("Numbers of rows", ["", "Rows"], [[code("all <b>"), str(num)]])
    yield Picture("bar", "A bar as long as the table.")
    yield Picture("verdict", "The verdict, which is known only when the checks are done.")


def figures(material):
    def bar():
        figure = Figure()
        figure.subplots().bar(["rows"], [material.data.num_obs])
        figure.set_label("A bar of the number of rows.")
        return figure

    return {"bar": bar}


def late_figures(material):
    assert material.verdicts  # the results exist
    return {"verdict": figures(material)["bar"], "unused": figures(material)["bar"]}


TOY = Section(
    "rows",
    lambda material: f"How many rows {material.data.value_name} has",
    content,
    figures,
    late_figures,
    in_contents="Rows",
    banner=lambda material: f"There are {material.data.num_obs} rows.",
    record=lambda material: {"rows": material.data.num_obs, "note": "</script><b>&", "x": 1 / 3},
)


@pytest.fixture(scope="module")
def fit():
    return synthetic_fit("iid_normal", table(["a", "b", "c"], 4))


@pytest.fixture(scope="module")
def html(fit):
    return render_report(fit, sections=[SECTIONS[0], TOY, *SECTIONS[1:]])


@pytest.fixture(scope="module")
def page(html):
    return Page(html)


def record_of(page):
    (script,) = page.nodes("script")
    assert script.get("type") == "application/json"
    return json.loads(script.text)


def test_a_new_section_is_on_the_page_with_all_that_it_states(page):
    assert page.sections[:3] == ["answer", "rows", "verdict"]
    section = page.by_id("rows")
    assert text_of(page.nodes("h2", under=section)[0]) == "2. How many rows flowers has"
    assert "The report on iid_normal has 12 rows." in text_of(section)
    cells = [text_of(cell) for cell in page.nodes("th", "td", under=section)]
    assert cells == ["", "Rows", "all <b>", "12"]
    captions = [text_of(node) for node in page.nodes("figcaption", under=section)]
    assert captions == [
        "A bar as long as the table.",
        "The verdict, which is known only when the checks are done.",
    ]
    alts = [image.get("alt") for image in page.nodes("img", under=section)]
    assert alts == ["A bar of the number of rows."] * 2
    (entry,) = (a for a in page.nodes("a", under=page.nodes("nav")[0]) if a.text == "Rows")
    assert entry.get("href") == "#rows"
    assert "There are 12 rows." in page.output("banner")
    assert record_of(page)["rows"] == {"rows": 12, "note": "</script><b>&", "x": 0.3333333333}
    assert faults(page) == []


def test_equal_input_gives_equal_text(fit, html):
    assert render_report(fit, sections=[SECTIONS[0], TOY, *SECTIONS[1:]]) == html


def test_the_other_sections_do_not_change(fit, html):
    """Without the toy, the page is the same but for numbers of headings and what the toy adds."""
    without = Page(render_report(fit))
    for section in SECTIONS:
        if section.id in without.sections:
            words = re.sub(r"^\d+\. ", "", without.output(section.id))
            assert words == re.sub(r"^\d+\. ", "", Page(html).output(section.id))


def test_sections_without_content_are_left_out_everywhere(fit, page):
    empty = Section("nothing", lambda _: "Nothing", lambda _: [])
    unseen = Section("unseen", lambda _: "Unseen", lambda _: [Picture("missing", "A figure.")])
    shown = Page(render_report(fit, sections=[empty, TOY, unseen]))
    assert shown.sections == ["rows"]
    assert [text_of(node) for node in shown.nodes("li", under=shown.nodes("nav")[0])] == ["Rows"]
    assert text_of(shown.nodes("h2")[0]).startswith("1. ")
    assert set(record_of(shown)) == {"rows"}
    assert "calibration" not in page.sections  # none was given
    assert "methods" not in page.sections


def test_two_sections_with_one_id_are_refused(fit):
    with pytest.raises(ConfigError, match="two sections have the id 'rows'; give each its own"):
        render_report(fit, sections=[TOY, TOY])


def test_a_result_is_a_section(fit):
    found = pyflowers.check(fit, replicates=200)
    mine = section_of(found, "My <own> checks, twice")
    page = Page(render_report(fit, sections=[mine]))
    assert page.sections == ["my-own-checks-twice"]
    section = page.by_id("my-own-checks-twice")
    assert text_of(page.nodes("h2", under=section)[0]) == "1. My <own> checks, twice"
    rows = [text_of(row[0]) for row in page.nodes("tr", under=section)]
    assert {check.name for check in found.checks} <= set(rows)
    assert len(page.nodes("img", under=section)) >= 2
    for image in page.nodes("img", under=section):
        assert base64.b64decode(image.get("src").split(",", 1)[1])
    assert record_of(page)["my-own-checks-twice"]["num_replicates"] == found.num_replicates


def test_the_record_has_the_numbers_of_the_page_and_no_folder(fit, page, tmp_path):
    record = record_of(page)
    assert set(record) == {
        *("answer", "rows", "verdict", "checks", "comparison", "sensitivity", "provenance")
    }
    assert record["answer"]["model"] == "iid_normal"
    assert record["verdict"]["iid_normal"]["computation"]["status"] == "passed"
    assert record["provenance"]["methods"] in page.output("provenance")
    saved = Page(render_report(pyflowers.Fit.load(fit.save(tmp_path / "run"))))
    assert str(tmp_path) not in json.dumps(record_of(saved))
