"""What a Stan program declares: the variables of its blocks, read from its text.

Only declarations are read, with their types, sizes and bounds as the program writes them; nothing
is evaluated. That is enough to know what a table must supply and what a fit will hold, before any
compiler or interpreter has seen the program. Whether the program is valid is for Stan to say.

References
----------
Stan Reference Manual 2.35, chapters "Program blocks" and "Data types and declarations".
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

BLOCKS = (
    "functions",
    "data",
    "transformed data",
    "parameters",
    "transformed parameters",
    "model",
    "generated quantities",
)
"""The blocks of a program, in the only order that Stan allows."""

_SIZED = {
    **dict.fromkeys(("vector", "row_vector", "simplex", "ordered", "positive_ordered"), 1),
    **dict.fromkeys(("unit_vector", "sum_to_zero_vector"), 1),
    **dict.fromkeys(("cov_matrix", "corr_matrix", "cholesky_factor_corr"), 2),
    **dict.fromkeys(("matrix", "complex_matrix", "cholesky_factor_cov"), 2),
    **dict.fromkeys(("row_stochastic_matrix", "column_stochastic_matrix"), 2),
    "sum_to_zero_matrix": 2,
    **dict.fromkeys(("complex_vector", "complex_row_vector"), 1),
    **dict.fromkeys(("int", "real", "complex", "tuple"), 0),
}
"""The sized types, and how many dimensions each has of its own."""

_SQUARE = {"cov_matrix", "corr_matrix", "cholesky_factor_corr", "cholesky_factor_cov"}


@dataclass(frozen=True)
class Variable:
    """A declared variable.

    Attributes
    ----------
    name : str
        Its name.
    kind : str
        ``int``, ``real``, ``vector``, ``matrix`` and so on.
    sizes : tuple of str
        The size of each dimension as the program writes it, those of an array first.
    lower, upper : str or None
        Bounds as the program writes them.
    """

    name: str
    kind: str
    sizes: tuple[str, ...] = ()
    lower: str | None = None
    upper: str | None = None

    @property
    def is_int(self) -> bool:
        """Whether its values are whole numbers."""
        return self.kind == "int"

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self.sizes)


Declared = Mapping[str, Variable]
"""Variables by name, in the order of the program."""


@dataclass(frozen=True)
class Blocks:
    """The variables of a program, block by block."""

    data: Declared
    parameters: Declared
    transformed_parameters: Declared
    generated_quantities: Declared

    @property
    def draws(self) -> Declared:
        """Every variable that a draw has."""
        return {**self.parameters, **self.transformed_parameters, **self.generated_quantities}


def read_blocks(text: str) -> Blocks:
    """Read the declarations of a program, whose includes are already in place.

    Parameters
    ----------
    text : str
        The program.
    """
    bodies = block_bodies(text)
    found = {
        block: {variable.name: variable for variable in _declarations(bodies.get(block, ""))}
        for block in BLOCKS
    }
    return Blocks(
        found["data"],
        found["parameters"],
        found["transformed parameters"],
        found["generated quantities"],
    )


def block_bodies(text: str) -> dict[str, str]:
    """Return the text of each block of a program, without comments."""
    return dict(_bodies(_without_comments(text)))


_COMMENT_OR_STRING = re.compile(r'"[^"\n]*"|//[^\n]*|/\*.*?\*/', re.DOTALL)


def _without_comments(text: str) -> str:
    """Blank out comments, and what strings hold: neither declares anything."""
    return _COMMENT_OR_STRING.sub(lambda m: '""' if m[0].startswith('"') else " ", text)


def _bodies(text: str) -> Iterator[tuple[str, str]]:
    """Yield each block's name and the text between its braces."""
    names = "|".join(block.replace(" ", r"\s+") for block in sorted(BLOCKS, key=len, reverse=True))
    start = re.compile(rf"\b({names})\s*\{{")
    position = 0
    while (match := start.search(text, position)) is not None:
        end = closing_bracket(text, match.end(), "{", "}")
        yield " ".join(match[1].split()), text[match.end() : end]
        position = end + 1


def closing_bracket(text: str, position: int, opening: str, closing: str) -> int:
    """Return where the bracket that is open at `position` is closed, or the end of the text."""
    depth = 1
    for i in range(position, len(text)):
        if text[i] == opening:
            depth += 1
        elif text[i] == closing:
            depth -= 1
            if depth == 0:
                return i
    return len(text)


def _declarations(body: str) -> Iterator[Variable]:
    """Yield what the statements at the top level of a block declare."""
    for statement in _statements(body):
        yield from _declared(statement)


_OPENS_BLOCK = re.compile(r"(^|\)|\belse)\s*$")
"""What a nested block follows: nothing, a condition or ``else``; elsewhere ``{`` opens an array."""


def _statements(body: str) -> Iterator[str]:
    """Split a block at its semicolons, nested blocks left out: they declare local variables."""
    start = i = 0
    while i < len(body):
        if body[i] == "{":
            is_array = not _OPENS_BLOCK.search(body[start:i])
            i = closing_bracket(body, i + 1, "{", "}")
            start = start if is_array else i + 1
        elif body[i] == ";":
            yield body[start:i].strip()
            start = i + 1
        i += 1


def _declared(statement: str) -> list[Variable]:
    """Return the variables of one statement; none if it is not a declaration."""
    array_sizes: tuple[str, ...] = ()
    rest = statement
    if match := re.match(r"array\s*\[", rest):
        end = closing_bracket(rest, match.end(), "[", "]")
        array_sizes = tuple(_split(rest[match.end() : end]))
        rest = rest[end + 1 :].strip()
    match = re.match(r"(\w+)", rest)
    if match is None or match[1] not in _SIZED:
        return []
    kind, rest = match[1], rest[match.end() :].strip()
    if kind == "tuple" and rest.startswith("("):
        rest = rest[closing_bracket(rest, 1, "(", ")") + 1 :].strip()
    constraints: dict[str, str] = {}
    if rest.startswith("<"):
        end = _end_of_constraint(rest)
        constraints = _constraints(rest[1:end])
        rest = rest[end + 1 :].strip()
    sizes: list[str] = []
    if _SIZED[kind] and rest.startswith("["):
        end = closing_bracket(rest, 1, "[", "]")
        sizes = _split(rest[1:end])
        if kind in _SQUARE and len(sizes) == 1:
            sizes *= 2
        rest = rest[end + 1 :].strip()
    elif _SIZED[kind]:
        return []
    names = (re.match(r"\w+$", part.partition("=")[0].strip()) for part in _split(rest))
    return [
        Variable(
            name[0],
            kind,
            (*array_sizes, *sizes),
            constraints.get("lower"),
            constraints.get("upper"),
        )
        for name in names
        if name
    ]


def _end_of_constraint(text: str) -> int:
    """Return where the ``>`` is that closes the ``<`` at the start; one in brackets is a sign."""
    depth = 0
    for i, character in enumerate(text):
        if character in "([{":
            depth += 1
        elif character in ")]}":
            depth -= 1
        elif character == ">" and depth == 0:
            return i
    return len(text)


def _constraints(text: str) -> dict[str, str]:
    pairs = (part.partition("=") for part in _split(text))
    return {name.strip(): value.strip() for name, equals, value in pairs if equals}


def _split(text: str) -> list[str]:
    """Split at the commas that are in no brackets."""
    parts, depth, start = [], 0, 0
    for i, character in enumerate(text):
        if character in "([{":
            depth += 1
        elif character in ")]}":
            depth -= 1
        elif character == "," and depth == 0:
            parts.append(text[start:i].strip())
            start = i + 1
    return [*parts, text[start:].strip()]
