"""Bad calls from Python, in addition to the bad command lines of bad_inputs.toml."""

import datetime
import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import pyflowers
from pyflowers import exact, plots, samplers, vb
from pyflowers.engines import find_engine
from pyflowers.toolchain import compile_program, find_cmdstan

MONTHS = list(itertools.product("abc", range(3), [4]))
FRAME = pd.DataFrame(MONTHS, columns=["plant", "month", "flowers"])
QUICK: dict[str, Any] = {"seed": 1, "chains": 1, "warmup": 20, "draws": 20, "engine": "stanli"}
PROGRAM = """
data { int<lower=0> N; array[N] real y; }
parameters { real mu; }
model { mu ~ normal(0, 10); y ~ normal(mu, 1); }
"""
ODD: tuple[Any, ...] = (3, 2.5, b"x", [1], (), {1}, object, len, 1j, True, np.arange(3))
NUMBERS = ("2", "x", -1, 0.5j, [1], {}, np.nan, 10**400, b"1", object())
PATHS = ("", "nope.csv", "/", "\0", "x" * 5000, "/etc/passwd", "a.json", "\udcff.csv")
COLUMNS = ("nope", "", 3, [], {}, "flowers\0", b"plant")

OPTIONS: dict[str, tuple[Any, ...]] = {
    **dict.fromkeys(("seed", "chains", "warmup", "draws", "thin", "max_treedepth"), NUMBERS),
    "adapt_delta": NUMBERS,
    "metric": ("diag", "", 3, ["diag_e"], {}, object()),
    "iterations": (3,),
    "cores": ("2", 0, -1, 1.5, True, np.nan, [2], "x", {}),
    "engine": ("x", 3, [], "CMDSTAN", object()),
    "priors": (
        *("mu_sd=1", [("mu_sd", 1)], 3, {"zzz": 1}, {3: 1}, {None: 1}, {("a",): 1}),
        *({"mu_sd": v} for v in ("1", None, np.nan, np.inf, -1, 0, [1], {}, 1j, True, b"1", "x")),
    ),
    "centered": (True, "x", 3, None.__class__, [1]),
    "include_paths": (3, [3], [None], "\0", ["\0"], {"a": 1}),
    "inits": (
        *({"zzz": 1}, [{"mu": 1}] * 2, np.inf, -1, *PATHS),
        *({"mu": v, "sigma2": 1} for v in (np.nan, "x", [1, 2], None)),
        {"mu": 1, "sigma2": -1},
        *({"mu": value} if isinstance(value, int | float) else value for value in ODD),
    ),
}
"""Invalid values for the options of a fit."""

BLOCKS: tuple[Any, ...] = (
    *({}, {"N": 3}, {"N": 3, "y": None}, {"N": 3, "y": "x"}, {"N": 3, "y": [1, 2]}),
    *({"N": -1, "y": []}, {"N": 3, "y": [1, "a", 2]}, {"N": 3, "y": [1, None, 3]}),
    *({"N": "x", "y": [1]}, {"N": 1.5, "y": [1]}, {"N": 10**30, "y": [1]}, {1: 2}),
    *({"N": 3, "y": [1j, 2, 3]}, {"N": 3, "y": [[1], [2], [3]]}, {"N": [3], "y": [1, 2, 3]}),
    *({"N": 2, "y": [[1], [2, 3]]}, {"N": 1, "y": [b"x"]}, {"N": 1, "y": [object()]}),
    *({"N": 1, "y": {"a": 1}}, {"N": 1, "y": [datetime.datetime(2024, 1, 1)]}),
)

CELLS: dict[str, Any] = {
    "complex numbers": FRAME["flowers"] * 1j,
    "times": pd.Timestamp("2024-01-01"),
    "durations": pd.Timedelta(1, "D"),
    "text": "x",
    "bytes": b"4",
    "lists": [[4]] * 9,
    "dicts": [{}] * 9,
    "None": None,
    "NaN": np.nan,
    "infinity": np.inf,
    "negative counts": -1,
    "fractions": 0.5,
    "huge counts": 2.0**40,
    "objects": [object()] * 9,
    "categories of text": pd.Categorical(["a"] * 9),
    "intervals": pd.interval_range(0, 9),
    "periods": pd.period_range("2024-01", periods=9, freq="M"),
    "sparse gaps": pd.arrays.SparseArray([np.nan] * 8 + [1.0]),
    "missing whole numbers": pd.array([None] * 9, dtype="Int64"),
    "huge whole numbers": [10**400] * 9,
    "frames": [FRAME] * 9,
}
"""Values that a column of counts cannot hold."""

