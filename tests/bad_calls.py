"""Bad calls from Python, beside the bad command lines of :mod:`bad_inputs`."""

import datetime
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import pyflowers
from pyflowers import exact, plots, samplers, vb
from pyflowers.engines import find_engine
from pyflowers.toolchain import compile_program, find_cmdstan

FRAME = pd.DataFrame(
    [
        (p, m, y)
        for p, ys in zip("abc", ((4, 5, 6), (0, 2, 5), (8, 6, 10)), strict=True)
        for m, y in enumerate(ys)
    ],
    columns=["plant", "month", "flowers"],
)
QUICK: dict[str, Any] = {"seed": 1, "chains": 1, "warmup": 20, "draws": 20, "engine": "stanli"}
PROGRAM = """
data { int<lower=0> N; array[N] real y; }
parameters { real mu; }
model { mu ~ normal(0, 10); y ~ normal(mu, 1); }
"""
ODD: tuple[Any, ...] = (3, 2.5, b"x", [1], (), {1}, object, len, 1j, True, np.arange(3))

Call = tuple[str, Callable[[], Any]]


def calls(folder: Path, fit: pyflowers.Fit) -> Iterator[Call]:
    """Yield a name and a call for each thing that must be refused.

    Parameters
    ----------
    folder : Path
        Where programs and tables may be read.
    fit : Fit
        A fit to call functions with.
    """
    program = folder / "p.stan"
    program.write_text(PROGRAM)
    for part in (_fits(program), _frames(), _files(folder), _of_fits(fit, folder), _numbers()):
        yield from part


def _fit(*arguments: Any, **options: Any) -> Callable[[], Any]:
    return lambda: pyflowers.fit(*arguments, **{**QUICK, **options})


def _fits(program: Path) -> Iterator[Call]:
    yield "fit of None", _fit(None)
    for value in ODD:
        yield f"fit of {value!r}", _fit(value)
        yield f"data {value!r}", _fit("iid_normal", value)
        yield f"inits {value!r}", _fit("iid_normal", FRAME, inits=_unfit_inits(value))
    for value in ("", " ", "nope", "iid-normal", "a.stan", "\0.stan", ".stan", "x" * 5000, "iid\n"):
        yield f"program {value[:9]!r}", _fit(value)
    for value in ("", "nope.csv", "/", "\0", "x" * 5000, "/etc/passwd", "a.json", "\udcff.csv"):
        yield f"data at {value[:9]!r}", _fit("iid_normal", value)
        yield f"inits at {value[:9]!r}", _fit("iid_normal", FRAME, inits=value)
    yield "inits of another parameter", _fit("iid_normal", FRAME, inits={"zzz": 1})
    yield "inits out of range", _fit("iid_normal", FRAME, inits={"mu": 1, "sigma2": -1})
    yield "inits not a number", _fit("iid_normal", FRAME, inits={"mu": np.nan, "sigma2": 1})
    yield "inits of text", _fit("iid_normal", FRAME, inits={"mu": "x", "sigma2": 1})
    yield "inits of a wrong shape", _fit("iid_normal", FRAME, inits={"mu": [1, 2], "sigma2": 1})
    yield "inits of None", _fit("iid_normal", FRAME, inits={"mu": None, "sigma2": 1})
    yield "inits for two chains of one", _fit("iid_normal", FRAME, inits=[{"mu": 1}] * 2)
    yield "inits infinite", _fit("iid_normal", FRAME, inits=np.inf)
    yield "inits negative", _fit("iid_normal", FRAME, inits=-1)
    for name in ("seed", "chains", "warmup", "draws", "thin", "adapt_delta", "max_treedepth"):
        for value in ("2", "x", -1, 0.5j, [1], {}, np.nan, 10**400, b"1", object()):
            if name != "adapt_delta" or value != 0.5:
                shown = type(value).__name__ if isinstance(value, object | int) else value
                yield f"{name} {shown} {str(value)[:4]}", _fit("iid_normal", FRAME, **{name: value})
    for value in ("diag", "", 3, None, ["diag_e"], {}, object()):
        yield (
            f"metric {type(value).__name__} {str(value)[:4]}",
            _fit("iid_normal", FRAME, metric=value),
        )
    yield "an option that there is not", _fit("iid_normal", FRAME, iterations=3)
    for value in ("2", 0, -1, 1.5, True, np.nan, [2], "x", {}):
        yield f"cores {value!r}", _fit("iid_normal", FRAME, cores=value)
    for value in ("x", None, 3, [], "CMDSTAN", object()):
        yield f"engine {type(value)} {str(value)[:3]}", _fit("iid_normal", FRAME, engine=value)
        yield f"find_engine {type(value)} {str(value)[:3]}", lambda v=value: find_engine(v)
    for value in (3, "/nowhere", "", "\0", [], b"x", {}):
        how = {"engine": "cmdstan", "cmdstan": value}
        yield f"cmdstan {value!r}", _fit("iid_normal", FRAME, **how)
        yield f"find_cmdstan {value!r}", lambda v=value: find_cmdstan(v)
    for value in ("1", None, np.nan, np.inf, -1, 0, [1], {}, 1j, True, b"1", "x"):
        priors = {"mu_sd": value}
        yield f"prior {value!r}", _fit("iid_normal", FRAME, priors=priors)
    for value in ("mu_sd=1", [("mu_sd", 1)], 3, {"zzz": 1}, {3: 1}, {None: 1}, {("a",): 1}):
        yield f"priors {value!r}", _fit("iid_normal", FRAME, priors=value)
    for value in ("x", 3, None.__class__, [1]):
        yield f"centered {value!r}", _fit("multilevel_normal", FRAME, centered=value)
    yield "centered without a choice", _fit("iid_normal", FRAME, centered=True)
    for name in ("group", "time", "value"):
        for value in ("nope", "", 3, [], {}, "flowers\0", b"plant"):
            yield f"{name} {value!r}", _fit("multilevel_poisson", FRAME, **{name: value})
    for value in (
        "plant",
        3,
        ["plant"],
        {"zzz": "plant"},
        {"plant": "nope"},
        {"plant": 3},
        {3: "a"},
    ):
        yield f"columns {value!r}", _fit("multilevel_poisson", FRAME, columns=value)
    for value in (3, [3], [None], "\0", ["\0"], ["/nowhere"], {"a": 1}):
        if value != ["/nowhere"]:
            yield f"include_paths {value!r}", _fit("iid_normal", FRAME, include_paths=value)
    blocks: tuple[Any, ...] = (
        *({}, {"N": 3}, {"N": 3, "y": None}, {"N": 3, "y": "x"}, {"N": 3, "y": [1, 2]}),
        *({"N": -1, "y": []}, {"N": 3, "y": [1, "a", 2]}, {"N": 3, "y": [1, None, 3]}),
        *({"N": "x", "y": [1]}, {"N": 1.5, "y": [1]}, {"N": 10**30, "y": [1]}, {1: 2}),
        *({"N": 3, "y": [1j, 2, 3]}, {"N": 3, "y": [[1], [2], [3]]}, {"N": [3], "y": [1, 2, 3]}),
        *({"N": 2, "y": [[1], [2, 3]]}, {"N": 1, "y": [b"x"]}, {"N": 1, "y": [object()]}),
        *({"N": 1, "y": {"a": 1}}, {"N": 1, "y": [datetime.datetime(2024, 1, 1)]}),
    )
    for i, block in enumerate(blocks):
        yield f"data block {i}", _fit(program, block)


