"""A signal ends a command, even if it arrives within a destructor or a callback."""

import signal
import subprocess
import sys

import pytest

PLANTED = """
import os, signal, sys, weakref
import pyflowers.cli.machine as machine
from pyflowers.cli.main import main

class Planted:
    def __del__(self):
        os.kill(os.getpid(), getattr(signal, sys.argv[1]))

def by_destructor():
    Planted()

def by_callback():
    class Thing: pass
    thing = Thing()
    weakref.finalize(thing, Planted.__del__, None)
    kept = weakref.ref(thing, Planted.__del__)
    del thing

def planted(*args, **options):
    globals()[sys.argv[2]]()
    if sys.argv[3] == "fails":
        raise ValueError("of the command")
    return 0

machine.doctor_command.callback = planted
main(["doctor"])
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="signals are sent with os.kill")
@pytest.mark.parametrize("then", ["goes on", "fails"])
@pytest.mark.parametrize("where", ["by_destructor", "by_callback"])
@pytest.mark.parametrize(("name", "word"), [("SIGTERM", "terminated"), ("SIGINT", "interrupted")])
def test_a_signal_within_a_destructor_or_callback_ends_the_command(name, word, where, then):
    done = subprocess.run(
        [sys.executable, "-c", PLANTED, name, where, then], capture_output=True, text=True
    )
    assert done.returncode == 128 + getattr(signal, name)
    assert done.stderr == f"{word}\n"
