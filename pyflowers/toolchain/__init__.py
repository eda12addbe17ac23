"""Finding CmdStan, building it from a package index, and caching executables.

This package does not sample: CmdStanPy runs the CmdStan that is found here.
"""

from pyflowers.toolchain.build import (
    Executable,
    compile_program,
    compile_source,
    executable_of,
)
from pyflowers.toolchain.embedded import install_embedded
from pyflowers.toolchain.locate import CmdStan, available_cmdstan, find_cmdstan

__all__ = [
    "CmdStan",
    "Executable",
    "available_cmdstan",
    "compile_program",
    "compile_source",
    "executable_of",
    "find_cmdstan",
    "install_embedded",
]
