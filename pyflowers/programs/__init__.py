"""Programs: a ``.stan`` file, a declaration of how a table becomes its data, and capabilities."""

from pyflowers.programs.capabilities import (
    Capabilities,
    Capability,
    ClosedForm,
    Draws,
    GroupDraws,
    IndependentDraws,
    MissingMoment,
    PriorModel,
)
from pyflowers.programs.data import Data
from pyflowers.programs.find import find_program
from pyflowers.programs.model import Model
from pyflowers.programs.program import Program
from pyflowers.programs.shipped import COMPARED, LECTURE, shipped_names

__all__ = [
    "COMPARED",
    "LECTURE",
    "Capabilities",
    "Capability",
    "ClosedForm",
    "Data",
    "Draws",
    "GroupDraws",
    "IndependentDraws",
    "MissingMoment",
    "Model",
    "PriorModel",
    "Program",
    "find_program",
    "shipped_names",
]
