"""A process that serves for long starts clean: what was garbage before is not kept for good."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import gc, weakref
from noisebank.service.interpreter import MIDDLE, OLD, TURN, YOUNG, tune_interpreter

class Thing: pass

gc.disable()
cycle, kept = Thing(), Thing()
cycle.own, gone, there = cycle, weakref.ref(cycle), weakref.ref(kept)
del cycle
assert gone() is not None
tune_interpreter()
assert gone() is None and there() is kept, "frozen with what lives"
import sys
assert gc.get_freeze_count() > 1000 and gc.get_threshold() == (YOUNG, MIDDLE, OLD)
assert abs(sys.getswitchinterval() - TURN) < 1e-6
"""


def test_garbage_is_collected_before_what_lives_is_frozen() -> None:
    subprocess.run([sys.executable, "-c", PROGRAM], check=True)
