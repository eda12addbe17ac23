"""The calibrations behind ``scripts/calibration``: figures, tables and digests for the docs.

Each of three programs is calibrated with each engine, for the lecture's design and under proper
priors. The folder of results holds the fits, so that a stopped run can be resumed.

Usage: ``calibrations.py [--sims N] [--workers N] [--results DIR] [ENGINE...]``
"""

from __future__ import annotations

import argparse
import hashlib
import platform
import subprocess
from pathlib import Path

import pandas as pd

import pyflowers
from pyflowers.analysis.calibration import Calibration
from pyflowers.plots import calibration as figure_of

NORMAL: dict[str, float] = {"mu_mean": 5, "mu_sd": 2, "sigma2_nu": 6}
PRIORS: dict[str, dict[str, float]] = {
    "iid_normal": NORMAL,
    "multilevel_normal": {**NORMAL, "sigma2_plant_nu": 6, "sigma2_plant_scale": 2},
    "multilevel_poisson": {"mu_mean": 1.5, "mu_sd": 0.5, "sigma2_nu": 6, "sigma2_scale": 0.5},
}
ENGINES = ("stanli", "cmdstan")
OPTIONS = {"adapt_delta": 0.95}
SEED = 1
DPI = 110

DOCS = Path(__file__).resolve().parents[1] / "docs"
FOLDER = DOCS / "calibration"
RUNS = FOLDER / "runs.csv"
BEGIN, END = "<!-- begin: scripts/calibration -->\n", "<!-- end -->\n"


def main() -> None:
    """Run the requested calibrations, then write the page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("engines", nargs="*", metavar="ENGINE", help=f"any of {', '.join(ENGINES)}")
    parser.add_argument("--sims", type=int, default=1000)
    parser.add_argument("--workers", type=int)
    parser.add_argument("--results", type=Path, default=Path("results/calibration"))
    given = parser.parse_args()
    made_at = commit()
    for engine in given.engines or ENGINES:
        for name in PRIORS:
            out = given.results / f"{engine}-{name}"
            note(engine, calibrated(name, engine, given.sims, given.workers, out), made_at)
            write_page()


def calibrated(name: str, engine: str, sims: int, workers: int | None, out: Path) -> Calibration:
    """Calibrate one program with one engine."""
    return pyflowers.sbc(
        name,
        out=out,
        sims=sims,
        seed=SEED,
        priors=PRIORS[name],
        options=OPTIONS,
        engine=engine,
        cmdstan="embedded" if engine == "cmdstan" else None,
        workers=workers,
    )


def digest(found: Calibration) -> str:
    """Return the SHA-256 of the lines ``task,quantity,rank`` of all ranks, in the batch's order."""
    rows = found.ranks[["task", "parameter", "rank"]]
    text = "".join(f"{task},{name},{rank}\n" for task, name, rank in rows.itertuples(index=False))
    return hashlib.sha256(text.encode()).hexdigest()


def commit() -> str:
    """Return the current commit, with a mark if files differ from it."""
    words = ["git", "describe", "--always", "--dirty", "--exclude=*"]
    done = subprocess.run(words, cwd=DOCS, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def note(engine: str, found: Calibration, made_at: str) -> None:
    """Write the figure and the table of one calibration, and its row in the list of all."""
    FOLDER.mkdir(exist_ok=True)
    stem = f"{found.name}-{engine}"
    table = found.table()
    table.to_csv(FOLDER / f"{stem}.csv", float_format="%.4g")
    figure_of(found).savefig(FOLDER / f"{stem}.png", dpi=DPI)
    ledger = found.batch.ledger()
    worst = str(table["p_value"].idxmin())
    row = {
        "program": found.name,
        "engine": engine,
        "fits": found.num_fits,
        "failed": len(found.batch.failures),
        "doubtful": found.num_doubtful,
        "quantities": len(table),
        "outside": len(found.failed),
        "smallest_p": f"{table['p_value'].min():.3g}",
        "of": worst,
        "seconds": f"{ledger['seconds'].sum():.0f}",
        "machine": platform.machine(),
        "commit": made_at,
        "sha256": digest(found),
    }
    runs = pd.read_csv(RUNS, dtype=str) if RUNS.exists() else pd.DataFrame(columns=list(row))
    others = runs[(runs["program"] != found.name) | (runs["engine"] != engine)]
    runs = pd.concat([others, pd.DataFrame([row]).astype(str)], ignore_index=True)
    runs.sort_values(["program", "engine"]).to_csv(RUNS, index=False)
    print(f"{found.name}, {engine}: {found}")


def write_page() -> None:
    """Write the results into the page, between its marks."""
    page = DOCS / "calibration.md"
    text = page.read_text(encoding="utf-8")
    before, rest = text.split(BEGIN)
    after = rest.split(END)[1]
    page.write_text(before + BEGIN + generated() + END + after, encoding="utf-8")


def generated() -> str:
    """Return the tables, the digests and the figures as Markdown."""
    runs = pd.read_csv(RUNS, dtype=str)
    lines = [
        "| program | engine | fits | failed | doubtful | outside the band | smallest p |",
        "|---|---|--:|--:|--:|--:|---|",
        *(
            f"| {r.program} | {r.engine} | {r.fits} | {r.failed} | {r.doubtful} "
            f"| {r.outside} of {r.quantities} | {r.smallest_p} ({r.of}) |"
            for r in runs.itertuples()
        ),
        "",
        "SHA-256 of the ranks:",
        "",
        "```text",
        *(
            f"{r.sha256}  {r.program}, {r.engine}, {r.machine}, {r.commit}"
            for r in runs.itertuples()
        ),
        "```",
    ]
    for run in runs.itertuples():
        stem = f"{run.program}-{run.engine}"
        lines += ["", f"![Ranks of {run.program} by {run.engine}](calibration/{stem}.png)"]
        lines += ["", f"[Every quantity of {run.program} by {run.engine}](calibration/{stem}.csv)"]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
