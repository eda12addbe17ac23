"""Race all methods in rounds, store the results after every run, and write the page at the end.

Usage: ``python -m benchmarks.peers.race [--sizes S,…] [--methods M,…] [--rounds N] [--limit S]``
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.peers import agreement, page
from benchmarks.peers.methods import METHODS, Method, chosen, cold
from benchmarks.peers.processes import Ended, run
from benchmarks.peers.results import Ledger, Result, label_of_machine
from benchmarks.peers.sizes import (
    ROOT,
    TABLES,
    Regression,
    Table,
    data_file,
    table_of,
)

CHAINS, WARMUP, DRAWS, SEED = 4, 1_000, 1_000, 1
LIMIT = 600.0
RUNS = page.DOCS / "peers" / "runs.csv"
FOLDER = Path(__file__).resolve().parent / ".tables"
"""Folder of the data and of the references."""
MOST_MEMORY = 0.9
"""Share of the machine's memory that a run may use."""
PATIENCE = 180.0
"""The longest wait, in seconds, for the load of the previous run to disappear."""
LAST_WORDS = 300
"""Number of characters of a failed runner's last output that are kept as the reason."""


def main(*arguments: str) -> None:
    """Run the requested methods, then write the page."""
    given = command_line().parse_args(arguments or None)
    sizes = [table_of(key) for key in given.sizes] or list(TABLES)
    methods = chosen(given.methods)
    # The regressions have their own file, because they may be measured on a different machine.
    ledgers = [Ledger(given.runs), Ledger(given.runs.with_name("regressions.csv"))]
    used = [] if given.page_only else sorted({isinstance(size, Regression) for size in sizes})
    for ledger in (ledgers[which] for which in used):
        if given.afresh:
            ledger.path.unlink(missing_ok=True)
        if given.retry:
            ledger.forget(("stopped", "failed", "absent"))
        refuse_another_machine(ledger)
    for number in range(1, given.rounds + 1):
        for size in sizes:
            ledger = ledgers[isinstance(size, Regression)]
            for method in (method for method in methods if method.fits(size)):
                if not given.page_only and ledger.needs(size, method.key, number, given.limit):
                    settle()
                    result = measured(method, size, number, given.limit)
                    ledger.add(result)
                    print(line(result), flush=True)
    page.write([result for ledger in ledgers for result in ledger.read()])


def refuse_another_machine(ledger: Ledger) -> None:
    """End the race if there are results from a different machine: results must not be mixed."""
    here = label_of_machine(machine())
    others = [name for name in ledger.machines() if name != here]
    if others:
        raise SystemExit(
            f"error: {ledger.path} has runs on {'; '.join(others)}, but this machine is {here}; "
            "use --afresh to discard them and measure everything on this machine"
        )


def command_line() -> argparse.ArgumentParser:
    """Return the options."""
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    keys = ", ".join(method.key for method in METHODS)
    sizes = ", ".join(size.key for size in TABLES)
    parser.add_argument("--sizes", type=commas, default=[], help=f"any of {sizes}, or others")
    parser.add_argument("--methods", type=commas, default=[], help=f"any of {keys}")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--limit", type=float, default=LIMIT, help="seconds for each posterior")
    parser.add_argument(
        "--runs",
        type=Path,
        default=RUNS,
        help="earlier results, whose runs are not repeated; "
        "regressions.csv next to it has the regressions",
    )
    parser.add_argument("--retry", action="store_true", help="repeat runs that did not finish")
    parser.add_argument("--afresh", action="store_true", help="discard all earlier runs")
    parser.add_argument("--page-only", action="store_true", help="run nothing, only write the page")
    return parser


def settle() -> None:
    """Wait until the 1-minute load is below the number of cores, at most `PATIENCE` seconds."""
    end = time.monotonic() + PATIENCE
    while os.getloadavg()[0] >= cores() and time.monotonic() < end:
        time.sleep(1)


def commas(text: str) -> list[str]:
    """Split a text at commas."""
    return [word for word in text.split(",") if word]


def measured(method: Method, size: Table, number: int, limit: float) -> Result:
    """Run one method once, and judge its draws."""
    about: dict[str, Any] = {
        "size": size.key,
        "method": method.key,
        "round": number,
        "limit": limit,
        "machine": machine(),
        "commit": commit(),
    }
    if shutil.which(method.interpreter) is None:
        reason = "its environment is not installed; run benchmarks/peers/environments"
        return Result(**about, status="absent", reason=reason)
    data = data_file(size, FOLDER / "data")
    reference: agreement.Reference = (
        agreement.estimates_of(data, FOLDER / "reference")
        if isinstance(size, Regression)
        else agreement.reference_of(size, FOLDER / "reference")
    )
    with tempfile.TemporaryDirectory(prefix="race-") as name:
        out = Path(name, "out")
        caches = Path(name, "caches")
        out.mkdir()
        caches.mkdir()
        arguments: dict[str, object] = {
            "data": data,
            "out": out,
            "seed": SEED + 100 * number,
            "chains": CHAINS,
            "warmup": WARMUP,
            "draws": DRAWS,
            "cores": cores(),
        }
        ended = run(
            method.command(arguments),
            environment=cold(caches),
            folder=ROOT,
            log=Path(name, "log"),
            overdue=Overdue(out, limit),
            measured=lambda: "further" not in timings(out),
            most_bytes=MOST_MEMORY * memory_bytes(),
        )
        known = judged(ended, out, reference, Path(name, "log"), limit)
    return Result(**about, peak_bytes=ended.peak_bytes, **known)


