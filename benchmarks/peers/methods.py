"""The methods of the race: for each, its runner, its environment, and how it differs.

All differences between methods are declared here, and no other file in this folder depends on which
method it handles.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from benchmarks.peers.sizes import Regression, Table

HERE = Path(__file__).resolve().parent
ENVIRONMENTS = HERE / ".environments"
RUNNERS = HERE / "runners"
PACKAGE = "benchmarks.peers.runners"

Family = Literal["pyflowers", "peer", "estimate"]
"""``estimate`` is maximum likelihood, an answer without a posterior."""


@dataclass(frozen=True)
class Method:
    """One way to compute the posterior.

    Attributes
    ----------
    key : str
        Name of its files and on the command line.
    label : str
        Name in the table and the figure.
    family : str
        ``pyflowers``, ``peer`` or ``estimate``.
    runner : str
        A Python module of the folder runners, or a script there whose name ends in ``.R``.
    option : str
        The option that is passed to the runner, if several methods share it.
    environment : str
        The folder in ``.environments`` whose Python runs it; if empty, pyflowers' own Python.
    about : str
        Its parametrisation, settings and priors, if they differ from the other methods.
    regresses : bool
        Whether it fits the regressions instead of the counts of flowers.
    without : mapping of str to str
        The keys of the tables that it does not fit, with the reasons.
    """

    key: str
    label: str
    family: Family
    runner: str
    option: str = ""
    environment: str = ""
    about: str = ""
    regresses: bool = False
    without: Mapping[str, str] = field(default_factory=dict)

    def fits(self, table: Table) -> bool:
        """Whether it takes part in the race on a table."""
        is_of_its_kind = self.regresses == isinstance(table, Regression)
        return is_of_its_kind and table.key not in self.without

    @property
    def is_r(self) -> bool:
        """Whether R runs it."""
        return self.runner.endswith(".R")

    @property
    def interpreter(self) -> str:
        """The program that runs it."""
        if self.is_r:
            return "Rscript"
        if self.environment:
            return str(ENVIRONMENTS / self.environment / "bin" / "python")
        return sys.executable

    def command(self, arguments: Mapping[str, object]) -> list[str]:
        """Return the command of one run."""
        if self.is_r:
            words = [self.interpreter, "--no-save", "--no-restore", str(RUNNERS / self.runner)]
        else:
            words = [self.interpreter, "-W", "ignore", "-m", f"{PACKAGE}.{self.runner}"]
        options = dict(arguments) | ({"option": self.option} if self.option else {})
        return [*words, *(word for k, v in options.items() for word in (f"--{k}", str(v)))]


def cold(scratch: Path) -> dict[str, str]:
    """Return an environment without anything that these packages have compiled.

    Parameters
    ----------
    scratch : Path
        An empty folder, for their caches.
    """
    flags = f"base_compiledir={scratch / 'pytensor'}"
    changed = {
        "NUMBA_CACHE_DIR": str(scratch / "numba"),
        "PYFLOWERS_CACHE": str(pyflowers_cache(scratch)),
        "PYTENSOR_FLAGS": flags,
        "RUNNERS": str(RUNNERS),
        "TMPDIR": str(scratch),
        # matplotlib's list of fonts, built once per installation, is not part of any model.
        "MPLCONFIGDIR": str(ENVIRONMENTS / "matplotlib"),
    }
    dropped = ("JAX_COMPILATION_CACHE_DIR", "CMDSTAN", "OMP_NUM_THREADS")
    kept = {name: value for name, value in os.environ.items() if name not in dropped}
    return kept | changed


def pyflowers_cache(scratch: Path) -> Path:
    """Return a cache of pyflowers with an installed CmdStan and no programs."""
    from pyflowers.toolchain import find_cmdstan
    from pyflowers.toolchain.cache import cache_dir

    find_cmdstan("embedded")  # builds it if it does not exist
    folder = scratch / "pyflowers"
    folder.mkdir()
    for part in ("cmdstan-*", "stan-*"):
        for found in cache_dir().glob(part):
            if found.is_dir():
                (folder / found.name).symlink_to(found)
    return folder


NO_SMOOTH = {"mcycle": "Bambi has no penalised smooths; its hsgp() would be another model"}
"""What Bambi cannot fit, with the reason."""

METHODS = (
    Method(
        *("pyflowers-exact", "pyflowers, exact", "pyflowers", "run_pyflowers", "exact"),
        about="independent draws, no warm-up; all plants are summarised, but their draws are not "
        "kept if there are more than 50 million",
    ),
    Method(
        *("pyflowers-stanli", "pyflowers, stanli", "pyflowers", "run_pyflowers", "stanli"),
        about="interprets the Stan program; parametrisation chosen from the data, adapt_delta 0.9",
    ),
    Method(
        *("pyflowers-pilot", "pyflowers, stanli, pilot", "pyflowers", "run_pyflowers", "pilot"),
        about="the same with the metric of pilot runs; adapt_delta 0.8, as for most peers",
    ),
    Method(
        *("pyflowers-cmdstan", "pyflowers, cmdstan", "pyflowers", "run_pyflowers", "cmdstan"),
        about="compiles the program with a CmdStan that is already installed; otherwise as with "
        "stanli",
    ),
    Method(
        *("lecture", "CmdStan, lecture's loops", "peer", "run_pyflowers", "lecture"),
        about="the lecture's program, which loops over observations, with centred rates; compiled "
        "and run by pyflowers' engine, with CmdStan's own adapt_delta of 0.8",
    ),
    Method(
        *("pymc", "PyMC", "peer", "run_pymc"),
        environment="pymc",
        about="centred log rates; its own NUTS, target_accept 0.8, without its convergence checks",
    ),
    Method(
        *("nutpie", "nutpie", "peer", "run_pymc", "nutpie"),
        environment="nutpie",
        about="PyMC's model, compiled by Numba; target_accept 0.8",
    ),
    Method(
        *("nutpie-totals", "nutpie, by totals", "peer", "run_pymc", "nutpie-totals"),
        environment="nutpie",
        about="the same, with each plant's counts summed by the user; pyflowers sums them itself",
    ),
    Method(
        *("numpyro", "NumPyro", "peer", "run_numpyro"),
        environment="numpyro",
        about="centred log rates; double precision, chains in parallel, target_accept_prob 0.8",
    ),
    Method(
        *("numpyro-totals", "NumPyro, by totals", "peer", "run_numpyro", "totals"),
        environment="numpyro",
        about="the same, with each plant's counts summed by the user; pyflowers sums them itself",
    ),
    Method(
        *("brms", "brms, rstan", "peer", "run_brms.R"),
        about="always non-centred; the prior on sigma2 is set by set_prior, with a change of "
        "variables",
    ),
    Method(
        *("rstanarm", "rstanarm", "peer", "run_rstanarm.R"),
        about="always non-centred; compiled when it was packaged; cannot express the prior on "
        "sigma2, so its default is used, sd ~ Exponential(1); adapt_delta 0.95, its default",
    ),
    Method(
        *("glmmtmb", "glmmTMB", "estimate", "run_glmmtmb.R"),
        about="maximum likelihood by Laplace's approximation: no priors, no draws",
    ),
    Method(
        *("lme4", "lme4", "estimate", "run_lme4.R"),
        about="maximum likelihood by Laplace's approximation: no priors, no draws",
    ),
    Method(
        *("formula-exact", "formula, exact", "pyflowers", "run_formula", "exact"),
        about="draws from weighted points, without a Markov chain",
        regresses=True,
        without={"grouseticks": "two grouping factors and a response that is not normal"},
    ),
    Method(
        *("formula-stanli", "formula, stanli", "pyflowers", "run_formula", "stanli"),
        about="writes and interprets a Stan program; group effects centred or non-centred, "
        "depending on the data; adapt_delta 0.9",
        regresses=True,
    ),
    Method(
        *("formula-cmdstan", "formula, cmdstan", "pyflowers", "run_formula", "cmdstan"),
        about="the same program, compiled by a CmdStan that is already installed",
        regresses=True,
    ),
    Method(
        *("formula-brms", "brms", "peer", "run_formula_brms.R"),
        about="rstan; group effects always non-centred; for kidney, all chains start at 0, because "
        "some never leave a random start",
        regresses=True,
    ),
    Method(
        *("formula-bambi", "Bambi", "peer", "run_bambi"),
        environment="bambi",
        about="PyMC's NUTS, without its convergence checks; group effects always non-centred, "
        "and without correlations between the effects of a group; its default prior on each "
        "threshold of inhaler, N(0, 1), is narrow; for kidney, all chains start at the same point, "
        "because they fail from random ones",
        regresses=True,
        without=NO_SMOOTH,
    ),
    Method(
        *("formula-nutpie", "Bambi, nutpie", "peer", "run_bambi", "nutpie"),
        environment="bambi",
        about="the same model, sampled by nutpie with Numba",
        regresses=True,
        without=NO_SMOOTH,
    ),
)

NOT_RACED = {
    "brms, cmdstanr": "cmdstanr is neither in Debian nor on the package index that this project "
    "can reach; it comes from a separate repository",
}
"""Requested methods that are not available, with the reason."""


def chosen(keys: list[str]) -> list[Method]:
    """Return methods by key, or all methods if there are no keys.

    Raises
    ------
    ValueError
        If there is no method with a key.
    """
    known = {method.key: method for method in METHODS}
    for key in keys:
        if key not in known:
            raise ValueError(f"no method is named {key!r}; choose one of {', '.join(known)}")
    return [known[key] for key in keys] if keys else list(METHODS)
