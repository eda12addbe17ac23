"""The engine ``stanli``: an interpreter of Stan with Stan's own NUTS, in a process of its own.

It needs no compiler. It is alpha software by one author, so it is pinned and never runs in the
caller's process; what it cannot do is left to CmdStan.
"""

from pyflowers.engines.stanli.engine import StanliEngine, StanliProgram, stanli_is_installed

__all__ = ["StanliEngine", "StanliProgram", "stanli_is_installed"]
