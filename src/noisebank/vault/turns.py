"""Turns among the threads and strands of one process."""

from __future__ import annotations

from collections.abc import Sequence

from noisebank.strands import Held, Mutex


class Turns:
    """One at a time for each name, taken in one order so that no two groups wait for each other."""

    def __init__(self) -> None:
        self._mutexes: dict[bytes, Mutex] = {}

    def __call__(self, names: Sequence[bytes]) -> Held:
        ordered = sorted(set(names)) if len(names) > 1 else names
        return Held([self._mutexes.get(name) or self._mutexes.setdefault(name, Mutex()) for name in ordered])
