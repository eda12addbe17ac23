"""The text of a Stan program with everything that it includes, and its declarations.

A program may come from an untrusted source, so an ``#include`` counts only where stanc reads it,
outside of comments and strings. An ``#include`` may name only a file in the program's folder or in
one that the user named. The text with the included files inserted is the only thing that an engine
or a compiler ever reads.

Declarations are read with types, sizes and bounds as they are written; nothing is evaluated. This
is enough to determine what a table must supply and what a fit will hold, before any compiler or
interpreter has read the program. Stan itself decides whether the program is valid.

The text also shows which parameters have a prior: `x` is the subject of ``x ~ normal(m, s)`` and of
``normal_lpdf(x | m, s)``; `m` and `s` are not. In any other term of ``target``, all variables
are subjects. Variables from which a subject is computed are also subjects. A parameter that is
never a subject has a flat prior, which is improper if its support is unbounded. In unclear cases, a
parameter counts as a subject.

References
----------
Stan Reference Manual 2.35, chapters "Program blocks", "Data types and declarations" and
"Statements" (increment log density, distribution statements).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from pyflowers.digests import digest
from pyflowers.errors import CompileError, ConfigError
from pyflowers.records import as_path

LONGEST_TEXT = 10_000_000
"""The maximum number of bytes of a program's files, and of characters of its text with the included
files inserted."""

DEEPEST_INCLUDE = 50
"""How deeply included files may include others."""

_COMMENT_OR_STRING = re.compile(r'"[^"\n]*"|//[^\n]*|/\*.*?\*/', re.DOTALL)
_INCLUDE = re.compile(
    rf"{_COMMENT_OR_STRING.pattern}|(?P<open>/\*)|"
    r'#include[ \t\f\n]+(?:"(?P<quoted>[^"\n]*)"|<(?P<angled>[^>\n]*)>|(?P<bare>[^ \t\f\n]+))',
    re.DOTALL,
)
"""Matches ``#include`` as stanc's lexer does. Comments and strings match as well, and hide what is
in them; ``open`` is a comment that does not end."""

_BLOCK = re.compile(
    r"\b(functions|(?:transformed\s+)?data|(?:transformed\s+)?parameters|model"
    r"|generated\s+quantities)\s*\{"
)
_VECTORS = "vector row_vector complex_vector complex_row_vector simplex ordered positive_ordered"
_SQUARE = {"cov_matrix", "corr_matrix", "cholesky_factor_corr", "cholesky_factor_cov"}
_MATRICES = "matrix complex_matrix row_stochastic_matrix column_stochastic_matrix"
_SIZED = {
    **dict.fromkeys(("int", "real", "complex", "tuple"), 0),
    **dict.fromkeys((*_VECTORS.split(), "unit_vector", "sum_to_zero_vector"), 1),
    **dict.fromkeys((*_MATRICES.split(), *_SQUARE, "sum_to_zero_matrix"), 2),
}
"""The sized types, and the number of dimensions of each."""

_COMPACT = {"simplex", "unit_vector", "corr_matrix", "cholesky_factor_corr"}
_DENSITY = re.compile(r"\w+_(?:lpdf|lupdf|lpmf|lupmf)\s*\(")
_ASSIGNED = re.compile(r"([A-Za-z]\w*)\s*(?:\[[^=;]*\])?\s*(?:\.?[-+*/])?=(?!=)(.*)", re.DOTALL)
_OPENS_BLOCK = re.compile(r"(^|\)|\belse)\s*$")
"""Text before a nested block: nothing, a condition or ``else``; elsewhere ``{`` opens an array."""


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
        The size of each dimension as it is written; the sizes of an array come first.
    lower, upper : str or None
        Bounds as they are written.
    """

    name: str
    kind: str
    sizes: tuple[str, ...] = ()
    lower: str | None = None
    upper: str | None = None

    @property
    def is_int(self) -> bool:
        """Whether its values are integers."""
        return self.kind == "int"

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self.sizes)

    @property
    def lowest(self) -> float | None:
        """Its lower bound if it is written as a number; other bounds are left to Stan."""
        return _as_number(self.lower)

    @property
    def highest(self) -> float | None:
        """Its upper bound if it is written as a number."""
        return _as_number(self.upper)

    def is_index(self, data: Declared) -> bool:
        """Return whether it is an index from 1 up to a size: ``array[N] int<lower=1, upper=P>``."""
        return self.is_int and self.lower == "1" and self.upper in data


