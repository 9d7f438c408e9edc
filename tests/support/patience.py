"""How long tests wait: for events, and as long as it takes. A deadline is there to end a hang, never to judge.

A machine may be busy with other things, so every deadline is generous, and NOISEBANK_PATIENCE=3 makes all of them three
times as long. A test whose judgement is about time itself uses a clock of its own, or has the marker `timing`.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable
from typing import TypeVar

Result = TypeVar("Result")

FACTOR = float(os.environ.get("NOISEBANK_PATIENCE") or 1)
LONG = 120.0
"""Seconds: what takes longer hangs."""
POLL = 0.01


def patience(seconds: float = LONG) -> float:
    """Returns how many seconds to wait before something counts as hanging; never less than two minutes by default."""
    return max(seconds, LONG) * FACTOR


def wait_until(
    condition: Callable[[], Result],
    what: str | Callable[[], str],
    seconds: float = LONG,
    poll: float = POLL,
    progress: Callable[[], object] = lambda: None,
) -> Result:
    """Waits until the condition holds and returns what it returned; `what` names it, should it never happen.

    Whenever `progress` returns something new, the deadline starts again: long work may take as long as it takes, and
    work that stands still fails soon, whatever the machine.
    """
    deadline, before = time.monotonic() + patience(seconds), progress()
    while not (result := condition()):
        if (now := progress()) != before:
            deadline, before = time.monotonic() + patience(seconds), now
        elif time.monotonic() > deadline:
            raise AssertionError(f"this never happened: {what if isinstance(what, str) else what()}")
        time.sleep(poll)
    return result


def join_threads(threads: Iterable[threading.Thread]) -> None:
    """Waits until all of them have ended."""
    for thread in threads:
        thread.join(patience())
        assert not thread.is_alive(), f"{thread.name} does not end"
