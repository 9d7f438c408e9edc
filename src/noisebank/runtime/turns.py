"""`Turns`: one lock per name among the threads and strands of one process."""

from __future__ import annotations

from collections.abc import Sequence

from noisebank.runtime.strands import Held, Mutex

LOCKS = 4_096


class Turns:
    """Takes the locks of several names, always in the same order, so that there is no deadlock.

    Names share a fixed number of locks, so memory does not grow with the names.
    """

    def __init__(self) -> None:
        self._mutexes: dict[int, Mutex] = {}

    def __call__(self, names: Sequence[bytes]) -> Held:
        numbers = sorted({hash(name) % LOCKS for name in names})
        return Held([self._mutexes.get(number) or self._mutexes.setdefault(number, Mutex()) for number in numbers])
