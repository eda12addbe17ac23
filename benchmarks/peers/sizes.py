"""The data of the race: counts of flowers in five sizes, and regressions.

The flowers are the lecture's table and simulated larger ones. Their data file is JSON with
``num_plants``, and ``plant`` (from 1) and ``y`` of each observation, plant by plant. The file of a
regression has ``formula``, ``family`` and ``frame``, the columns; categories are strings. It has
``bambi`` if Bambi needs another formula, and ``at``, covariates, if a curve is compared at these.
Every runner, in Python and in R, reads these files.
"""

from __future__ import annotations

import json
import re
import subprocess
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

ROOT = Path(__file__).resolve().parents[2]
SEED = 1


@dataclass(frozen=True)
class Size:
    """The numbers of plants and months."""

    num_plants: int
    num_months: int

    @property
    def key(self) -> str:
        """Name of its files, such as ``200x48``."""
        return f"{self.num_plants}x{self.num_months}"

    @property
    def label(self) -> str:
        """The label on a page, such as ``1,000 × 100``."""
        return f"{self.num_plants:,} × {self.num_months:,}"

    @property
    def num_rows(self) -> int:
        """Number of observations."""
        return self.num_plants * self.num_months

    @classmethod
    def of(cls, key: str) -> Size:
        """Parse a key.

        Raises
        ------
        ValueError
            If it is not two positive numbers with an x between them.
        """
        plants, cross, months = key.partition("x")
        if not (cross and plants.isdecimal() and months.isdecimal() and int(plants) * int(months)):
            raise ValueError(f"a size must be PLANTSxMONTHS, such as 200x48, got {key!r}")
        return cls(int(plants), int(months))


@dataclass(frozen=True)
class Regression:
    """A formula that every package reads, and its data.

    Attributes
    ----------
    key : str
        Name of the data set, and of its files.
    num_rows : int
        Number of observations.
    formula : str
        The formula, in the notation of brms; formulas of other parameters follow after semicolons.
    family : str
        The family, by its name in pyflowers and brms.
    factors : tuple of str
        Columns of numbers that are categories.
    bambi : str
        Bambi's formula of the same model, if its notation differs.
    source : str
        R code of the data in one of its packages, if they are in no file of this repository.
    curve : str
        The covariate of a smooth, whose fitted curve is compared instead of coefficients.
    reference : str
        The estimates with which all posteriors are compared.
    """

    key: str
    num_rows: int
    formula: str
    family: str
    factors: tuple[str, ...] = ()
    bambi: str = ""
    source: str = ""
    curve: str = ""
    reference: str = "coefficients, by glmmTMB"

    @property
    def label(self) -> str:
        """The label on a page, such as ``sleepstudy``."""
        return self.key


Table = Size | Regression
LECTURE = Size(3, 4)
SIZES = (LECTURE, Size(200, 48), Size(1_000, 100), Size(10_000, 20), Size(100_000, 48))


REGRESSIONS = (
    Regression(
        *("schools", 8, "effect | se(error) ~ 1 + (1 | school)", "gaussian"),
        bambi="effect ~ 1 + (1 | school); sigma ~ 0 + offset(log(error))",
    ),
    Regression(
        *("cbpp", 56, "incidence | trials(size) ~ period + (1 | herd)", "beta_binomial"),
        factors=("period", "herd"),
        bambi="p(incidence, size) ~ period + (1 | herd)",
    ),
    Regression(
        *("cbpp-binomial", 56, "incidence | trials(size) ~ period + (1 | herd)", "binomial"),
        factors=("period", "herd"),
        bambi="p(incidence, size) ~ period + (1 | herd)",
        source="lme4::cbpp",
    ),
    Regression(
        *("Pastes", 60, "strength ~ 1 + (1 | batch) + (1 | sample)", "gaussian"),
        source="lme4::Pastes",
    ),
    Regression(
        *("kidney", 76, "time | cens(censored) ~ age * sex + (1 | patient)", "weibull"),
        factors=("patient",),
        bambi="censored(time, status) ~ age * sex + (1 | patient)",
        reference="coefficients, by maximum likelihood with quadrature",
    ),
    Regression(
        *("Orthodont", 108, "distance ~ age * Sex + (1 | Subject); sigma ~ Sex", "gaussian"),
    ),
    Regression(
        *("mcycle", 133, 'accel ~ s(times, bs = "cr")', "gaussian"),
        curve="times",
        reference="the curve at nine times, by mgcv",
    ),
    Regression(
        *("Penicillin", 144, "diameter ~ 1 + (1 | plate) + (1 | sample)", "gaussian"),
        source="lme4::Penicillin",
    ),
    Regression("sleepstudy", 180, "Reaction ~ Days + (Days | Subject)", "gaussian", ("Subject",)),
    Regression(
        *("bacteria", 220, "infected ~ trt + week + (1 | ID)", "bernoulli"),
        source='transform(MASS::bacteria, infected = as.integer(y == "y"))',
    ),
    Regression(
        *("epilepsy", 236, "count ~ zAge + zBase * Trt + (1 | patient)", "poisson"),
        ("Trt", "patient"),
    ),
    Regression(
        *("grouseticks", 403, "TICKS ~ YEAR + cHEIGHT + (1 | BROOD) + (1 | LOCATION)"),
        *("negbinomial", ("YEAR", "BROOD", "LOCATION")),
    ),
    Regression(
        *("inhaler", 572, "rating ~ treat + period + carry + (1 | subject)", "sratio"),
        factors=("subject",),
        reference="thresholds and coefficients, by lme4 as logistic regressions, with quadrature",
    ),
    Regression(
        *("Owls", 599),
        "SiblingNegotiation ~ (FoodTreatment + ArrivalTime) * SexParent + offset(log(BroodSize))"
        " + (1 | Nest); zi ~ 1",
        "zero_inflated_poisson",
        bambi="SiblingNegotiation ~ (FoodTreatment + ArrivalTime) * SexParent"
        " + offset(log(BroodSize)) + (1 | Nest); psi ~ 1",
        source="glmmTMB::Owls",
    ),
    Regression(
        *("InstEval", 73_421, "y ~ service + (1 | s) + (1 | d) + (1 | dept)", "gaussian"),
        ("service", "s", "d", "dept"),
        source="lme4::InstEval",
    ),
)
"""Studies from the manuals of lme4, brms, glmmTMB and MASS; the last has three crossed factors with
2,972, 1,128 and 14 groups."""

