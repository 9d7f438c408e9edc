"""Bounds the work of reading one statement: counted in steps, so what is answered never depends on a clock.

Quotes are free, so nobody may keep a bank busy with a text. Each aggregate of a SELECT reads its conditions and
functions by itself: each of them is small, and sixty of them are not.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from noisebank.core.errors import UnsupportedQuery

MAX_STEPS = 500_000
"""Of one statement: ranges of conditions, and twice the values of functions. Five seconds of one core at worst."""


class Effort:
    """Counts the steps that one statement has taken."""

    def __init__(self, limit: int = MAX_STEPS) -> None:
        self.limit, self.steps = limit, 0

    def add_steps(self, count: int) -> None:
        """Notes work that is about to be done; raises `UnsupportedQuery` where it is too much."""
        if self.steps <= self.limit:
            self.steps += count
        if self.steps > self.limit:
            raise UnsupportedQuery(
                "a statement that takes this long to read", "ask for fewer results, or for simpler conditions"
            )


CURRENT: ContextVar[Effort | None] = ContextVar("CURRENT", default=None)


@contextmanager
def limit_effort(limit: int = MAX_STEPS) -> Iterator[Effort]:
    """Bounds what is read in this block, which is one statement."""
    effort = Effort(limit)
    token = CURRENT.set(effort)
    try:
        yield effort
    finally:
        CURRENT.reset(token)


def add_steps(count: int) -> None:
    """Notes work for the statement that is read now, if there is one."""
    effort = CURRENT.get()
    if effort is not None:
        effort.add_steps(count)
