"""Medians and spreads over rounds, and sentences that summarise them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from benchmarks.peers.methods import METHODS, Method
from benchmarks.peers.results import Result, label_of_machine
from benchmarks.peers.sizes import Table, table_of

CONVERGED = 1.01
"""Limit of R-hat, above which a row reports its value (Vehtari et al. 2021)."""

LEVEL = 1.05
"""Ratio of two medians up to which neither is reported as the winner."""

QUIET = 0.5
"""Load per core, in excess of 1, above which the page reports that other work was running."""


@dataclass(frozen=True)
class Measure:
    """The median over rounds, and the lowest and highest value."""

    middle: float
    low: float
    high: float
    num: int

    @classmethod
    def of(cls, values: Iterable[float | None]) -> Measure | None:
        """Summarise the values; None if there are none."""
        known = [value for value in values if value is not None]
        if not known:
            return None
        return cls(median(known), min(known), max(known), len(known))


@dataclass(frozen=True)
class Row:
    """One method on one size, over all rounds.

    Attributes
    ----------
    size : Table
        The table.
    method : Method
        The method.
    results : tuple of Result
        One result per round.
    """

    size: Table
    method: Method
    results: tuple[Result, ...]

    @property
    def first(self) -> Measure | None:
        """Seconds to the first posterior."""
        return Measure.of(result.first for result in self.results)

    @property
    def further(self) -> Measure | None:
        """Seconds to a further posterior."""
        return Measure.of(result.further for result in self.results)

    @property
    def imports(self) -> Measure | None:
        """Seconds of `first` until everything is imported."""
        return Measure.of(result.imports for result in self.results)

    @property
    def rate(self) -> Measure | None:
        """Least bulk ESS per second."""
        return Measure.of(result.rate for result in self.results)

    @property
    def peak(self) -> Measure | None:
        """Peak memory in bytes."""
        return Measure.of(r.peak_bytes for r in self.results if r.status == "done")

    @property
    def unfinished(self) -> Result | None:
        """The round that did not finish, if there is one."""
        return next((result for result in self.results if result.status != "done"), None)

    @property
    def is_right(self) -> bool:
        """Whether all rounds have the requested posterior."""
        judged = [result.agreement.get("agrees") for result in self.results]
        return bool(judged) and all(judged)

    @property
    def poor_r_hat(self) -> str:
        """The largest R-hat of the rounds, such as ``R-hat 1.02``, if it is above its limit."""
        r_hat = max((result.agreement.get("r_hat") or 0.0 for result in self.results), default=0.0)
        return f"R-hat {r_hat:.2f}" if r_hat > CONVERGED else ""

    @property
    def verdict(self) -> str:
        """The table's verdict on the posterior."""
        if self.unfinished is not None and self.rate is None:
            return verdict_of_unfinished(self.unfinished)
        done = [result for result in self.results if result.status == "done"]
        worst = max(done, key=lambda result: result.agreement.get("z", 0.0))
        found = worst.agreement
        if found.get("agrees") is None:
            return (
                f"no posterior; the estimate of {found['of']} is {found['shift']:.2g} posterior sd "
                "from the posterior mean"
            )
        words = ["agrees"]
        if not self.is_right and "z" not in found:
            words = [f"differs: {found['of']} by {found['shift']:.2g} posterior sd"]
        elif not self.is_right:
            statistic = found["statistic"].replace("%", "% quantile")
            words = [
                f"differs: {statistic} of {found['of']} by {found['z']:.1f} standard "
                f"errors, means by up to {found['shift']:.2g} posterior sd"
            ]
        words += [self.poor_r_hat] if self.poor_r_hat else []
        divergent = max(result.num_divergent for result in done)
        if divergent:
            words.append(f"{divergent} divergent")
        if self.unfinished is not None:
            words.append(verdict_of_unfinished(self.unfinished))
        return "; ".join(words)


