"""Settings of the interpreter for a process that serves for long: garbage collection and thread switching."""

from __future__ import annotations

import atexit
import gc
import sys

YOUNG, MIDDLE, OLD = 200_000, 20, 1_000
"""Thresholds of the garbage collector. Requests leave no cycles; the books grow with every answer, and collecting over
all of them again and again would cost a tenth of each answer."""
TURN = 0.05
"""Seconds that a thread keeps the interpreter while others wait. Threads wait for commits anyway, and yield at each."""


def tune_interpreter(turn: float = TURN) -> None:
    """Applies the settings. Only for a process that does nothing else: they change the whole interpreter."""
    gc.collect()
    gc.freeze()
    atexit.register(gc.unfreeze)  # else objects in cycles are never freed, and libraries report leaks
    gc.set_threshold(YOUNG, MIDDLE, OLD)
    sys.setswitchinterval(turn)
