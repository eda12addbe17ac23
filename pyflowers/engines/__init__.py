"""What samples programs: CmdStan, the reference; stanli, an interpreter; exact, no Markov chain."""

from pyflowers.engines.base import Engine, EngineLacksError, LoadedProgram, ProcessLostError, Sample
from pyflowers.engines.choose import find_engine
from pyflowers.engines.options import LARGEST_SEED, SamplerOptions, new_seed, refuse_unused

__all__ = [
    "LARGEST_SEED",
    "Engine",
    "EngineLacksError",
    "LoadedProgram",
    "ProcessLostError",
    "Sample",
    "SamplerOptions",
    "find_engine",
    "new_seed",
    "refuse_unused",
]
