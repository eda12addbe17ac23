"""Find the executable cells of a page, and run them in a separate folder.

The cells are the MyST fences ``{write-file} NAME``, ``{run-shell}``, ``{run-python}``,
``{show-file} NAME`` (of a Stan program, only its ``:blocks:``) and ``{show-image} PATH``. All cells
of a page share one folder, and its Python cells share one process. The build and the tests of the
tutorials both run pages through :func:`run_page`, so what is tested is what is printed.

myst-nb, which executes pages as well, has no cells for files and shell commands with their exit
statuses, needs a Jupyter kernel for each page, and cannot hide the compiler from them.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import textwrap
import threading
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

KINDS = ("write-file", "run-shell", "run-python", "show-file", "show-image")
WIDTH = 88
"""Characters of a line of output, as in a terminal of this width."""

TIME_LIMIT = 300
"""Seconds that a cell may take."""

_FENCE = re.compile(
    r"^(?P<fence>`{3,})\{(?P<kind>" + "|".join(KINDS) + r")\}[ ]*(?P<argument>.*)\n"
    r"(?P<content>(?:.*\n)*?)(?P=fence)[ ]*$",
    re.MULTILINE,
)
_OPTION = re.compile(r"^:([a-z-]+):[ ]*(.*)$")
# The site is built with the Stan interpreter, as on a machine without a compiler.
_COMPILER = re.compile(r"(.*-)?(g\+\+|gcc|cc|c\+\+|clang|clang\+\+|g?make)(-[0-9.]+)?")


class CellError(Exception):
    """An unexpected result of a cell; the message has the line and the output."""


class Cell(NamedTuple):
    """One fence: its kind, argument, options, body and line in the page."""

    kind: str
    argument: str
    options: dict[str, str]
    body: str
    line: int


def cells_of(text: str) -> list[Cell]:
    """Return the cells of a page in order."""
    found = []
    for match in _FENCE.finditer(text):
        lines = match["content"].splitlines()
        options = {}
        while lines and (option := _OPTION.match(lines[0])):
            options[option[1]] = option[2].strip()
            lines.pop(0)
        body = "\n".join(lines).strip("\n") + "\n"
        line = text.count("\n", 0, match.start()) + 1
        found.append(Cell(match["kind"], match["argument"].strip(), options, body, line))
    return found


def run_page(cells: Sequence[Cell], folder: Path, images: Path, home: Path) -> list[dict[str, Any]]:
    """Run a page's cells in order.

    Parameters
    ----------
    cells : sequence of Cell
        The cells, as :func:`cells_of` returns them.
    folder : Path
        An empty folder, which stands for the working folder of the page's reader.
    images : Path
        Where figures are written.
    home : Path
        A folder for caches and for the ``pyflowers`` command; no CmdStan is in it.

    Returns
    -------
    list of dict
        For each cell ``text`` and, for Python, ``html`` and ``figures`` (``file``, ``alt``,
        ``width``).

    Raises
    ------
    CellError
        If a cell does not end with the status that its page states.
    """
    folder.mkdir(parents=True, exist_ok=True)
    images.mkdir(parents=True, exist_ok=True)
    environment = _environment(home)
    results: list[dict[str, Any]] = []
    with _Python(folder, images, environment) as python:
        for number, cell in enumerate(cells):
            try:
                results.append(_run(cell, number, folder, images, environment, python))
            except (CellError, subprocess.TimeoutExpired) as error:
                raise CellError(f"line {cell.line}: {error}\n{cell.body}") from None
    return results


def _run(
    cell: Cell,
    number: int,
    folder: Path,
    images: Path,
    environment: dict[str, str],
    python: _Python,
) -> dict[str, Any]:
    if cell.kind == "write-file":
        path = folder / cell.argument
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(cell.body, encoding="utf-8")
        return {"text": ""}
    if cell.kind == "show-file":
        return {"text": _part(folder / cell.argument, cell.options.get("blocks", ""))}
    if cell.kind == "show-image":
        name = f"{number}-{Path(cell.argument).name}"
        if not (folder / cell.argument).is_file():
            raise CellError(f"there is no {cell.argument}")
        shutil.copyfile(folder / cell.argument, images / name)
        return {"text": "", "figures": [{"file": name, "alt": cell.options["alt"], "width": 0}]}
    if cell.kind == "run-shell":
        return {"text": _shell(cell, folder, environment)}
    return python.run(cell.body, number, cell.options.get("alt", ""))


def _part(path: Path, blocks: str) -> str:
    """Return the text of a file, or only the named blocks of a Stan program."""
    if not path.is_file():
        raise CellError(f"there is no {path.name}")
    text = path.read_text(encoding="utf-8").rstrip("\n")
    if not blocks:
        return text
    found = []
    for name in blocks.split(", "):
        block = re.search(rf"(?ms)^{name} \{{\n.*?^\}}", text)
        if block is None:
            raise CellError(f"{path.name} has no block {name}")
        found.append(block[0])
    return "\n".join(found)


def _shell(cell: Cell, folder: Path, environment: dict[str, str]) -> str:
    expected = int(cell.options.get("status", "0"))
    done = subprocess.run(
        ["bash", "-e", "-u", "-o", "pipefail", "-c", cell.body],
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=TIME_LIMIT,
        check=False,
    )
    output = done.stdout.decode("utf-8", errors="replace")
    if done.returncode != expected:
        raise CellError(f"exit status {done.returncode} instead of {expected}\n{output}")
    return _tidied(output, folder)


def _tidied(output: str, folder: Path) -> str:
    """Remove the path of the build's folder and trailing blanks from the output.

    The advice to build CmdStan is removed as well, because every fit of the site would print it.
    """
    output = re.sub(r"(?m)^CmdStan is not installed yet.*\n?", "", output)
    output = output.replace(f"{folder}/", "").replace(str(folder), ".")
    return "\n".join(line.rstrip() for line in output.strip("\n").splitlines())


def folded(output: str) -> str:
    """Fold messages that are wider than the column of a page; rows of tables stay whole."""
    lines = []
    for line in output.splitlines():
        indent = re.match(r" *(\w+   +\w+   +)?", line)
        assert indent is not None  # it may be empty
        is_in_table = "─" in output and "  " in line.strip()
        if len(line) > WIDTH and not is_in_table:
            line = textwrap.fill(
                line,
                WIDTH,
                subsequent_indent=" " * (indent.end() or 2),
                break_long_words=False,
                break_on_hyphens=False,
            )
        lines.append(line)
    return "\n".join(lines)


def _environment(home: Path) -> dict[str, str]:
    """Return an environment with this Python's pyflowers and without CmdStan or a compiler."""
    commands = home / "bin"
    if not commands.is_dir():
        _write_commands(commands)
    kept = {k: v for k, v in os.environ.items() if k not in ("CMDSTAN", "CONDA_PREFIX", "CXX")}
    return {
        **kept,
        "PATH": str(commands),
        "HOME": str(home),
        "PYFLOWERS_CACHE": str(home / "cache"),
        "PIP_NO_INDEX": "1",
        "COLUMNS": str(WIDTH),
        "NO_COLOR": "1",
        "MPLBACKEND": "Agg",
        "MPLCONFIGDIR": str(home / "matplotlib"),
    }