def verdict_of_unfinished(result: Result) -> str:
    """Return the table's verdict on a run without a posterior."""
    return {
        "stopped": f"stopped: no {result.reason}",
        "failed": "failed, see below",
        "absent": "not installed",
    }[result.status]


def rows_of(results: Sequence[Result]) -> list[Row]:
    """Return a row for each method and size that was run, in the order of the methods."""
    rows = []
    for key in sorted({result.size for result in results}, key=lambda k: (table_of(k).num_rows, k)):
        for method in METHODS:
            mine = [r for r in results if r.size == key and r.method == method.key]
            if mine:
                rows.append(Row(table_of(key), method, tuple(mine)))
    return rows


def by_size(rows: Sequence[Row]) -> dict[Table, list[Row]]:
    """Return the rows of each size."""
    groups: dict[Table, list[Row]] = {}
    for row in rows:
        groups.setdefault(row.size, []).append(row)
    return groups


def sentences(rows: Sequence[Row]) -> list[str]:
    """Return sentences on the winner for each size, and its margin.

    An engine of pyflowers whose posterior differs from the exact one cannot win. A peer can, and
    the sentence then reports the difference. An estimate cannot win, but its time is compared.
    """
    return [sentence for mine in by_size(rows).values() for sentence in _of_size(mine)]


def _of_size(rows: Sequence[Row]) -> list[str]:
    racing = [row for row in rows if row.is_right or row.method.family == "peer"]
    found = [
        *_alone(rows, racing),
        *_beaten(racing, "minimum ESS per second", _rate, higher=True),
        *_beaten(racing, "time to the first posterior", _first, higher=False),
        *_beaten(racing, "time to a further posterior", _further, higher=False),
        *_estimates(rows),
    ]
    return [f"**{rows[0].size.label}.** {found[0]}", *found[1:]] if found else []


def _rate(row: Row) -> Measure | None:
    return row.rate


def _first(row: Row) -> Measure | None:
    return row.first


def _further(row: Row) -> Measure | None:
    return row.further


Reading = Callable[[Row], Measure | None]


def _alone(rows: Sequence[Row], racing: Sequence[Row]) -> list[str]:
    """Return a sentence if only pyflowers or only peers had a posterior, though both were tried."""
    tried = {row.method.family for row in rows}
    first = [row for row in racing if row.first is not None]
    have = {row.method.family for row in first}
    if not tried >= {"peer", "pyflowers"} or len(have) != 1:
        return []
    names = " and ".join(f"*{row.method.label}*" for row in first)
    lacking = "No peer" if have == {"pyflowers"} else "No engine of pyflowers"
    return [
        f"{lacking} finishes a posterior within the limits; {names} "
        f"{'do' if len(first) > 1 else 'does'}."
    ]


def _best(rows: Iterable[Row], value: Reading, *, higher: bool) -> tuple[Row, Measure] | None:
    known = [(row, measure) for row in rows if (measure := value(row)) is not None]
    sign = -1 if higher else 1
    return min(known, key=lambda pair: sign * pair[1].middle, default=None)


def _beaten(rows: Sequence[Row], what: str, value: Reading, *, higher: bool) -> list[str]:
    """Compare the best engine of pyflowers, and its best NUTS engine, with the best peer."""
    engines = [row for row in rows if row.method.family == "pyflowers"]
    engine = _best(engines, value, higher=higher)
    peer = _best([r for r in rows if r.method.family == "peer"], value, higher=higher)
    if engine is None or peer is None:
        return []
    ratio = _ratio(engine[1], peer[1], higher=higher)
    mine, theirs = (
        f"*{row.method.label}*{f' ({row.poor_r_hat})' if row.poor_r_hat else ''}"
        for row in (engine[0], peer[0])
    )
    if not peer[0].is_right:
        theirs += ", whose posterior differs"
    start = f"{what[0].upper()}{what[1:]}"
    if 1 / LEVEL < ratio < LEVEL:
        return [f"{start}: {mine} is level with {theirs}."]
    if ratio < 1:
        return [_lost(engine[0], peer[0], start, ratio, has_start=value is _first)]
    how = "times the rate of" if higher else "times the speed of"
    text = f"{start}: {mine} wins, at {number(ratio)} {how} {theirs}"
    chains = _best([r for r in engines if r.method.option != "exact"], value, higher=higher)
    if engine[0].method.option == "exact" and chains is not None:
        nuts = _ratio(chains[1], peer[1], higher=higher)
        is_level = 1 / LEVEL < nuts < LEVEL
        reached = "is level with" if is_level else f"reaches {number(nuts)} {how}"
        text += f" (with NUTS, *{chains[0].method.label}* {reached} the peer)"
    return [f"{text}."]


