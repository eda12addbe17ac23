"""Where a fit comes from: its data, program, options and versions, as ``run.json`` keeps them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from pyflowers.cmdstan import Executable
from pyflowers.cmdstan.cache import digest, sha256_file
from pyflowers.cmdstan.toolchain import compiler_version
from pyflowers.errors import DataError
from pyflowers.sampling import Sample, SamplerOptions

_PACKAGES = ("arviz", "cmdstanpy", "numpy", "pandas", "pyflowers", "xarray")


def program_data(data: Any) -> tuple[Any, dict[str, Any]]:
    """Check a program's data as far as that goes without Stan, and say what they are."""
    if data is None:
        return None, {"source": None, "sha256": digest()}
    if isinstance(data, Mapping):
        text = json.dumps({k: np.asarray(v).tolist() for k, v in data.items()}, sort_keys=True)
        return data, {"source": "the mapping", "sha256": digest(text)}
    path = Path(data).resolve()
    if not path.is_file():
        raise DataError(f"{path}: no such file; a program of your own needs CmdStan JSON")
    try:
        json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise DataError(f"{path}: it is not JSON ({error}); correct it") from error
    return path, {"source": str(path), "sha256": sha256_file(path)}


def fit_record(
    name: str, shipped: bool, executable: Executable, options: SamplerOptions, result: Sample
) -> dict[str, Any]:
    """Return what must be known to understand and repeat a fit."""
    return {
        "model": name,
        "shipped": shipped,
        "program": str(executable.program),
        "program_sha256": executable.program_sha256,
        "executable": executable.key,
        "options": asdict(options),
        "versions": {
            "stan": executable.cmdstan.version,
            "cmdstan": f"{executable.cmdstan.origin} ({executable.cmdstan.identity})",
            "compiler": compiler_version(),
            **{package: version(package) for package in _PACKAGES},
        },
        "messages": dict(result.messages),
        "times": {
            "wall_seconds": result.wall_time,
            "chains": [dict(chain) for chain in result.chain_times],
        },
    }


def plain_inits(inits: Any) -> Any:
    """Return initial values as JSON can hold them, in the form in which they were given."""
    if isinstance(inits, Mapping):
        return {str(name): np.asarray(value).tolist() for name, value in inits.items()}
    if isinstance(inits, (list, tuple)):
        return [plain_inits(each) for each in inits]
    if inits is None or isinstance(inits, (int, float)):
        return inits
    return str(inits)
