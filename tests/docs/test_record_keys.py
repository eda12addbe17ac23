"""The tables of keys in the reference pages equal those generated from the records."""

import re

from site_parts import DOCS, extension

PAGES = sorted((DOCS / "reference").glob("*.md"))


def test_tables_are_those_of_the_records():
    records = extension("records")
    tables = 0
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        assert records.renewed(text) == text, f"{page.name}: run scripts/docs"
        assert "{record-keys}" not in text
        tables += len(re.findall(r"<!-- record-keys \S.* -->\n\n\| key \|", text))
    assert tables == sum(page.read_text("utf-8").count("record-keys") for page in PAGES) >= 20


def test_a_stale_table_is_renewed():
    renewed = extension("records").renewed
    named = "<!-- record-keys pyflowers.workflow.batch:BatchData -->\n\n"
    stale = renewed(f"{named}| key |\n| `gone` |\n\nafter\n")
    assert "gone" not in stale
    assert stale == renewed(f"{named}\nafter\n")
    assert "| `by` | string | `null` | A column of `file`. The rows with the same label" in stale
    assert stale.endswith("\n\nafter\n")


def test_rows_of_another_record_are_left_out():
    named = (
        "<!-- record-keys pyflowers.workflow.batch:BatchData without "
        "pyflowers.workflow.config:DataConfig -->\n\n"
    )
    table = extension("records").renewed(named)
    assert "| `by` |" in table
    assert "| `sep` |" not in table
