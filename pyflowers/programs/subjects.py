"""Which parameters of a program have a prior: those that are the subject of a density.

Read from the text, before Stan is called: `x` is the subject of ``x ~ normal(m, s)`` and of
``normal_lpdf(x | m, s)``, and of any other term of ``target``; `m` and `s` are not. A statement
guarded by ``prior_only`` is part of the likelihood and gives no prior. What a subject is computed
from is one, too. A parameter that is never a subject has a flat prior, which is improper if its
support is unbounded.

The reading is generous: where the text leaves it open, a parameter counts as a subject.

References
----------
Stan Reference Manual 2.35, chapters "Statements" (increment log density, sampling statements) and
"Data types and declarations" (constrained types).
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from pyflowers.programs.blocks import Blocks, block_bodies, closing_bracket

_WORD = re.compile(r"[A-Za-z]\w*")
_COMPACT = {"simplex", "unit_vector", "corr_matrix", "cholesky_factor_corr"}
_DENSITY = re.compile(r"\w+_(?:lpdf|lupdf|lpmf|lupmf)\s*\(")
_ASSIGNED = re.compile(r"([A-Za-z]\w*)\s*(?:\[[^=;]*\])?\s*(?:\.?[-+*/])?=(?!=)(.*)", re.DOTALL)


def flat_parameters(text: str, blocks: Blocks, prior_only: str) -> list[str]:
    """Return the parameters with a flat prior on an unbounded support.

    Parameters
    ----------
    text : str
        The program, whose includes are in place.
    blocks : Blocks
        What it declares.
    prior_only : str
        The data variable that guards the likelihood.
    """
    bodies = block_bodies(text)
    model = _without_guarded(bodies.get("model", ""), prior_only)
    subjects: set[str] = set()
    for statement in _statements(model):
        subjects |= _subjects(statement)
    computed = [
        match
        for statement in _statements(f"{bodies.get('transformed parameters', '')};{model}")
        if (match := _ASSIGNED.search(statement)) is not None
    ]
    # Each pass follows one more step of the computation; the last adds nothing.
    for _ in range(len(computed) + 1):
        for match in computed:
            if match[1] in subjects:
                subjects |= _words_outside_conditions(match[2])
    return [
        name
        for name, variable in blocks.parameters.items()
        if name not in subjects
        and variable.kind not in _COMPACT
        and not (variable.lower is not None and variable.upper is not None)
    ]


def _without_guarded(body: str, prior_only: str) -> str:
    """Leave out what runs only without ``prior_only``, in the usual ways of writing that."""
    name = re.escape(prior_only)
    off = rf"!\s*{name}|{name}\s*==\s*0|0\s*==\s*{name}|{name}\s*!=\s*1|{name}\s*<\s*1"
    guard = re.compile(rf"\bif\s*\(\s*(?:{off})\s*\)\s*")
    while (match := guard.search(body)) is not None:
        body = body[: match.start()] + body[_end_of_statement(body, match.end()) :]
    return body


def _end_of_statement(body: str, start: int) -> int:
    """Return where the statement or the block at `start` ends."""
    if body[start : start + 1] == "{":
        return closing_bracket(body, start + 1, "{", "}") + 1
    loop = re.compile(r"(?:for|while|if)\s*\(").match(body, start)
    if loop is not None:
        after = closing_bracket(body, loop.end(), "(", ")") + 1
        return _end_of_statement(body, after + len(body[after:]) - len(body[after:].lstrip()))
    end = body.find(";", start)
    return len(body) if end < 0 else end + 1


def _statements(body: str) -> Iterator[str]:
    """Yield the text between semicolons, without the bounds of declarations."""
    for statement in re.sub(r"(?<=\w)<[^<>;]*>", "", body).split(";"):
        if statement.strip():
            yield statement.strip()


def _subjects(statement: str) -> set[str]:
    """Return the words whose density a statement of the model adds."""
    if "~" in statement:
        return _words(statement.split("~")[0])
    if _ASSIGNED.search(statement) is not None and not re.search(r"\btarget\s*\+=", statement):
        return set()
    return _words_outside_conditions(statement)


def _words_outside_conditions(expression: str) -> set[str]:
    """Return the words of an expression but those behind the bar of a density."""
    kept, position = [], 0
    for match in _DENSITY.finditer(expression):
        if match.start() < position:
            continue
        end = closing_bracket(expression, match.end(), "(", ")")
        inside = expression[match.end() : end]
        kept += [expression[position : match.start()], inside.partition("|")[0]]
        position = end
    return _words(" ".join([*kept, expression[position:]]))


def _words(text: str) -> set[str]:
    return set(_WORD.findall(text))
