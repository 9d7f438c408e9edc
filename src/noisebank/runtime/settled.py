"""A process that serves for long: what it holds stays, and its threads take longer turns."""

from __future__ import annotations

import atexit
import gc
import sys

YOUNG, MIDDLE, OLD = 200_000, 20, 1_000
"""Objects before the collector looks, and looks before it looks further. What a request leaves has no cycles; what
stays, the books, grows with every answer, and looking through all of it again would cost a tenth of each."""
TURN = 0.05
"""Seconds that a thread keeps the interpreter while others wait. They wait for commits anyway, and give way at each."""


def settle(turn: float = TURN) -> None:
    """For a process that does nothing else: it changes the whole interpreter, so no library call does it."""
    gc.collect()
    gc.freeze()
    atexit.register(gc.unfreeze)  # else what has cycles is never given back, and libraries complain of leaks
    gc.set_threshold(YOUNG, MIDDLE, OLD)
    sys.setswitchinterval(turn)
