"""Write the generated part of docs/peers.md, and its figure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks.peers import figure
from benchmarks.peers.methods import METHODS, NOT_RACED
from benchmarks.peers.results import Result, hopeless
from benchmarks.peers.sizes import REGRESSIONS, ROOT, TABLES, Regression, Size, Table, table_of
from benchmarks.peers.summary import (
    Row,
    by_size,
    conditions,
    number,
    rows_of,
    sentences,
    spread,
    versions_of,
)

DOCS = ROOT / "docs"
BEGIN, END = "<!-- begin: benchmarks/peers/run -->\n", "<!-- end -->\n"
INTERPRETED = next(method for method in METHODS if method.key == "formula-stanli")
COLUMNS = (
    "size",
    "method",
    "first, s",
    "further, s",
    "minimum ESS per s",
    "peak memory, MB",
    "posterior",
)
FIRST_TIMES = (
    "Median seconds to the first posterior. In brackets, the time of a peer as a multiple of that "
    f"of *{INTERPRETED.label}*; the fastest peer is in bold. A dash marks a method that does not "
    "take part or did not finish."
)


def write(results: Sequence[Result], docs: Path = DOCS) -> None:
    """Write the results into the page, between its markers."""
    folder = docs / "peers"
    folder.mkdir(exist_ok=True)
    rows = rows_of(of_kind(Size, results))
    if rows:
        figure.save(rows, folder / "race.svg")
    page = docs / "peers.md"
    text = page.read_text(encoding="utf-8")
    before, rest = text.split(BEGIN)
    after = rest.split(END, maxsplit=1)[1]
    page.write_text(before + BEGIN + generated(results) + END + after, encoding="utf-8")


def generated(results: Sequence[Result]) -> str:
    """Return sentences, table and figure as Markdown."""
    counts, fitted = (of_kind(kind, results) for kind in (Size, Regression))
    flowers, regressions = rows_of(counts), rows_of(fitted)
    parts = [conditions(counts)]
    if flowers:
        parts += [f"![{figure.alt_text(flowers)}](peers/race.svg)"]
        parts += _paragraphs(flowers)
        parts += ["\n".join(table(flowers)), "[Every run](peers/runs.csv)"]
    parts += ["## Regressions from a formula", "\n".join(formulas()), conditions(fitted)]
    if regressions:
        parts += _paragraphs(regressions)
        parts += [FIRST_TIMES, "\n".join(first_times(regressions))]
        parts += ["\n".join(table(regressions)), "[Every run](peers/regressions.csv)"]
    if results:
        rows = [*flowers, *regressions]
        parts += ["## Methods and versions", "\n".join(methods_table(rows))]
    parts += ["## What was not run, and why", "\n".join(missing(results))]
    return "\n\n".join(parts) + "\n"


def of_kind(kind: type[Table], results: Sequence[Result]) -> list[Result]:
    """Return the results for the counts of flowers, or for the regressions."""
    return [result for result in results if isinstance(table_of(result.size), kind)]


def formulas() -> list[str]:
    """Return a table of the regressions, and the formulas that Bambi needs instead."""
    lines = ["| data | rows | formula | family | compared with |", "|---|--:|---|---|---|"]
    for found in REGRESSIONS:
        formula = found.formula.replace("|", "\\|")
        cells = (found.key, f"{found.num_rows:,}", f"`{formula}`", found.family, found.reference)
        lines.append(f"| {' | '.join(cells)} |")
    others = [f"`{found.bambi}` ({found.key})" for found in REGRESSIONS if found.bambi]
    return [*lines, "", f"In Bambi's notation, the same models are {', '.join(others)}."]


def _paragraphs(rows: Sequence[Row]) -> list[str]:
    """Return the sentences, with one paragraph per size."""
    return [" ".join(found) for mine in by_size(rows).values() if (found := sentences(mine))]


def table(rows: Sequence[Row]) -> list[str]:
    """Return the table, with the fastest method of each size first."""
    lines = [f"| {' | '.join(COLUMNS)} |", "|---|---|--:|--:|--:|--:|---|"]
    for size, mine in by_size(rows).items():
        for row in sorted(mine, key=_order):
            cells = (
                *(size.label, row.method.label, spread(row.first), spread(row.further)),
                *(spread(row.rate), spread(row.peak, 1e-6), row.verdict),
            )
            lines.append(f"| {' | '.join(cells)} |")
    return lines


def first_times(rows: Sequence[Row]) -> list[str]:
    """Return a table of the times to the first posterior, with a column for each method."""
    methods = [method for method in METHODS if any(row.method == method for row in rows)]
    lines = [f"| data | {' | '.join(method.label for method in methods)} |"]
    lines += ["|---" + "|--:" * len(methods) + "|"]
    for data, mine in by_size(rows).items():
        found = {row.method.key: row for row in mine if row.first is not None}
        cells = _first_cells(found)
        lines.append(f"| {data.label} | {' | '.join(cells.get(m.key, '–') for m in methods)} |")
    return lines


def _first_cells(found: Mapping[str, Row]) -> dict[str, str]:
    """Return the cell of each method that has a first posterior."""
    seconds = {key: row.first.middle for key, row in found.items() if row.first is not None}
    peers = [key for key, row in found.items() if row.method.family == "peer"]
    fastest = min(peers, key=lambda key: seconds[key], default="")
    own = found.get(INTERPRETED.key)
    cells = {}
    for key, value in seconds.items():
        words = number(value)
        if key in peers and own is not None and own.is_right:
            words += f" ({number(value / seconds[INTERPRETED.key])} ×)"
        cells[key] = f"**{words}**" if key == fastest else words
    return cells


def _order(row: Row) -> tuple[float, float]:
    """Order by ESS per second, then by time to the first answer; rows with neither come last."""
    rate, first = row.rate, row.first
    return (-rate.middle if rate else 0.0, first.middle if first else float("inf"))


def methods_table(rows: Sequence[Row]) -> list[str]:
    """Return a description of each method, with its versions."""
    versions = versions_of(rows)
    raced = {row.method.key for row in rows}
    lines = ["| method | how | versions |", "|---|---|---|"]
    return lines + [
        f"| {method.label} | {method.about} | {versions.get(method.key, '–')} |"
        for method in METHODS
        if method.key in raced
    ]


def missing(results: Sequence[Result]) -> list[str]:
    """Return lines on the methods that were not run on some table, with the reason."""
    lines = [f"- {name}: {reason}." for name, reason in NOT_RACED.items()]
    for result in results:
        if result.status != "done":
            words = result.reason.replace("|", "/").rstrip(".")
            words = f"no {words}" if result.status == "stopped" else words
            where = f"{label_of(result.method)}, {table_of(result.size).label}"
            lines.append(f"- {where}, {result.status}: {words}.")
    absent: dict[tuple[str, str], list[str]] = {}
    for method in METHODS:
        mine = [result for result in results if result.method == method.key]
        for size in filter(method.fits, TABLES):
            if all(result.size != size.key for result in mine):
                why = hopeless(size, mine) or "not measured yet"
                absent.setdefault((size.label, why), []).append(method.label)
        for key, why in method.without.items():
            absent.setdefault((table_of(key).label, why), []).append(method.label)
    by_place = {
        table.label: [method.label for method in METHODS if method.fits(table)] for table in TABLES
    }
    for (where, why), labels in absent.items():
        who = "all methods" if labels == by_place[where] else "; ".join(labels)
        lines.append(f"- {where}: {who} ({why}).")
    return lines


def label_of(key: str) -> str:
    """Return a method's label."""
    return next(method.label for method in METHODS if method.key == key)
