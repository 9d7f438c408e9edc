"""Turns among the threads and strands of one process."""

from __future__ import annotations

from collections.abc import Sequence

from noisebank.runtime.strands import Held, Mutex

LOCKS = 4_096


class Turns:
    """One at a time for each name, taken in one order so that no two groups wait for each other.

    Names share a fixed number of locks: a name that was asked for once, or refused, leaves nothing behind.
    """

    def __init__(self) -> None:
        self._mutexes: dict[int, Mutex] = {}

    def __call__(self, names: Sequence[bytes]) -> Held:
        numbers = sorted({hash(name) % LOCKS for name in names})
        return Held([self._mutexes.get(number) or self._mutexes.setdefault(number, Mutex()) for number in numbers])