TABLES: tuple[Table, ...] = (*SIZES, *REGRESSIONS)

PUBLISHED = ROOT / "tests" / "programs" / "formulas" / "data"
"""The data sets as distributed with R's packages; the others are read from these packages."""

SCHOOLS = {
    "school": list("ABCDEFGH"),
    "effect": [28, 8, -3, 7, -1, 1, 18, 12],
    "error": [15, 10, 16, 11, 9, 11, 10, 18],
}
"""Effects of coaching in eight schools, with standard errors: Rubin (1981), J. Educ. Stat. 6(4)."""

NUM_POINTS = 9
"""Points at which a curve is compared, from the smallest to the largest value of its covariate."""


def table_of(key: str) -> Table:
    """Return the table with a key.

    Raises
    ------
    ValueError
        If it is neither a regression nor a size.
    """
    return next((found for found in REGRESSIONS if found.key == key), None) or Size.of(key)


def columns(regression: Regression) -> dict[str, list[object]]:
    """Return the columns of a regression's data that its formulas name."""
    frame = read(regression)
    if "censored" in frame:
        # Bambi knows kinds of censoring by these words.
        frame["status"] = np.where(frame["censored"] == 1, "right", "none")
    formulas = f"{regression.formula} {regression.bambi}"
    named = [name for name in frame if re.search(rf"\b{name}\b", formulas)]
    frame = frame[named].astype(dict.fromkeys(regression.factors, str))
    return {str(name): frame[name].tolist() for name in frame}


def read(regression: Regression) -> pd.DataFrame:
    """Read the data of a regression."""
    if regression.key == "schools":
        return pd.DataFrame(SCHOOLS)
    if not regression.source:
        return pd.read_csv(PUBLISHED / f"{regression.key}.csv")
    code = f"write.csv({regression.source}, row.names = FALSE)"
    done = subprocess.run(["Rscript", "-e", code], capture_output=True, check=True)
    return pd.read_csv(BytesIO(done.stdout))


def contents(regression: Regression) -> dict[str, Any]:
    """Return the contents of a regression's data file."""
    frame = columns(regression)
    block: dict[str, Any] = {
        "formula": regression.formula,
        "family": regression.family,
        "frame": frame,
    }
    if regression.bambi:
        block["bambi"] = regression.bambi
    if regression.curve:
        values = np.asarray(frame[regression.curve], dtype=float)
        points = np.linspace(values.min(), values.max(), NUM_POINTS)
        block["at"] = {regression.curve: points.tolist()}
    return block


def counts(size: Size) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the plant, from 0, and the flowers of each observation.

    The larger tables are the same as in benchmarks/benchmarks.py: log rates N(1.5, 0.8²), seed 1.
    """
    if size == LECTURE:
        frame = pd.read_csv(ROOT / "data" / "flowers.csv")
        return frame["plant"].to_numpy() - 1, frame["flowers"].to_numpy()
    rng = np.random.default_rng(SEED)
    rate = np.exp(rng.normal(1.5, 0.8, size.num_plants))
    plant = np.repeat(np.arange(size.num_plants), size.num_months)
    return plant, rng.poisson(rate[plant])


def data_file(table: Table, folder: Path) -> Path:
    """Return the data file of a table, which is written if it does not exist."""
    path = folder / f"{table.key}.json"
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        block: dict[str, Any]
        if isinstance(table, Size):
            plant, y = counts(table)
            block = {"num_plants": table.num_plants, "plant": (plant + 1).tolist(), "y": y.tolist()}
        else:
            block = contents(table)
        unfinished = path.with_suffix(".unfinished")
        unfinished.write_text(json.dumps(block), encoding="utf-8")
        unfinished.replace(path)
    return path
