"""The text of a Stan program with everything that it includes, and its declarations.

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

import posixpath
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from pyflowers.digests import digest
from pyflowers.errors import CompileError, ConfigError
from pyflowers.records import as_path

_INCLUDE = re.compile(
    r'^[ \t]*#include[ \t]+(?:"([^"\n]+)"|<([^>\n]+)>|(\S+))[^\n]*$', re.MULTILINE
)
_COMMENT_OR_STRING = re.compile(r'"[^"\n]*"|//[^\n]*|/\*.*?\*/', re.DOTALL)
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
        try:
            return float(self.lower) if self.lower is not None else None
        except ValueError:
            return None

    def is_index(self, data: Declared) -> bool:
        """Whether it is an index from 1 up to a size: ``array[N] int<lower=1, upper=P>``."""
        return self.is_int and self.lower == "1" and self.upper in data


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
    """

    path: Path
    files: dict[str, bytes]

    @property
    def name(self) -> str:
        """The program's name, which is the name of its file without ``.stan``."""
        return self.path.stem

    @property
    def safe_name(self) -> str:
        """A file name that make and stanc accept: letters, digits and underscores."""
        return re.sub(r"[^A-Za-z0-9_]", "_", self.path.stem)

    @cached_property
    def sha256(self) -> str:
        """Digest of the files' names and contents."""
        return digest(*(part for name, text in self.files.items() for part in (name, text.hex())))

    @cached_property
    def text(self) -> str:
        """The program's text, with the included files inserted."""
        return self._expanded(next(iter(self.files)), ())

    @property
    def without_model(self) -> str:
        """The text with an empty model block and nothing after it.

        Its log density consists only of the log Jacobians of the parameters' transforms.
        """
        bodies = _block_bodies(self.text)
        kept = ("functions", "data", "transformed data", "parameters")
        return "".join(f"{its} {{{bodies[its]}}}\n" for its in kept if its in bodies) + "model {}\n"

    @cached_property
    def blocks(self) -> Blocks:
        """The declarations of the program."""
        return read_blocks(self.text)

    def write(self, folder: Path) -> Path:
        """Write the program into `folder` and return its path there.

        Included files are written to the same folder by name. If any name leads out of the folder,
        a single file that contains all included texts is written instead.
        """
        first, files = next(iter(self.files)), self.files
        if not all(map(_stays_inside, files)):
            first = Path(first).name
            files = {first: self.text.encode()}
        for name, text in files.items():
            target = folder / name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(text)
        return folder / first

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
        """Return the loop variables that share their name with an ``int`` of transformed data.

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

    def _expanded(self, name: str, inside: tuple[str, ...]) -> str:
        def included(match: re.Match[str]) -> str:
            target = _target(match)
            if target in inside or target not in self.files:
                return ""
            return self._expanded(target, (*inside, name))

        return _INCLUDE.sub(included, _text(self.files[name]))


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
        If an included file is not found.
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
    waiting = [first]
    while waiting:
        for match in _INCLUDE.finditer(_text(files[waiting.pop()])):
            target = _target(match)
            if target in files:
                continue
            found = next((f / target for f in folders if (f / target).is_file()), None)
            if found is None:
                where = " or ".join(map(str, folders))
                raise CompileError(
                    f"{path}: #include {target}: no such file in {where}; add its folder with "
                    "--include"
                )
            files[target] = _bytes(found)
            waiting.append(target)
    return Source(path, files)


def read_blocks(text: str) -> Blocks:
    """Read the declarations of a program into which included files are already inserted."""
    bodies = _block_bodies(text)
    return Blocks(
        *(
            {variable.name: variable for variable in _declarations(bodies.get(block, ""))}
            for block in ("data", "parameters", "transformed parameters", "generated quantities")
        )
    )


def _target(match: re.Match[str]) -> str:
    return match[1] or match[2] or match[3]


def _text(content: bytes) -> str:
    return content.decode("utf-8", "replace")


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise ConfigError(
            f"{path} cannot be read ({error.strerror or error}); check its permissions"
        ) from error


def _stays_inside(name: str) -> bool:
    """Whether a relative name stays within its folder."""
    plain = posixpath.normpath(name.replace("\\", "/"))
    return not (plain.startswith(("/", "..")) or Path(plain).is_absolute())


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
            start = start if is_array else i + 1
        elif body[i] == ";":
            yield from _declared(body[start:i].strip())
            start = i + 1
        i += 1


def _declared(statement: str) -> Iterator[Variable]:
    """Yield the variables of one statement; none if it is not a declaration."""
    array = re.match(r"array\s*(?=\[)", statement)
    array_sizes, rest = _bracketed(statement[array.end() :], "[") if array else ("", statement)
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
    sizes = _split(array_sizes) if array_sizes else []
    if _SIZED[kind]:
        own, rest = _bracketed(rest, "[")
        if own is None:
            return
        sizes += _split(own) * (2 if kind in _SQUARE and len(_split(own)) == 1 else 1)
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