def _unfit_inits(value: Any) -> Any:
    """Return a value that is not initial values: a number would be a radius."""
    return {"mu": value} if isinstance(value, int | float) else value


def _frames() -> Iterator[Call]:
    def odd(name: str, frame: Any) -> Iterator[Call]:
        yield f"frame with {name}", _fit("multilevel_poisson", frame)
        yield f"from_frame with {name}", lambda: _read(frame)

    flowers = FRAME["flowers"]
    twice = FRAME.copy()
    twice.columns = ["plant", "plant", "flowers"]
    alike = FRAME.copy()
    alike.columns = ["plant", "month", 3]
    columns: dict[str, Any] = {
        "complex numbers": flowers * 1j,
        "times": pd.Timestamp("2024-01-01"),
        "durations": pd.Timedelta(1, "D"),
        "truth": flowers > 3,
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
    for name, column in columns.items():
        yield from odd(name, FRAME.assign(flowers=column))
    labels = {"missing": None, "blank": " ", "with NUL": "a\0", "halves": "\ud800", "same": "a"}
    for name, label in labels.items():
        yield from odd(f"{name} labels", FRAME.assign(plant=pd.Series([label] * 9, dtype=object)))
    yield from odd("repeated columns", twice)
    yield from odd("a column of another name", alike)
    yield from odd("no rows", FRAME.iloc[:0])
    yield from odd("no columns", pd.DataFrame(index=range(3)))
    yield from odd("levels of columns", pd.concat({"a": FRAME}, axis=1))
    yield from odd("nothing", pd.DataFrame())


def _read(frame: Any) -> Any:
    """Take a frame all the way to counts."""
    table = pyflowers.from_frame(frame)
    plants, months = table.labels("plant"), table.labels("month")
    table.refuse_repeats(plants, months, "leave the times out")
    return table.numbers("flowers", whole=True, lower=0)


def _files(folder: Path) -> Iterator[Call]:
    table = folder / "t.csv"
    FRAME.to_csv(table, index=False)
    for value in (None, *ODD, "", "\0", "nope.csv", str(folder), "x" * 5000):
        yield f"read_table of {str(value)[:9]!r}", lambda v=value: pyflowers.read_table(v)
        yield f"Fit.load of {str(value)[:9]!r}", lambda v=value: pyflowers.Fit.load(v)
        yield f"Program.open of {str(value)[:9]!r}", lambda v=value: pyflowers.Program.open(v)
        yield f"compile of {str(value)[:9]!r}", lambda v=value: compile_program(v)
    for name, values in (
        ("sep", ("", "ab", 3, b",", [], "\0", "\n")),
        ("decimal", ("", "x", 3, ",,")),
        ("encoding", ("nope", 3, "hex", "\0", "utf-16")),
    ):
        for value in values:
            if (name, value) == ("sep", ""):
                continue  # the usual one
            how = {name: value}
            yield f"{name}={value!r}", lambda how=how: pyflowers.read_table(table, **how)


def _of_fits(fit: pyflowers.Fit, folder: Path) -> Iterator[Call]:
    out = folder / "r.html"
    for value in (None, 3, "x", [], [3], [None], [fit, fit], {}, [fit, 3]):
        name = type(value).__name__ + str(value)[:6]
        yield f"loo of {name}", lambda v=value: pyflowers.loo(v)
        if value != [fit, fit]:
            yield f"report of {name}", lambda v=value: pyflowers.report(v, out)
    for value in (None, 3, "", "\0", "/proc/x", "/dev/null", str(folder), [], "x" * 5000):
        yield f"report to {str(value)[:9]!r}", lambda v=value: pyflowers.report([fit], v)
        if value != "":
            yield f"save to {str(value)[:9]!r}", lambda v=value: fit.save(v)
    for value in (-1, "1", 2**32, 1.5, [1]):
        yield f"check with seed {value!r}", lambda v=value: pyflowers.check(fit, seed=v)
        yield f"predict with seed {value!r}", lambda v=value: pyflowers.predict(fit, seed=v)
    for value in ("100", 1, 2.5, True):
        yield f"{value!r} replicates", lambda v=value: pyflowers.check(fit, replicates=v)
    for figure in (plots.trace, plots.pairs, plots.ranks):
        for value in (["nope"], [], "mu", [3], 3, [None], {"mu"}):
            if value not in ("mu", {"mu"}):
                yield f"{figure.__name__} of {value!r}", lambda f=figure, v=value: f(fit, v)
    for value in ("nope", None, 3, []):
        name = f"approximate by {value!r}"
        yield name, lambda v=value: pyflowers.approximate(None, {}, v, seed=1)
    for value in (3, None, "nope", []):
        if value is not None:
            yield f"compare of {value!r}", lambda v=value: pyflowers.compare(v)


def _numbers() -> Iterator[Call]:
    """The closed forms and the samplers."""
    rng = np.random.default_rng(1)
    statistics = vb.SufficientStatistics.from_array([[1.0, 2, 3], [4, 5, 7]])
    for value in (None, "x", [np.nan, 1], [np.inf, 1], ["a"], [1j], {}, object(), b"x"):
        shown = str(value)[:9]
        for function in (vb.fit_normal, exact.NormalExact):
            yield f"{function.__name__} of {shown!r}", lambda f=function, v=value: f(v)
        yield f"draw_normal of {shown!r}", lambda v=value: exact.draw_normal(v, None, 10, rng)
        yield (
            f"from_groups of {shown!r}",
            lambda v=value: vb.SufficientStatistics.from_groups(v, [0]),
        )
        yield (
            f"Poisson totals {shown!r}",
            lambda v=value: exact.PoissonSampler(v, [3, 3]),
        )
    for value in (0, -1, 1.5, "x", None, np.nan, [3]):
        name = f"{value!r}"[:9]
        yield (
            f"num_draws {name}",
            lambda v=value: exact.draw_normal([1.0, 2.0, 4.0], None, v, rng),
        )
        yield f"max_iter {name}", lambda v=value: vb.fit_normal([1.0, 2, 4], max_iter=v)
        yield (
            f"multilevel max_iter {name}",
            lambda v=value: vb.fit_multilevel_normal(statistics, max_iter=v),
        )
    target = samplers.StandardNormal(1)
    for value in (0, -1, "x", None, np.nan, np.inf, 1j, {}):
        if value != np.inf:  # which is flat
            yield f"prior sd {value!r}", lambda v=value: vb.NormalPrior(tau0=v)
        yield f"tol {value!r}", lambda v=value: vb.fit_normal([1.0, 2, 4], tol=v)
        yield f"step size {value!r}", lambda v=value: samplers.HMC(target, v, 10)
        if value != 1j:
            yield f"steps {value!r}", lambda v=value: samplers.HMC(target, 0.1, v)
    program = Path(__file__).parent / "lecture" / "nowhere.stan"
    for value in (None, 3, "", "x", program, [], b"x"):
        yield f"StanDensity of {str(value)[-9:]!r}", lambda v=value: samplers.StanDensity(v)
