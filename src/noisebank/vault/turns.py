"""Turns among the threads of one process."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from contextlib import AbstractContextManager, ExitStack


class Turns:
    """One at a time for each name, taken in one order so that no two groups wait for each other."""

    def __init__(self) -> None:
        self._locks: dict[bytes, threading.Lock] = {}

    def __call__(self, names: Sequence[bytes]) -> AbstractContextManager[object]:
        held = ExitStack()
        try:
            for name in sorted(set(names)):
                held.enter_context(self._locks.setdefault(name, threading.Lock()))
        except BaseException:
            held.close()
            raise
        return held