class Overdue:
    """A test of whether the first or the further posterior takes longer than the limit.

    Saving draws, which is not timed, has no limit.
    """

    def __init__(self, out: Path, limit: float) -> None:
        self.out, self.limit = out, limit
        self.first: float | None = None

    def __call__(self, elapsed: float) -> bool:
        """Return whether the limit is exceeded `elapsed` seconds after the start."""
        known = timings(self.out)
        if "further" in known:
            return False
        if "first_at" in known and self.first is None:
            self.first = elapsed
        return elapsed - (self.first or 0.0) > self.limit


def timings(out: Path) -> dict[str, Any]:
    """Return the timings that a runner has written so far."""
    path = out / "timings.json"
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


def judged(
    ended: Ended, out: Path, reference: agreement.Reference, log: Path, limit: float
) -> dict[str, Any]:
    """Return the measurements of a run, and whether its posterior is right."""
    known = timings(out)
    versions = known.get("versions", {}).items()
    found: dict[str, Any] = {"versions": ", ".join(f"{name} {number}" for name, number in versions)}
    if "first_at" in known:
        found["first"] = known["first_at"] - ended.started_at - known["reading"]
        found["imports"] = known["begun_at"] - ended.started_at
    found["further"] = known.get("further")
    if ended.killed_for:
        steps = {"first_at": "first posterior", "further": "further posterior"}
        lacking = next((step for key, step in steps.items() if key not in known), "saved draws")
        bound = {
            "time": f"after {limit:g} s",
            "memory": f"with {MOST_MEMORY:.0%} of the machine's memory",
        }
        reason = f"{lacking} {bound[ended.killed_for]}"
        return {**found, "status": "stopped", "reason": reason}
    if ended.status or not (out / "posterior.json").exists():
        words = " ".join(log.read_text(encoding="utf-8", errors="replace").split())
        return {**found, "status": "failed", "reason": words[-LAST_WORDS:]}
    posterior = json.loads((out / "posterior.json").read_text(encoding="utf-8"))
    return {**found, "status": "done", **scored(posterior, out, reference)}


def scored(posterior: dict[str, Any], out: Path, reference: agreement.Reference) -> dict[str, Any]:
    """Return the least ESS and the agreement of the draws that a runner wrote."""
    if "estimates" in posterior:
        return {"agreement": agreement.compare_estimates(posterior["estimates"], reference)}
    draws = np.memmap(out / "draws.bin", dtype="<f8", mode="r", shape=tuple(posterior["shape"]))
    names = posterior.get("coefficients")
    summary = agreement.summarised(draws, logarithms=() if names else (1,))
    if posterior.get("summary"):
        plants = {name: np.asarray(column) for name, column in posterior["summary"].items()}
        summary = agreement.joined([summary, plants])
    ess = summary["ess_bulk"]
    least = int(np.argmin(np.where(np.isfinite(ess), ess, 0)))
    return {
        "min_ess": float(ess[least]) if np.isfinite(ess[least]) else 0.0,
        "worst": names[least] if names and least < len(names) else agreement.name_of(least),
        "agreement": agreement.compare_coefficients(summary, names, reference)
        if names
        else agreement.compare(summary, reference),
        "num_divergent": int(posterior["num_divergent"]),
    }


def cores() -> int:
    """Return the number of cores that this process may use, at most one per chain."""
    return min(len(os.sched_getaffinity(0)), CHAINS)


def memory_bytes() -> int:
    """Return the memory of the machine."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def machine() -> dict[str, Any]:
    """Return a description of the machine, and its load."""
    text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    models = [row.partition(":")[2].strip() for row in text.splitlines() if "model name" in row]
    return {
        "processor": models[0] if models else platform.machine(),
        "cores": cores(),
        "memory_gib": round(memory_bytes() / 2**30, 1),
        "load": round(os.getloadavg()[0], 2),
        "nice": os.nice(0),
    }


def commit() -> str:
    """Return the current commit, with a mark if files other than the page differ."""
    changed = git("status", "--porcelain", "--", ".", ":!docs/peers*")
    return git("rev-parse", "--short", "HEAD") + ("-dirty" if changed else "")


def git(*words: str) -> str:
    """Return the output of git."""
    done = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout.strip()


def line(result: Result) -> str:
    """Return one result as a line for the terminal."""
    start = f"{result.round}  {result.size:>10}  {result.method:<18}"
    if result.status != "done":
        return f"{start}  {result.status}: {result.reason}"
    speed = "" if result.rate is None else f", {result.rate:.3g} ESS/s"
    words = f"first {result.first:.2f} s, further {result.further:.3g} s{speed}"
    return f"{start}  {words}, {result.peak_bytes / 1e6:.0f} MB, {result.agreement}"


if __name__ == "__main__":
    # A signal that ends the race must also end its current run, which has a separate session.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    main()