def _lost(engine: Row, peer: Row, start: str, ratio: float, *, has_start: bool) -> str:
    """Report that a peer wins, and the part of the time that is not sampling."""
    text = (
        f"{start}: **{peer.method.label} wins**"
        f"{'' if peer.is_right else ' with a posterior that differs'}, "
        f"by a factor of {number(1 / ratio)} over *{engine.method.label}*"
    )
    if has_start and engine.first is not None and engine.imports is not None:
        text += (
            f"; of pyflowers' {number(engine.first.middle)} s, {number(engine.imports.middle)} s "
            "are Python's start and imports"
        )
    return f"{text}."


def _ratio(engine: Measure, peer: Measure, *, higher: bool) -> float:
    """Return the ratio by which the engine is better."""
    return engine.middle / peer.middle if higher else peer.middle / engine.middle


def _estimates(rows: Sequence[Row]) -> list[str]:
    """Report how long the first posterior and the estimates take."""
    engine = _best([r for r in rows if r.method.family == "pyflowers"], _first, higher=False)
    quick = _best([r for r in rows if r.method.family == "estimate"], _first, higher=False)
    if engine is None or quick is None:
        return []
    return [
        f"The first posterior of *{engine[0].method.label}* takes {number(engine[1].middle)} s; "
        f"the estimates of {quick[0].method.label} take {number(quick[1].middle)} s."
    ]


def number(value: float) -> str:
    """Return a number with two or three digits and a thousands separator."""
    if value == 0:
        return "0"
    if abs(value) >= 100:
        digits = len(str(int(abs(value)))) - 3
        return f"{round(value, -digits):,.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2g}"


def spread(measure: Measure | None, scale: float = 1.0) -> str:
    """Return a median with the lowest and highest value, as shown in the table."""
    if measure is None:
        return "–"
    middle = number(measure.middle * scale)
    if measure.num == 1:
        return middle
    return f"{middle} ({number(measure.low * scale)}–{number(measure.high * scale)})"


def conditions(results: Sequence[Result]) -> str:
    """Describe the machine of the results, its load, and the commits."""
    machines = [result.machine for result in results if result.machine]
    if not machines:
        return "Nothing has been measured yet."
    named = sorted(set(map(label_of_machine, machines)))
    load = Measure.of(machine["load"] for machine in machines)
    assert load is not None  # there are machines
    cores = max(machine["cores"] for machine in machines)
    commits = sorted({result.commit for result in results if result.commit})
    text = (
        f"Measured on {'; '.join(named)}. The median 1-minute load before a run was "
        f"{number(load.middle)} (range {number(load.low)} to {number(load.high)}). "
        f"Commits: {', '.join(commits)}."
    )
    if _busy(machines, load, cores):
        text += (
            " **Other work was running on this machine, or the race ran at a low priority: these "
            "times are provisional.**"
        )
    return text


def _busy(machines: Sequence[Mapping[str, float]], load: Measure, cores: int) -> bool:
    # The race itself contributes to the load before the next run.
    return any(m["nice"] > 0 for m in machines) or load.high > cores * (1 + QUIET)


def versions_of(rows: Sequence[Row]) -> dict[str, str]:
    """Return the versions of each method, as one line."""
    found: dict[str, str] = {}
    for row in rows:
        for result in row.results:
            if result.versions:
                found[row.method.key] = result.versions
    return found