def _as_number(bound: str | None) -> float | None:
    """Return a bound as a number; None if there is none, or it is an expression."""
    try:
        return None if bound is None else float(bound)
    except ValueError:
        return None


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
        """All variables of a draw."""
        return {**self.parameters, **self.transformed_parameters, **self.generated_quantities}


@dataclass(frozen=True)
class Source:
    """A program and the files that it includes.

    Attributes
    ----------
    path : Path
        The ``.stan`` file.
    files : dict of str to bytes
        The contents of each file, by its path as the program names it; the program comes first.
    formula : str
        The formula from which the program was written; empty for other programs.
    """

    path: Path
    files: dict[str, bytes]
    formula: str = ""

    @property
    def name(self) -> str:
        """The program's name, which is the name of its file without ``.stan``."""
        return self.path.stem

    @property
    def called(self) -> str:
        """The name of the program in results: its formula, or the name of its file."""
        return self.formula or self.path.name

    @property
    def safe_name(self) -> str:
        """A file name that make and stanc accept: at most 100 letters, digits and underscores."""
        return re.sub(r"[^A-Za-z0-9_]", "_", self.path.stem)[:100] or "program"

    @cached_property
    def sha256(self) -> str:
        """Digest of the files' names and contents."""
        return digest(*(part for name, text in self.files.items() for part in (name, text.hex())))

    @cached_property
    def text(self) -> str:
        """The program's text, with the included files inserted.

        Raises
        ------
        CompileError
            If a file is damaged, is not among `files` or includes itself, or the text is too long.
        """
        return self._expanded(next(iter(self.files)), (), {})

    @cached_property
    def blocks(self) -> Blocks:
        """The declarations of the program."""
        return read_blocks(self.text)

    def write(self, folder: Path) -> Path:
        """Write :attr:`text` into `folder` as one file, and return its path.

        stanc and make receive no other file and no other name, because the program may come from an
        untrusted source: make runs commands that are in the name of a file, and compiles ``p.hpp``
        instead of ``p.stan`` if ``p.hpp`` is newer.
        """
        path = folder / f"{self.safe_name}.stan"
        path.write_text(self.text, encoding="utf-8", newline="\n")
        return path

    def flat_parameters(self, prior_only: str) -> list[str]:
        """Return the parameters with a flat prior on an unbounded support.

        Parameters
        ----------
        prior_only : str
            The data variable that guards the likelihood; guarded statements do not count as priors.
        """
        bodies = _block_bodies(self.text)
        model = _without_guarded(bodies.get("model", ""), prior_only)
        subjects = set[str]().union(*map(_subjects, _lines(model)))
        assigned = (
            _ASSIGNED.search(line)
            for line in _lines(f"{bodies.get('transformed parameters', '')};{model}")
        )
        computed = [match.groups() for match in assigned if match is not None]
        # Each pass follows the computation one step further back.
        for _ in range(len(computed) + 1):
            for name, expression in computed:
                if name in subjects:
                    subjects |= _words_outside_conditions(expression)
        return [
            name
            for name, variable in self.blocks.parameters.items()
            if name not in subjects
            and variable.kind not in _COMPACT
            and (variable.lower is None or variable.upper is None)
        ]

    def reused_counters(self) -> list[str]:
        """Return the loop variables that share their name with an ``int`` in transformed data.

        In transformed data, the variables of loops over an array's elements also count as ``int``s.
        """
        bodies = _block_bodies(self.text)
        before = bodies.pop("transformed data", "")
        names = {*re.findall(r"\bint\b\s*(?:<[^;>]*>)?\s*(\w+)\s*[=;]", before)}
        for name, over in re.findall(r"\bfor\s*\(\s*(\w+)\s+in\s+([^{;]*)", before):
            if ":" not in re.sub(r"\[[^\]]*\]", "", over):
                names.add(name)
        bodies.pop("functions", None)
        loops = re.findall(r"\bfor\s*\(\s*(\w+)\s+in\b", " ".join(bodies.values()))
        return sorted(names & set(loops))

    def _expanded(self, name: str, above: tuple[str, ...], done: dict[str, str]) -> str:
        """Return the text of a file with the files that it includes inserted.

        `above` names the files through which the file is included. `done` stores the text of each
        included file.
        """
        if name in above:
            raise CompileError(f"{self.path}: {name} includes itself; remove that #include")
        if len(above) > DEEPEST_INCLUDE:
            raise CompileError(
                f"{self.path}: files include each other more than {DEEPEST_INCLUDE} levels deep; "
                "insert some of them by hand"
            )
        text, parts, end, length = self._text_of(name), list[str](), 0, 0
        for match, target in _includes(text, self._where(name)):
            if target not in done:
                done[target] = self._expanded(target, (*above, name), done)
            # A new line ends a comment in the last line of the included file.
            parts += [text[end : match.start()], done[target], "\n"]
            end, length = match.end(), length + len(done[target])
            if length > LONGEST_TEXT:
                raise CompileError(
                    f"{self.path}: with its included files, the program has more than "
                    f"{LONGEST_TEXT} characters; include fewer files"
                )
        return "".join([*parts, text[end:]])

    def _text_of(self, name: str) -> str:
        if name not in self.files:
            raise CompileError(f"{self.path} includes {name}, which is missing; restore {name}")
        return _text(self.files[name], self._where(name))

    def _where(self, name: str) -> str:
        """Return how messages name a file."""
        is_first = name == next(iter(self.files))
        if is_first:
            return str(self.path)
        return f"{name}, which {self.path} includes"


