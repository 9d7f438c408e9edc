"""`NamedLocks`: one lock per name among the threads of one process."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager

LOCKS = 4_096


class NamedLocks:
    """Takes the locks of several names, always in the same order, so that there is no deadlock. Not reentrant.

    Names share a fixed number of locks, so memory does not grow with the names.
    """

    def __init__(self) -> None:
        self._locks: dict[int, threading.Lock] = {}

    @contextmanager
    def __call__(self, names: Sequence[bytes]) -> Iterator[None]:
        with ExitStack() as stack:
            for number in sorted({hash(name) % LOCKS for name in names}):
                stack.enter_context(self._locks.get(number) or self._locks.setdefault(number, threading.Lock()))
            yield