FRAMES = {
    **{name: FRAME.assign(flowers=cells) for name, cells in CELLS.items()},
    **{
        f"{name!r} labels": FRAME.assign(plant=pd.Series([name] * 9, dtype=object))
        for name in (None, " ", "a\0", "\ud800", "a")
    },
    "repeated columns": FRAME.set_axis(["plant", "plant", "flowers"], axis=1),
    "a column of another name": FRAME.set_axis(["plant", "month", 3], axis=1),
    "no rows": FRAME.iloc[:0],
    "no columns": pd.DataFrame(index=range(3)),
    "levels of columns": pd.concat({"a": FRAME}, axis=1),
    "nothing": pd.DataFrame(),
}

Calls = Iterator[tuple[str, Callable[[], Any]]]


def calls(folder: Path, fit: pyflowers.Fit) -> Calls:
    """Yield a name and a call for each input that must be refused.

    Parameters
    ----------
    folder : Path
        A folder with programs and tables.
    fit : Fit
        A fit to pass to functions.
    """
    program, table = folder / "p.stan", folder / "t.csv"
    program.write_text(PROGRAM)
    FRAME.to_csv(table, index=False)
    for part in (_fits(program), _files(folder, table), _of_fits(fit, folder), _numbers()):
        yield from part


def each(name: str, function: Callable[..., Any], values: Any, **options: Any) -> Calls:
    """Yield a call of a function with each of several values."""
    for i, value in enumerate(values):
        yield f"{name} {i} {str(value)[:9]!r}", lambda v=value: function(v, **options)


def _fits(program: Path) -> Calls:
    def fit(*arguments: Any, **options: Any) -> Any:
        return pyflowers.fit(*arguments, **{**QUICK, **options})

    names = ("", " ", "nope", "iid-normal", "a.stan", "\0.stan", ".stan", "x" * 5000, "iid\n")
    yield from each("fit of", fit, (None, *ODD, *names))
    yield from each("data", lambda v: fit("iid_normal", v), (*ODD, *PATHS))
    yield from each("data block", lambda v: fit(program, v), BLOCKS)
    for name, values in OPTIONS.items():
        yield from each(name, lambda v, name=name: fit("iid_normal", FRAME, **{name: v}), values)
    centred = ("x", 3, None.__class__, [1])
    yield from each("a choice", lambda v: fit("multilevel_normal", FRAME, centered=v), centred)
    for role in ("group", "time", "value"):
        of_role = lambda v, role=role: fit("multilevel_poisson", FRAME, **{role: v})  # noqa: E731
        yield from each(role, of_role, COLUMNS)
    named = ("plant", 3, ["plant"], {"zzz": "plant"}, {"plant": "nope"}, {"plant": 3}, {3: "a"})
    yield from each("columns", lambda v: fit("multilevel_poisson", FRAME, columns=v), named)
    for value in (3, "/nowhere", "", "\0", [], b"x", {}):
        how = {"engine": "cmdstan", "cmdstan": value}
        yield f"cmdstan {value!r}", lambda how=how: fit("iid_normal", FRAME, **how)
        yield f"find_cmdstan {value!r}", lambda v=value: find_cmdstan(v)
    yield from each("find_engine", find_engine, OPTIONS["engine"])
    yield from each("frame with", lambda v: fit("multilevel_poisson", FRAMES[v]), FRAMES)
    yield from each("from_frame with", lambda v: _read(FRAMES[v]), FRAMES)


def _read(frame: Any) -> Any:
    """Read a frame as counts."""
    table = pyflowers.from_frame(frame)
    plants, months = table.labels("plant"), table.labels("month")
    table.refuse_repeats(plants, months, "leave the times out")
    return table.numbers("flowers", whole=True, lower=0)