def read_source(program: str | Path, include_paths: Sequence[str | Path] = ()) -> Source:
    """Read a program and its included files, which are looked up in its own folder first.

    Parameters
    ----------
    program : str or Path
        The ``.stan`` file.
    include_paths : sequence of path
        Folders that are searched for included files, after the program's own folder.

    Raises
    ------
    ConfigError
        If the program does not exist or cannot be read, or its name does not end in ``.stan``.
    CompileError
        If an included file is not found or is outside of these folders, or a file is damaged.
    """
    given = as_path(program, "a Stan program")
    try:
        path = given.resolve()
        if path.suffix != ".stan":
            raise ConfigError(f"{path}: a Stan program's name must end in .stan; rename it")
        if not path.is_file():
            raise ConfigError(f"{path}: no such Stan program; check the path")
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"{program}: not a path that can be opened ({error}); correct it"
        ) from error
    folders = [path.parent, *(Path(folder).resolve() for folder in include_paths)]
    first = f"{Source(path, {}).safe_name}.stan"
    files = {first: _bytes(path)}
    source, waiting = Source(path, files), [first]
    while waiting:
        name = waiting.pop()
        for _, target in _includes(source._text_of(name), source._where(name)):
            if target in files:
                continue
            files[target] = _bytes(_found(target, folders, path))
            waiting.append(target)
            if sum(map(len, files.values())) > LONGEST_TEXT:
                raise CompileError(
                    f"{path}: its included files have more than {LONGEST_TEXT} bytes; include "
                    "fewer files"
                )
    return source


