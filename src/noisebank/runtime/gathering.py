"""Batching: `Gather` runs one function for many waiting strands at once; `apart` runs long work in another thread."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from queue import Empty, Queue
from typing import Any, Generic, TypeVar

from noisebank.runtime.strands import Sleep, Work, in_strand, let_others

Item = TypeVar("Item")
Outcome = TypeVar("Outcome")
KEPT = 5.0
"""Seconds that a helper waits for the next work before it ends."""


class Asked(Generic[Item, Outcome]):
    """An item that a caller waits for, and its outcome."""

    __slots__ = ("_error", "_made", "_sleep", "item")

    def __init__(self, item: Item) -> None:
        self.item, self._sleep = item, Sleep()
        self._made: Any = None
        self._error: BaseException | None = None

    def do(self, work: Callable[[list[Item]], Sequence[Outcome]]) -> None:
        """Runs the work for this item alone; raises nothing."""
        try:
            self.made(work([self.item])[0])
        except BaseException as error:
            self._error = error
            self._sleep.wake()

    def made(self, outcome: Outcome) -> None:
        """Sets the outcome and wakes the caller."""
        self._made = outcome
        self._sleep.wake()

    def outcome(self) -> Outcome:
        """Waits for the outcome and returns it, or raises the error."""
        self._sleep.wait()
        if self._error is not None:
            raise self._error
        return self._made  # type: ignore[no-any-return]


class Helpers:
    """Worker threads: as many as are needed at once, kept for a while for the next work."""

    def __init__(self) -> None:
        self._works: Queue[Work] = Queue()  # SimpleQueue.get may wait for ever when another thread was quicker
        self._free, self._access = 0, threading.Lock()

    def put(self, work: Work) -> None:
        """Runs the work in a thread of its own."""
        with self._access:
            spare = self._free > 0
            self._free -= spare
        self._works.put(work)
        if not spare:
            threading.Thread(target=self._live, name="apart", daemon=True).start()

    def _live(self) -> None:
        while True:
            try:
                work = self._works.get(timeout=KEPT)
            except Empty:
                with self._access:
                    if self._free:
                        self._free -= 1
                        return
                continue  # work was assigned to this thread already
            work()
            with self._access:
                self._free += 1


HELPERS = Helpers()


def apart(work: Callable[[], Outcome]) -> Outcome:
    """Runs work that takes long and releases the interpreter; in a strand, in another thread, so that others go on."""
    if not in_strand():
        return work()
    pending: Asked[None, Outcome] = Asked(None)
    HELPERS.put(lambda: pending.do(lambda _: [work()]))
    return pending.outcome()


class Gather(Generic[Item, Outcome]):
    """Runs `work` once for the items of several strands; threads are served alone.

    `work` takes a list of items and returns as many outcomes. If it fails for several, each is tried alone.
    """

    def __init__(self, work: Callable[[list[Item]], Sequence[Outcome]]) -> None:
        self._work = work
        self._waiting: list[Asked[Item, Outcome]] = []
        self._access = threading.Lock()

    def __call__(self, item: Item) -> Outcome:
        if not in_strand():
            return self._work([item])[0]
        pending: Asked[Item, Outcome] = Asked(item)
        with self._access:
            self._waiting.append(pending)
            leads = len(self._waiting) == 1
        if leads:
            let_others()
            with self._access:
                group, self._waiting = self._waiting, []
            self._do(group)
        return pending.outcome()

    def _do(self, group: list[Asked[Item, Outcome]]) -> None:
        if len(group) > 1:
            try:
                outcomes = self._work([pending.item for pending in group])
            except Exception:  # which item failed is found below, one by one
                pass
            else:
                for pending, outcome in zip(group, outcomes, strict=True):
                    pending.made(outcome)
                return
        for pending in group:
            pending.do(self._work)
