"""The Stan program of a formula's parts, with comments and in the format of ``stanc``."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator, Sequence

from pyflowers.programs.families import Family
from pyflowers.programs.formulas.grammar import Formula
from pyflowers.programs.formulas.part import (
    ETA,
    Part,
    Target,
    joined,
    merged,
    predictors_first,
    summands,
    targets,
)

WIDTH = 78
"""Characters per line, as in ``stanc --auto-format``."""


def write_program(
    formula: Formula, family: Family, parts: Sequence[Part], *, rows: str = "N", note: str = ""
) -> str:
    """Return the text of a formula's Stan program.

    Parameters
    ----------
    formula, family : Formula, Family
        The formula and the family of its response.
    parts : sequence of Part
        The parts of its model.
    rows : str
        The size of each linear predictor, as Stan code.
    note : str
        A sentence for the header; empty if there is none.
    """
    blocks = {
        "functions": family.functions.strip("\n").splitlines(),
        "data": [*joined(parts, "data"), *joined(predictors_first(parts), "settings")],
        "transformed data": joined(parts, "transformed_data"),
        "parameters": joined(parts, "parameters"),
        "transformed parameters": _transformed_parameters(parts),
        "model": _model(parts, rows),
        "generated quantities": _generated_quantities(parts, rows),
    }
    texts = [_header(formula, family, parts, note)]
    for name, statements in blocks.items():
        if statements:
            body = "\n".join(line for each in statements for line in _broken(each))
            texts.append(f"{name} {{\n{textwrap.indent(body, '  ')}\n}}")
    return "\n".join(texts) + "\n"


def equation(formula: Formula, family: Family, parts: Sequence[Part]) -> str:
    """Return the model of an observation as an equation in one line."""
    return ", ".join([family.equation.format(y=formula.response), *_sums_shown(parts)])


def _sums_shown(parts: Sequence[Part]) -> list[str]:
    """Return the equation of each linear predictor as readers see it."""
    found = []
    for target in targets(parts) or [ETA]:
        total = " + ".join(summands(parts, target, "shown")) or "0"
        found.append(f"{target.name} = {target.of(total)}")
    return [*found, *(part.shown for part in parts if part.target is None and part.shown)]


def _header(formula: Formula, family: Family, parts: Sequence[Part], note: str) -> str:
    """Return the comment at the top of the program."""
    lines = [
        *textwrap.wrap(formula.text, 74),
        "",
        f"    {family.equation.format(y=formula.response)}",
        *(f"    {shown}" for shown in _sums_shown(parts)),
        "",
        "Written by pyflowers from this formula; you may edit the program. Its .toml",
        "file states where its data come from and holds the numbers in its priors.",
    ]
    if note:
        lines.append(note)
    lines = [line.replace("*/", "* /") for line in lines]  # */ would end the comment
    return "\n".join(["/*", *(f" * {line}".rstrip() for line in lines), " */"])


def _transformed_parameters(parts: Sequence[Part]) -> list[str]:
    """Return the lines of the transformed parameters, which end with the priors' log density."""
    lines = joined(parts, "transformed_parameters")
    lines.append(
        "real lprior = 0; // log density of the priors, without that of the groups' effects"
    )
    for parameter, prior in merged(parts, "priors").items():
        name, _, arguments = prior.partition("(")
        lines.append(f"lprior += {name}_lpdf({parameter} | {arguments};")
    return [*lines, *joined(parts, "lprior")]


def _model(parts: Sequence[Part], rows: str) -> list[str]:
    """Return the lines of the model block, which end with the likelihood."""
    guarded = [*_predictors(parts, rows), *joined(parts, "likelihood")]
    return [
        "target += lprior;",
        *joined(parts, "model"),
        "if (prior_only == 0) {",
        *(f"  {line}" for line in guarded),
        "}",
    ]


def _generated_quantities(parts: Sequence[Part], rows: str) -> list[str]:
    """Return the lines of the generated quantities, which end with the quantities of each row."""
    return [
        *joined(parts, "generated_quantities"),
        "if (N_pointwise > 0) {",
        *(f"  {line}" for line in _predictors(parts, rows)),
        *(f"  {line}" for line in joined(parts, "before_pointwise")),
        "  for (n in 1 : N) {",
        *(f"    {line}" for line in joined(parts, "pointwise")),
        "  }",
        "}",
    ]


def _predictors(parts: Sequence[Part], rows: str) -> Iterator[str]:
    """Yield the statements that compute the linear predictors of each row, or of each cell."""
    for target in targets(parts) or [ETA]:
        total = " + ".join(summands(parts, target, "eta")) or "0"
        expression = target.of(total)
        if _is_constant(parts, target):
            expression = f"rep_vector({expression}, {rows})"
        yield f"vector[{rows}] {target.name} = {expression};"


def _is_constant(parts: Sequence[Part], target: Target) -> bool:
    """Whether a linear predictor is one number for all rows."""
    return all(part.is_constant for part in parts if part.target == target and part.eta)


def _broken(line: str) -> list[str]:
    """Break a line that is too long where stanc would: at a sum, a product or an argument."""
    code, slashes, comment = line.partition(" //")
    if line.startswith("//"):
        return [line]
    if len(code) + 2 <= WIDTH or (" | " in code and "lp" in code):  # stanc never wraps a density
        return [line]
    assigned = re.search(r"^ +(?=[+-] )| (?:\+?=|~) ", code)
    start = 0
    if assigned:
        start = assigned.end()
    if code.startswith("[", start) and "[[" not in code:
        # A row vector, whose lines are filled.
        filled = textwrap.wrap(
            code,
            WIDTH - 2,
            subsequent_indent=" " * (start + 1),
            break_long_words=False,
            break_on_hyphens=False,
        )
        return [*filled[:-1], filled[-1] + slashes + comment]
    depth = _depths(code)
    sums = [
        i for i in range(start, len(code)) if not depth[i] and code[i : i + 3] in (" + ", " - ")
    ]
    choice = [
        i
        for i in range(start, len(code))
        if not depth[i] and code[i : i + 3] == " : " and code[:i].strip()
    ]
    places = sums or choice
    products = [
        i
        for i in range(start, len(code))
        if not depth[i] and re.match(r" (\.\*|\./|/) ", code[i : i + 4])
    ]
    if code.lstrip().startswith("vector<offset"):
        at, margin = [code.index(", ") + 2], code.index("<") + 1
    elif places:
        at, margin = [i + 1 for i in places], start
    elif products and products[0] + 2 <= WIDTH:
        at, margin = (
            [i + 1 for i in products],
            start + 2 * (code[start : start + 2] in ("+ ", "- ")),
        )
    else:
        inside = [i for i in range(start, len(code)) if depth[i] == 1]
        added = [i + 1 for i in inside if code[i : i + 3] in (" + ", " - ")]
        factors = [i + 1 for i in inside if re.match(r" (\*|\./) ", code[i : i + 4])]
        commas = [i + 2 for i in inside if code[i : i + 2] == ", "]
        at, margin = commas or added or factors, code.find("(", start) + 1
    fitting = [i for i in at if i + 2 <= WIDTH] or at[:1]
    if not fitting:
        return [line]
    end = fitting[-1] if not choice or sums else at[0]
    first, rest = code[:end].rstrip(), " " * margin + code[end:]
    return [first, *_broken(rest + slashes + comment)]


def _depths(code: str) -> list[int]:
    """Return the number of brackets around each character."""
    found, depth = [], 0
    for mark in code:
        depth -= mark in ")]"
        found.append(depth)
        depth += mark in "(["
    return found
