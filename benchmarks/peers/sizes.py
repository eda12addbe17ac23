"""The data of the race: the lecture's table, and simulated tables of four larger sizes.

A data file is JSON with ``num_plants``, and ``plant`` (from 1) and ``y`` of each observation,
plant by plant: what every runner reads, in Python and in R.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

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


LECTURE = Size(3, 4)
SIZES = (LECTURE, Size(200, 48), Size(1_000, 100), Size(10_000, 20), Size(100_000, 48))


def counts(size: Size) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the plant, from 0, and the flowers of each observation.

    The larger tables are the same as in scripts/benchmarks.py: log rates N(1.5, 0.8²), seed 1.
    """
    if size == LECTURE:
        frame = pd.read_csv(ROOT / "data" / "flowers.csv")
        return frame["plant"].to_numpy() - 1, frame["flowers"].to_numpy()
    rng = np.random.default_rng(SEED)
    rate = np.exp(rng.normal(1.5, 0.8, size.num_plants))
    plant = np.repeat(np.arange(size.num_plants), size.num_months)
    return plant, rng.poisson(rate[plant])


def data_file(size: Size, folder: Path) -> Path:
    """Return the data file of a size, which is written if it does not exist."""
    path = folder / f"{size.key}.json"
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        plant, y = counts(size)
        block = {"num_plants": size.num_plants, "plant": (plant + 1).tolist(), "y": y.tolist()}
        unfinished = path.with_suffix(".unfinished")
        unfinished.write_text(json.dumps(block), encoding="utf-8")
        unfinished.replace(path)
    return path