def _found(target: str, folders: Sequence[Path], path: Path) -> Path:
    """Return the file to which ``#include target`` in a program leads, in one of the folders."""
    real = [(folder / target).resolve() for folder in folders if _is_file(folder / target)]
    inside = [file for file in real if any(file.is_relative_to(folder) for folder in folders)]
    if inside:
        return inside[0]
    where = " or ".join(map(str, folders))
    if real:
        raise CompileError(
            f"{path}: #include {target} leads to {real[0]}, outside of {where}; add that file's "
            "folder with --include if you trust it"
        )
    raise CompileError(
        f"{path}: #include {target}: no such file in {where}; add its folder with --include"
    )


def read_blocks(text: str) -> Blocks:
    """Read the declarations of a program into which included files are already inserted."""
    bodies = _block_bodies(text)
    return Blocks(
        *(
            {variable.name: variable for variable in _declarations(bodies.get(block, ""))}
            for block in ("data", "parameters", "transformed parameters", "generated quantities")
        )
    )


def _is_file(path: Path) -> bool:
    """Return whether a path is that of a file; a name that is too long is not."""
    with suppress(OSError):
        return path.is_file()
    return False


def _includes(text: str, where: str) -> Iterator[tuple[re.Match[str], str]]:
    """Yield each ``#include`` of a text, and the name of the file that it includes.

    Raises
    ------
    CompileError
        If a comment does not end, since it would hide what follows the included text.
    """
    for match in _INCLUDE.finditer(text):
        if match["open"]:
            line = text.count("\n", 0, match.start()) + 1
            raise CompileError(
                f"{where}, line {line}: a comment that begins with /* does not end; end it with */"
            )
        target = match["quoted"] or match["angled"] or match["bare"]
        if target:
            yield match, target