def _write_commands(folder: Path) -> None:
    """Create a folder for PATH with pyflowers, python and everything on PATH except compilers."""
    # Pages may run at the same time, so the folder appears whole or not at all.
    aside = folder.with_name(f"bin.{os.getpid()}.{threading.get_ident()}")
    aside.mkdir(parents=True)
    for name, command in (("pyflowers", "-m pyflowers "), ("python", "")):
        script = aside / name
        script.write_text(f'#!/bin/sh\nexec "{sys.executable}" {command}"$@"\n', encoding="utf-8")
        script.chmod(0o755)
    for place in map(Path, os.environ["PATH"].split(os.pathsep)):
        for path in place.iterdir() if place.is_dir() else ():
            if not _COMPILER.fullmatch(path.name) and not (aside / path.name).is_symlink():
                with suppress(FileExistsError):
                    (aside / path.name).symlink_to(path)
    with suppress(OSError):  # another page has already created it
        aside.rename(folder)


class _Python:
    """One process for a page's Python cells, started by the first of them."""

    def __init__(self, folder: Path, images: Path, environment: dict[str, str]) -> None:
        self.folder = folder
        self.images = images
        self.environment = environment
        self.process: subprocess.Popen[str] | None = None

    def __enter__(self) -> _Python:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process is not None:
            self.process.communicate()

    def run(self, code: str, number: int, alt: str) -> dict[str, Any]:
        """Run a cell and return what it shows.

        Raises
        ------
        CellError
            If the cell raises, or draws a figure without alternative text.
        """
        process = self.process or self._start()
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps({"code": code, "number": number, "alt": alt}) + "\n")
        process.stdin.flush()
        answer = process.stdout.readline()
        if not answer:
            raise CellError("the Python process ended without an answer")
        result: dict[str, Any] = json.loads(answer)
        if result.get("error"):
            raise CellError(result["error"])
        result["text"] = _tidied(result["text"], self.folder)
        return result

    def _start(self) -> subprocess.Popen[str]:
        worker = Path(__file__).with_name("worker.py")
        self.process = subprocess.Popen(
            [sys.executable, str(worker), str(self.images)],
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            encoding="utf-8",
        )
        return self.process
