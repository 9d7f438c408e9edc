"""What strands do not do one by one in their own thread: long work goes to another one, alike work is done at once."""

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
    """Something that is asked for, and what came of it."""

    __slots__ = ("_error", "_made", "_sleep", "item")

    def __init__(self, item: Item) -> None:
        self.item, self._sleep = item, Sleep()
        self._made: Any = None
        self._error: BaseException | None = None

    def do(self, work: Callable[[list[Item]], Sequence[Outcome]]) -> None:
        """Alone; raises nothing."""
        try:
            self.made(work([self.item])[0])
        except BaseException as error:
            self._error = error
            self._sleep.wake()

    def made(self, outcome: Outcome) -> None:
        """Tells whoever has asked."""
        self._made = outcome
        self._sleep.wake()

    def outcome(self) -> Outcome:
        """Waits for it."""
        self._sleep.wait()
        if self._error is not None:
            raise self._error
        return self._made  # type: ignore[no-any-return]


class Helpers:
    """Threads for what is done apart: as many as are needed at once, kept for a while for the next."""

    def __init__(self) -> None:
        self._works: Queue[Work] = Queue()  # a simple one may wait for ever where another thread was quicker
        self._free, self._access = 0, threading.Lock()

    def put(self, work: Work) -> None:
        """Does it in a thread of its own."""
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
                continue  # somebody counts on this one already
            work()
            with self._access:
                self._free += 1


HELPERS = Helpers()


def apart(work: Callable[[], Outcome]) -> Outcome:
    """What takes long and lets go of the interpreter: in a strand it gets a thread of its own, so that others go on."""
    if not in_strand():
        return work()
    asked: Asked[None, Outcome] = Asked(None)
    HELPERS.put(lambda: asked.do(lambda _: [work()]))
    return asked.outcome()


class Gather(Generic[Item, Outcome]):
    """What several strands ask for is done for all of them at once; threads are served alone.

    `work` takes what was asked and returns as many outcomes. If it fails for several, each is tried alone.
    """

    def __init__(self, work: Callable[[list[Item]], Sequence[Outcome]]) -> None:
        self._work = work
        self._waiting: list[Asked[Item, Outcome]] = []
        self._access = threading.Lock()

    def __call__(self, item: Item) -> Outcome:
        if not in_strand():
            return self._work([item])[0]
        asked: Asked[Item, Outcome] = Asked(item)
        with self._access:
            self._waiting.append(asked)
            leads = len(self._waiting) == 1
        if leads:
            let_others()
            with self._access:
                group, self._waiting = self._waiting, []
            self._do(group)
        return asked.outcome()

    def _do(self, group: list[Asked[Item, Outcome]]) -> None:
        if len(group) > 1:
            try:
                made = self._work([asked.item for asked in group])
            except Exception:  # whose fault it was is found below
                pass
            else:
                for asked, outcome in zip(group, made, strict=True):
                    asked.made(outcome)
                return
        for asked in group:
            asked.do(self._work)