def _files(folder: Path, table: Path) -> Calls:
    odd = (None, *ODD, "", "\0", "nope.csv", str(folder), "x" * 5000)
    load, open_program = pyflowers.Fit.load, pyflowers.Program.open
    for function in (pyflowers.read_table, load, open_program, compile_program):
        yield from each(function.__name__, function, odd)
    for name, values in (
        ("sep", ("ab", 3, b",", [], "\0", "\n")),
        ("decimal", ("", "x", 3, ",,")),
        ("encoding", ("nope", 3, "hex", "\0", "utf-16")),
    ):
        read = lambda v, name=name: pyflowers.read_table(table, **{name: v})  # noqa: E731
        yield from each(name, read, values)


def _of_fits(fit: pyflowers.Fit, folder: Path) -> Calls:
    out = folder / "r.html"
    fits = (None, 3, "x", [], [3], [None], {}, [fit, 3])
    places = (None, 3, "\0", "/proc/x", "/dev/null", str(folder), [], "x" * 5000)
    seeds = (-1, "1", 2**32, 1.5, [1])
    yield from each("loo of", pyflowers.loo, (*fits, [fit, fit]))
    yield from each("table of", pyflowers.table, fits)
    yield from each("names", lambda v: pyflowers.table(fit, names=v), ("A", 3, [], [3], [""], {}))
    rows = ("mu", 3, [], [3], [""], {}, ["nope"], {"mu": 3}, {3: "A"}, [["mu"]], ["mu", "mu"])
    yield from each("rows", lambda v: pyflowers.table(fit, rows=v), rows)
    yield from each("estimate", lambda v: pyflowers.table(fit, estimate=v), ("mode", 3, None, []))
    yield from each("report of", lambda v: pyflowers.report(v, out), fits)
    yield from each("report to", lambda v: pyflowers.report([fit], v), ("", *places))
    yield from each("save to", fit.save, places)
    for function in (pyflowers.check, pyflowers.predict):
        yield from each("seed", lambda v, f=function: f(fit, seed=v), seeds)
    replicates = ("200", 1, 199, 200.5, True)
    yield from each("replicates", lambda v: pyflowers.check(fit, replicates=v), replicates)
    for figure in (plots.trace, plots.pairs, plots.ranks):
        yield from each("figure", lambda v, f=figure: f(fit, v), (["nope"], [], [3], 3, [None]))
    methods = ("nope", None, 3, [])
    yield from each("method", lambda v: pyflowers.approximate(None, {}, v, seed=1), methods)
    yield from each("compare of", pyflowers.compare, (3, "nope", []))


def _numbers() -> Calls:
    """Yield calls of the closed forms and the samplers."""
    rng = np.random.default_rng(1)
    y = [1.0, 2, 4]
    statistics = vb.SufficientStatistics.from_array([[1.0, 2, 3], [4, 5, 7]])
    target = samplers.StandardNormal(1)
    arrays = (None, "x", [np.nan, 1], [np.inf, 1], ["a"], [1j], {}, object(), b"x")
    counts = (0, -1, 1.5, "x", None, np.nan, [3])
    widths = (0, -1, "x", None, np.nan, 1j, {})
    nowhere = Path(__file__).parent / "lecture" / "nowhere.stan"
    for name, function, values in (
        ("fit_normal", vb.fit_normal, arrays),
        ("NormalExact", exact.NormalExact, arrays),
        ("draw_normal", lambda v: exact.draw_normal(v, None, 10, rng), arrays),
        ("from_groups", lambda v: vb.SufficientStatistics.from_groups(v, [0]), arrays),
        ("totals", lambda v: exact.PoissonSampler(v, [3, 3]), arrays),
        ("num_draws", lambda v: exact.draw_normal(y, None, v, rng), counts),
        ("max_iter", lambda v: vb.fit_normal(y, max_iter=v), counts),
        ("sweeps", lambda v: vb.fit_multilevel_normal(statistics, max_iter=v), counts),
        ("prior sd", lambda v: vb.NormalPrior(tau0=v), widths),
        ("tol", lambda v: vb.fit_normal(y, tol=v), (*widths, np.inf)),
        ("step size", lambda v: samplers.HMC(target, v, 10), (*widths, np.inf)),
        ("steps", lambda v: samplers.HMC(target, 0.1, v), (0, -1, "x", None, np.nan, np.inf, {})),
        ("StanDensity", samplers.StanDensity, (None, 3, "", "x", nowhere, [], b"x")),
    ):
        yield from each(name, function, values)
