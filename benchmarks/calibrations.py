"""The calibrations behind ``scripts/calibration``: figures, tables and digests for the docs.

Each of three shipped programs is calibrated with each engine, for the lecture's design and under
proper priors. The programs of formulas, one for each family, are calibrated with the interpreter.
The folder of results holds the fits, so that a stopped run can be resumed.

Usage: ``calibrations.py [--sims N] [--workers N] [--results DIR] [ENGINE... | formulas]``
"""

from __future__ import annotations

import argparse
import hashlib
import platform
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
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
OPTIONS: dict[str, Any] = {"adapt_delta": 0.95}

SHAPE: dict[str, float] = {"shape_alpha": 5, "shape_beta": 10}
ZEROS: dict[str, float] = {"zi_alpha": 2, "zi_beta": 4}
HURDLE: dict[str, float] = {"hu_alpha": 2, "hu_beta": 4}
PHI: dict[str, float] = {"phi_alpha": 8, "phi_beta": 0.8}


def _of_categories(*names: str) -> dict[str, float]:
    """Return the priors of the linear predictors of categories."""
    found = dict[str, float]()
    for name in names:
        found |= {f"Intercept_mu{name}_scale": 0.5, f"b_mu{name}_scale[x]": 0.5}
        found[f"sd_g_mu{name}_scale"] = 0.2
    return found


FAMILIES: dict[str, dict[str, float]] = {
    "gaussian": {"sigma_scale": 1},
    "student": {"sigma_scale": 1},
    "lognormal": {"sigma_scale": 0.3},
    "gamma": SHAPE,
    "beta": PHI,
    "bernoulli": {},
    "binomial": {},
    "poisson": {},
    "negbinomial": SHAPE,
    "zero_inflated_poisson": ZEROS,
    "zero_inflated_negbinomial": {**SHAPE, **ZEROS},
    "cumulative": {"threshold_scale": 1},
    "acat": {"threshold_scale": 1},
    "asym_laplace": {"sigma_scale": 1, "quantile": 0.3},
    "beta_binomial": PHI,
    "exgaussian": {"sigma_scale": 1, "beta_scale": 1},
    "exponential": {},
    "geometric": {},
    "hurdle_gamma": {**SHAPE, **HURDLE},
    "hurdle_lognormal": {"sigma_scale": 0.3, **HURDLE},
    "hurdle_negbinomial": {**SHAPE, **HURDLE},
    "hurdle_poisson": HURDLE,
    "inverse_gaussian": {"shape_alpha": 5, "shape_beta": 20},
    "ordered_beta": {**PHI, "cutzero_scale": 0.5, "cutone_scale": 0.2},
    "shifted_lognormal": {"sigma_scale": 0.3, "ndt_scale": 1},
    "skew_normal": {"sigma_scale": 1, "alpha_scale": 2},
    "sratio": {"threshold_scale": 1},
    "von_mises": {"kappa_rate": 0.3},
    "weibull": {"shape_location": 0.5, "shape_scale": 0.3},
    "categorical": _of_categories("2", "3", "4"),
    "multinomial": _of_categories("bit", "few"),
    "zero_inflated_beta": {**PHI, **ZEROS},
    "zero_inflated_binomial": ZEROS,
}
"""The families, and priors of their parameters under which simulated responses can be fitted."""

EFFECTS = {"b_scale[x]": 0.5, "sd_g_scale": 0.2}
ORDINAL = ("cumulative", "sratio", "acat")
INTERCEPT = {"Intercept_location": 1, "Intercept_scale": 0.2}
RESPONSES = {
    **dict.fromkeys(["beta", "zero_inflated_beta", "ordered_beta", "von_mises"], "share"),
    **dict.fromkeys(["binomial", "beta_binomial", "zero_inflated_binomial"], "y | trials(8)"),
    "bernoulli": "bit",
    "multinomial": "cbind(y, bit, few)",
}
OF_FORMULAS = {**OPTIONS, "chains": 2, "warmup": 500, "draws": 500}
SIMS_OF_FORMULAS = 300
SEED = 1
DPI = 110

DOCS = Path(__file__).resolve().parents[1] / "docs"
FOLDER = DOCS / "calibration"
RUNS, FORMULAS = FOLDER / "runs.csv", FOLDER / "formulas.csv"
BEGIN, END = "<!-- begin: scripts/calibration -->\n", "<!-- end -->\n"


