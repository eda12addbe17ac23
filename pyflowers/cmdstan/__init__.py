"""Which CmdStan, how to make one from a package index, and cached executables.

CmdStanPy drives whichever CmdStan is found; nothing here samples.
"""

from pyflowers.cmdstan.build import Executable, compile_program
from pyflowers.cmdstan.embedded import install_embedded
from pyflowers.cmdstan.locate import CmdStan, find_cmdstan

__all__ = ["CmdStan", "Executable", "compile_program", "find_cmdstan", "install_embedded"]
