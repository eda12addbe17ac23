"""``pyflowers models``, ``new`` and ``compile``, for shipped Stan programs and your own."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import click

from pyflowers.cli.console import say, say_json
from pyflowers.cli.options import PATH, given, inputs
from pyflowers.data import read_table
from pyflowers.display import styled, wrapped, wrapped_pieces
from pyflowers.errors import ConfigError
from pyflowers.fits.spec import Spec, option_of
from pyflowers.programs import Capability, Program, find_program, shipped_names
from pyflowers.programs.declaration import TO_FILL_IN, drafted
from pyflowers.programs.find import shipped_program
from pyflowers.programs.program import is_formula, write_new
from pyflowers.programs.source import read_source
from pyflowers.resources import stan_folder
from pyflowers.storage import FileKind, check_file, new_file
from pyflowers.text import in_words


@click.command("models")
@click.argument("program", metavar="[NAME|PROGRAM.stan]", required=False)
@inputs("include_paths")
@click.option("--verbose", is_flag=True, help="Also list the capabilities of each model.")
def models_command(
    program: str | None, include_paths: tuple[str, ...] | None, verbose: bool
) -> None:
    """List the shipped models and their priors.

    With NAME or PROGRAM.stan, show what that program can do, and what to add to enable the rest.

      pyflowers models
      pyflowers models multilevel_poisson
    """
    if program is None:
        programs = list(map(find_program, shipped_names()))
    else:
        programs = [find_program(program, include_paths or ())]
    say_json({"models": [_record(each) for each in programs]})
    for each in programs:
        _show(each, with_remedies=program is not None, with_capabilities=verbose)


def _record(program: Program) -> dict[str, Any]:
    declared = program.declaration
    return {
        "name": program.name,
        "equation": declared.equation,
        "story": declared.story,
        "priors": {name: prior.model_dump() for name, prior in declared.priors.items()},
        "capabilities": {str(each): program.can(each) for each in Capability},
        "path": str(program.path),
    }


def _show(program: Program, *, with_remedies: bool, with_capabilities: bool) -> None:
    declared = program.declaration
    say(*wrapped_pieces((styled(program.name, bold=True), f"  {declared.equation}")))
    if declared.story:
        say(wrapped(f"  {declared.story}", 2))
    for name, prior in declared.priors.items():
        say(wrapped(f"    --prior {name}={prior.value:g}  {prior.description}", 6))
    if with_remedies:
        for capability in Capability:
            answer, purpose = styled("yes", fg="green"), f"  {capability:<14} {capability.purpose}"
            if not program.can(capability):
                answer, purpose = styled("no ", fg="yellow"), f"{purpose}: {capability.remedy}"
            say("  ", answer, wrapped(f"     {purpose}", 22)[5:])
    elif with_capabilities:
        say(wrapped(f"  can: {', '.join(sorted(program.capabilities))}"))
    say(f"  {program.path}\n")


@click.command("new")
@click.argument("name", metavar="NAME|PROGRAM.stan", type=PATH)
@click.argument("formula", required=False)
@click.option("--from", "source", metavar="NAME", help="Shipped model to copy.")
@click.option("--data", type=PATH, help="Table for the formula or for the drafted declaration.")
@inputs(
    *("family", "link", "default_priors", "priors", "known", "centered"),
    *("sep", "decimal", "encoding", "drop_missing"),
)
@inputs("include_paths")
def new_command(
    name: Path,
    formula: str | None,
    source: str | None,
    data: Path | None,
    include_paths: tuple[str, ...] | None,
    **of_formula: Any,
) -> None:
    """Write a Stan program to start from, or draft a declaration for a program of your own.

    With FORMULA and --data, NAME.stan and NAME.toml are written: the program that pyflowers fit
    FORMULA uses for that table, and its declaration. With --from, both are copied from a shipped
    model, with log_lik, y_rep and lprior added. With --data alone, PROGRAM.toml is drafted for your
    existing PROGRAM.stan. Existing files are not overwritten.

      pyflowers new mymodel --from multilevel_poisson
      pyflowers new rats "weight ~ age + (age | rat)" --data rats.csv
    """
    if is_formula(str(name)):
        raise click.UsageError(
            f"the program needs a name: pyflowers new NAME {str(name)!r} --data FILE"
        )
    notes, target = [], name
    if name.suffix != ".stan":
        target = Path(f"{name}.stan")
    asked = given(of_formula)
    if formula is None and asked:
        raise click.UsageError(f"{option_of(next(iter(asked)))} applies only to a FORMULA")
    if formula is not None:
        if data is None or source is not None or include_paths:
            raise click.UsageError(
                "a FORMULA needs --data FILE, and cannot be combined with --from or --include"
            )
        for prior, value in asked.get("priors", {}).items():
            if not isinstance(value, str):
                raise click.UsageError(
                    f"--prior {prior}={value:g}: a new program takes densities, such as "
                    "--prior 'b ~ normal(0, 1)'; give numbers to pyflowers fit"
                )
        spec = Spec(formula, data, **asked).with_table()
        program = spec.open()
        read = spec.read(program)
        program.write(target)
        files = dict.fromkeys((target, target.with_suffix(".toml")), "")
        notes = [f"note: {note}" for note in (*read.notes, *program.python.check(read))]
        then = f"pyflowers fit {target} --data {data} --out RUN_FOLDER"
    elif source is not None and data is None:
        files, lost = _copy_of_shipped(source, target)
        if lost:
            names = in_words(lost)
            notes = [f"note: the Python code of {source} for {names} is not copied"]
        then = f"pyflowers fit {target} --data YOUR_TABLE --out RUN_FOLDER"
    elif source is None and data is not None:
        columns = list(read_table(data).cells)
        draft = drafted(name.name, columns, read_source(name, include_paths or ()).blocks)
        files = {name.with_suffix(".toml"): draft}
        if TO_FILL_IN in draft:
            fill_in = "fill in the marked lines, then "
        else:
            fill_in = ""
        then = f"{fill_in}pyflowers models {name}"
    else:
        raise click.UsageError(
            "give a FORMULA and its --data, --from NAME for a copy, or --data FILE to draft a "
            "declaration"
        )
    if formula is None:
        write_new(files)
    say_json({"written": [str(path) for path in files]})
    for line in (*(f"written: {path}" for path in files), *notes, f"next: {then}"):
        say(line)


def _copy_of_shipped(name: str, target: Path) -> tuple[dict[Path, str], list[str]]:
    """Return the files of a copy of a shipped program, and the capabilities that the copy lacks.

    The copy has ``log_lik``, ``y_rep`` and ``lprior`` in Stan, whereas pyflowers computes them in
    NumPy for the shipped program.
    """
    program = shipped_program(name)
    text = program.path.read_text(encoding="utf-8")
    quantities = stan_folder() / "quantities" / f"{name}.stan"
    if quantities.is_file():
        text = text.rstrip("\n") + "\n" + quantities.read_text(encoding="utf-8")
    declaration = program.path.with_suffix(".toml").read_text(encoding="utf-8")
    declaration = re.sub(r"^example = .*\n", "", declaration, flags=re.MULTILINE)
    lost = [str(each) for each in (Capability.EXACT, Capability.VB) if program.can(each)]
    return {target: text, target.with_suffix(".toml"): declaration}, lost


@click.command("compile")
@click.argument("program", metavar="PROGRAM.stan", type=PATH)
@click.option("-o", "--output", "--out", type=PATH, help="Copy the executable to this path.")
@inputs("include_paths", "cmdstan")
def compile_command(
    program: Path, output: Path | None, include_paths: tuple[str, ...] | None, cmdstan: str | None
) -> None:
    """Compile a Stan program into an executable.

    The command prints the path of the executable in the cache or, with -o, the path of the copy.
    Without -o, nothing is written next to the program.

      pyflowers compile mymodel.stan -o mymodel
    """
    from pyflowers.toolchain import compile_source, find_cmdstan

    source = read_source(program, include_paths or ())
    target = output
    if target is not None:
        if target.is_dir():
            target /= source.safe_name
        if not target.parent.is_dir():
            raise ConfigError(
                f"-o {output} cannot be written, because there is no folder "
                f"{target.parent}; create it first"
            )
        check_file(target, EXECUTABLE)
    executable = compile_source(source, cmdstan=find_cmdstan(cmdstan)).path
    if target is not None:
        with new_file(target, EXECUTABLE) as new:
            shutil.copy2(executable, new)
        executable = target
    say_json({"executable": str(executable)})
    say(str(executable))


def _is_executable(path: Path) -> bool:
    """Whether a file is a compiled Stan program, judged without running it."""
    with path.open("rb") as file:
        content = file.read(MOST_BYTES)
    return content.startswith(_MAGIC) and b"stan_version_major" in content


MOST_BYTES = 200 * 1024**2
_MAGIC = (b"\x7fELF", b"\xcf\xfa\xed\xfe", b"\xca\xfe\xba\xbe", b"MZ")
"""The first bytes of executables on Linux, macOS and Windows."""

EXECUTABLE = FileKind("executable", _is_executable)