def _text(content: bytes, where: str) -> str:
    """Return the text of a file, in which stanc and this module see the same lines.

    Raises
    ------
    CompileError
        If there is a NUL character: an interpreter would take it for the end of the program.
    """
    end = content.find(b"\0")
    if end >= 0:
        line = content.count(b"\n", 0, end) + 1
        raise CompileError(
            f"{where}, line {line}: there is a NUL character, so the file is damaged; restore it"
        )
    text = content.decode("utf-8", "replace")
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _bytes(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            content = file.read(LONGEST_TEXT + 1)
    except OSError as error:
        raise ConfigError(
            f"{path} cannot be read ({error.strerror or error}); check its permissions"
        ) from error
    if len(content) > LONGEST_TEXT:
        raise ConfigError(
            f"{path} has more than {LONGEST_TEXT} bytes, too many for a Stan program; check the "
            "path"
        )
    return content


# Declarations


def _block_bodies(text: str) -> dict[str, str]:
    """Return the text of each block of a program, without comments or the contents of strings."""
    plain = _COMMENT_OR_STRING.sub(lambda m: '""' if m[0].startswith('"') else " ", text)
    return {
        " ".join(match[1].split()): plain[match.end() : _closing(plain, match.end())]
        for match in _BLOCK.finditer(plain)
    }


def _find(text: str, marks: str, start: int = 0) -> int:
    """Return the position of the first mark outside of brackets, or the end of the text."""
    depth = 0
    for i in range(start, len(text)):
        if depth == 0 and text[i] in marks:
            return i
        depth += (text[i] in "([{") - (text[i] in ")]}")
    return len(text)


def _closing(text: str, position: int) -> int:
    """Return where the bracket that opens just before `position` closes, or the text's end."""
    return _find(text, ")]}", position)


def _declarations(body: str) -> Iterator[Variable]:
    """Yield the variables that top-level statements of a block declare."""
    start = i = 0
    while i < len(body):
        if body[i] == "{":
            # Declarations in a nested block are local.
            is_array = not _OPENS_BLOCK.search(body[start:i])
            i = _closing(body, i + 1)
            if not is_array:
                start = i + 1
        elif body[i] == ";":
            yield from _declared(body[start:i].strip())
            start = i + 1
        i += 1


def _declared(statement: str) -> Iterator[Variable]:
    """Yield the variables of one statement; none if it is not a declaration."""
    sizes, rest = list[str](), statement
    if array := re.match(r"array\s*(?=\[)", statement):
        of_array, rest = _bracketed(statement[array.end() :], "[")
        sizes = _split(of_array or "")
    match = re.match(r"(\w+)\s*", rest)
    if match is None or match[1] not in _SIZED:
        return
    kind, rest = match[1], rest[match.end() :]
    if kind == "tuple":
        _, rest = _bracketed(rest, "(")
    constraints = {}
    if rest.startswith("<"):
        # A > inside brackets is a comparison and does not end the bounds.
        end = _find(rest, ">")
        pairs = (part.partition("=") for part in _split(rest[1:end]))
        constraints = {name.strip(): value.strip() for name, _, value in pairs}
        rest = rest[end + 1 :].strip()
    if _SIZED[kind]:
        inside, rest = _bracketed(rest, "[")
        if inside is None:
            return
        own = _split(inside)
        if kind in _SQUARE and len(own) == 1:
            own *= 2
        sizes += own
    for part in _split(rest):
        if name := re.match(r"\w+$", part.partition("=")[0].strip()):
            lower, upper = constraints.get("lower"), constraints.get("upper")
            yield Variable(name[0], kind, tuple(sizes), lower, upper)


def _bracketed(text: str, bracket: str) -> tuple[str | None, str]:
    """Return the contents of brackets at the start of a text (None without them), and the rest."""
    if not text.startswith(bracket):
        return None, text
    end = _closing(text, 1)
    return text[1:end], text[end + 1 :].strip()


def _split(text: str) -> list[str]:
    """Split at commas outside of brackets."""
    parts, start = [], 0
    while start <= len(text):
        end = _find(text, ",", start)
        parts.append(text[start:end].strip())
        start = end + 1
    return parts


# Priors


def _without_guarded(body: str, prior_only: str) -> str:
    """Remove statements that run only if ``prior_only`` is 0, for the usual forms of this guard."""
    name = re.escape(prior_only)
    off = rf"!\s*{name}|{name}\s*==\s*0|0\s*==\s*{name}|{name}\s*!=\s*1|{name}\s*<\s*1"
    guard = re.compile(rf"\bif\s*\(\s*(?:{off})\s*\)\s*")
    while (match := guard.search(body)) is not None:
        body = body[: match.start()] + _after_statement(body[match.end() :])
    return body


def _after_statement(text: str) -> str:
    """Return a text without its first statement or block."""
    if text.startswith("{"):
        return text[_closing(text, 1) + 1 :]
    if loop := re.match(r"(?:for|while|if)\s*\(", text):
        return _after_statement(text[_closing(text, loop.end()) + 1 :].lstrip())
    return text.partition(";")[2]


def _lines(body: str) -> list[str]:
    """Return the statements between semicolons, without the bounds of declarations."""
    return re.sub(r"(?<=\w)<[^<>;]*>", "", body).split(";")


def _subjects(statement: str) -> set[str]:
    """Return the names whose density a statement of the model adds to ``target``."""
    if "~" in statement:
        return _words(statement.split("~")[0])
    if _ASSIGNED.search(statement) is not None and not re.search(r"\btarget\s*\+=", statement):
        return set()
    return _words_outside_conditions(statement)


def _words_outside_conditions(expression: str) -> set[str]:
    """Return the words of an expression, except those after the bar of a density."""
    position = 0
    while match := _DENSITY.search(expression, position):
        end = _closing(expression, match.end())
        subject = expression[match.end() : end].partition("|")[0]
        expression = f"{expression[: match.start()]} {subject}{expression[end:]}"
        position = match.start() + 1 + len(subject)
    return _words(expression)


def _words(text: str) -> set[str]:
    return set(re.findall(r"[A-Za-z]\w*", text))
