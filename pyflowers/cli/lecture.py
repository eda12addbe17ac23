"""``pyflowers lecture``: run one of the lectures' examples."""

from __future__ import annotations

import os
from pathlib import Path

import click

from pyflowers.cli.console import say, say_json
from pyflowers.cli.options import cmdstan_option
from pyflowers.display import styled


@click.command("lecture")
@click.argument("name", required=False)
@click.option("--list", "show_list", is_flag=True, help="List the examples and exit.")
@click.option("--out", type=click.Path(path_type=Path), help="Folder to write.")
@click.option("--seed", type=int, default=1, show_default=True, help="Seed, from 0 to 4294967295.")
@click.option("--quick", is_flag=True, help="Use smaller sizes, for faster and noisier findings.")
@cmdstan_option
def command(
    name: str | None,
    show_list: bool,
    out: Path | None,
    seed: int,
    quick: bool,
    cmdstan: str | None,
) -> None:
    """Run an example of the lectures.

    Writes its findings (findings.md), its numbers (results.json) and its figures into a folder.
    """
    # For the small matrices of an ascent, OpenBLAS's threads wait in a loop: 24 times its CPU time.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    from pyflowers.lectures import EXAMPLES, Settings, check_name, run_example
    from pyflowers.lectures.lecture import check_folder

    if show_list:
        say_json({"examples": EXAMPLES})
        width = max(map(len, EXAMPLES))
        for each, summary in EXAMPLES.items():
            say(f"{each:<{width}}  {summary}")
        return
    if name is None:
        raise click.UsageError("name an example, or see them all with --list")
    check_name(name)
    if out is None:
        raise click.UsageError("name the folder to write with --out DIR")
    settings = Settings(seed, quick, cmdstan)
    check_folder(out, name)
    lecture = run_example(name, settings)
    lecture.save(out)
    say_json({"title": lecture.title, "findings": lecture.findings, "folder": str(out)})
    say(styled(lecture.title, bold=True))
    for finding in lecture.findings:
        say(f"- {finding}")
    say(f"folder: {out}")