def main() -> None:
    """Run the requested calibrations, then write the page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "engines", nargs="*", metavar="ENGINE", help=f"any of {', '.join(ENGINES)}, formulas"
    )
    parser.add_argument("--sims", type=int)
    parser.add_argument("--workers", type=int)
    parser.add_argument("--results", type=Path, default=Path("results/calibration"))
    given = parser.parse_args()
    made_at = commit()
    for engine in given.engines or (*ENGINES, "formulas"):
        for name in FAMILIES if engine == "formulas" else PRIORS:
            out = given.results / f"{engine}-{name}"
            if engine == "formulas":
                found = of_family(name, given.sims or SIMS_OF_FORMULAS, given.workers, out)
                note(FORMULAS, "stanli", found, made_at, family=name)
            else:
                found = calibrated(name, engine, given.sims or 1000, given.workers, out)
                draw(engine, found)
                note(RUNS, engine, found, made_at)
            print(f"{name}, {engine}: {found}")
            write_page()


def of_family(name: str, sims: int, workers: int | None, out: Path) -> Calibration:
    """Calibrate a formula of a family, with group effects (correlated ones for gaussian)."""
    rng = np.random.default_rng(1)
    frame = pd.DataFrame({"x": rng.normal(size=60), "g": np.repeat(list("abcdefghij"), 6)})
    frame["y"] = rng.integers(1, 5, 60)
    frame["bit"], frame["share"], frame["few"] = frame["y"] % 2, frame["y"] / 6, 4 - frame["y"]
    group = "(x | g)" if name == "gaussian" else "(1 | g)"
    formula = f"{RESPONSES.get(name, 'y')} ~ x + {group}"
    return pyflowers.sbc(
        pyflowers.Program.from_formula(formula, frame, family=name),
        frame,
        out=out,
        sims=sims,
        seed=SEED,
        priors={**_of_predictor(name), **FAMILIES[name]},
        **OF_FORMULAS,
        engine="stanli",
        workers=workers,
    )


def _of_predictor(name: str) -> dict[str, float]:
    """Return the priors of the linear predictor; categories have several."""
    if name in ("categorical", "multinomial"):
        return {}
    return EFFECTS if name in ORDINAL else {**EFFECTS, **INTERCEPT}


def calibrated(name: str, engine: str, sims: int, workers: int | None, out: Path) -> Calibration:
    """Calibrate one program with one engine."""
    return pyflowers.sbc(
        name,
        out=out,
        sims=sims,
        seed=SEED,
        priors=PRIORS[name],
        **OPTIONS,
        engine=engine,
        cmdstan="embedded" if engine == "cmdstan" else None,
        workers=workers,
    )


def digest(found: Calibration) -> str:
    """Return the SHA-256 of lines ``task,parameter,rank`` of all ranks, in the batch's order."""
    rows = found.ranks[["task", "parameter", "rank"]]
    text = "".join(f"{task},{name},{rank}\n" for task, name, rank in rows.itertuples(index=False))
    return hashlib.sha256(text.encode()).hexdigest()


def commit() -> str:
    """Return the current commit, with a mark if files differ from it."""
    words = ["git", "describe", "--always", "--dirty", "--exclude=*"]
    done = subprocess.run(words, cwd=DOCS, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def draw(engine: str, found: Calibration) -> None:
    """Write the figure and the table of one calibration."""
    FOLDER.mkdir(exist_ok=True)
    stem = f"{found.name}-{engine}"
    found.table().to_csv(FOLDER / f"{stem}.csv", float_format="%.4g")
    figure_of(found).savefig(FOLDER / f"{stem}.png", dpi=DPI)


def note(path: Path, engine: str, found: Calibration, made_at: str, family: str = "") -> None:
    """Write one calibration as a row of the file that lists the calibrations."""
    table, ledger = found.table(), found.batch.ledger()
    worst = str(table["p_value"].idxmin())
    row = {
        "program": family or found.name,
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
    runs = pd.read_csv(path, dtype=str) if path.exists() else pd.DataFrame(columns=list(row))
    others = runs[(runs["program"] != row["program"]) | (runs["engine"] != engine)]
    runs = pd.concat([others, pd.DataFrame([row]).astype(str)], ignore_index=True)
    runs.sort_values(["program", "engine"]).to_csv(path, index=False)


def write_page() -> None:
    """Write the results into the page, between its markers."""
    page = DOCS / "calibration.md"
    text = page.read_text(encoding="utf-8")
    before, rest = text.split(BEGIN)
    after = rest.split(END)[1]
    page.write_text(before + BEGIN + generated() + END + after, encoding="utf-8")


def generated() -> str:
    """Return the tables, the digests and the figures as Markdown."""
    runs = pd.read_csv(RUNS, dtype=str)
    lines = rows_of(runs)
    if FORMULAS.exists():
        lines += [
            *("", "## Programs of formulas", ""),
            "For each family, the program of the formula `y ~ x + (1 | g)`, or `y ~ x + (x | g)` "
            "for gaussian,",
            f"is calibrated with 10 groups of 6 rows and {OF_FORMULAS['chains']} chains of "
            f"{OF_FORMULAS['draws']} draws. The priors, under which",
            "the simulated responses can be fitted, are in `benchmarks/calibrations.py`.",
            *("", *rows_of(pd.read_csv(FORMULAS, dtype=str)), "", "## Figures"),
        ]
    for run in runs.itertuples():
        stem = f"{run.program}-{run.engine}"
        about = f"{run.program}, fitted with {run.engine}"
        lines += ["", f"![Ranks of {about}](calibration/{stem}.png)"]
        lines += ["", f"[Ranks of every quantity of {about} (CSV)](calibration/{stem}.csv)"]
    return "\n".join(lines) + "\n"


def rows_of(runs: pd.DataFrame) -> list[str]:
    """Return the table of a list of calibrations, and their digests."""
    return [
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


if __name__ == "__main__":
    main()
