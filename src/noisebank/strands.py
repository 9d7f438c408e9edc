"""Strands: several requests in one thread, each going on where another would only wait.

A request waits for the disk again and again. Threads that wake each other for that cost more than what they then do, so
a busy process walks for many in one thread, a `Loom`: where a thread would sleep, a strand lets the others go on, and
whoever commits for a group first lets all others come to the same place. Nothing else changes: code in a strand reads
and runs as it would in a thread of its own, and both can wait for each other.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from queue import SimpleQueue
from types import TracebackType
from typing import Any, Generic, TypeVar

from greenlet import getcurrent, greenlet

Work = Callable[[], None]
Item = TypeVar("Item")
Outcome = TypeVar("Outcome")


class Strand(greenlet):  # type: ignore[misc]  # greenlet says nothing of its types
    """One of several that share a thread. It does one work after the other: the stack of a new one comes from the
    system, page by page, and goes back to it."""

    def __init__(self, loom: Loom) -> None:
        super().__init__(self._live)
        self.loom = loom
        self.work: Work | None = None

    def _live(self) -> None:
        while self.work is not None:
            self.work()
            self.work = None
            self.rest()

    def rest(self) -> None:
        """Until resumed; perhaps for no reason, so whoever rests looks again."""
        assert self.parent is not None
        self.parent.switch()


class Loom:
    """A thread with its strands: `most` at once, all others wait to begin. `between` is called whenever all strands
    have come as far as they could."""

    def __init__(self, most: int, between: Work, name: str) -> None:
        self._most, self._between = most, between
        self._inbox: SimpleQueue[Strand | Work | None] = SimpleQueue()
        self._begun = 0
        self._idle: list[Strand] = []
        self._waiting: deque[Work] = deque()
        self._ready: deque[Strand] = deque()
        self._later: deque[Strand] = deque()
        self._thread = threading.Thread(target=self._live, name=name, daemon=True)
        self._thread.start()

    def begin(self, work: Work) -> None:
        """A new strand, from any thread. What it does must raise nothing."""
        self._inbox.put(work)

    def resume(self, strand: Strand) -> None:
        """A strand need not wait any longer; from any thread."""
        if threading.get_ident() == self._thread.ident:
            self._ready.append(strand)
        else:
            self._inbox.put(strand)

    def after_others(self, strand: Strand) -> None:
        """Rests until no other strand can go on."""
        self._later.append(strand)
        while strand in self._later:
            strand.rest()

    def close(self) -> None:
        """Once all that was begun has ended."""
        self._inbox.put(None)
        self._thread.join()

    def _live(self) -> None:
        ready, later, open_ = self._ready, self._later, True
        while open_ or self._begun or self._waiting:
            if not ready:
                self._between()
            while not self._inbox.empty() or not (ready or later):
                come = self._inbox.get()
                if isinstance(come, Strand):
                    ready.append(come)
                elif come is not None:
                    self._waiting.append(come)
                    self._start()
                else:
                    open_ = False
                    break
            if ready or later:
                strand = ready.popleft() if ready else later.popleft()
                if strand.work is not None:  # else it was resumed too late: what it waited for has ended
                    strand.switch()
                    if strand.work is None:
                        self._begun -= 1
                        self._idle.append(strand)
                        self._start()
        for strand in self._idle:
            strand.switch()  # each ends in the thread that it began in

    def _start(self) -> None:
        while self._waiting and self._begun < self._most:
            self._begun += 1
            strand = self._idle.pop() if self._idle else Strand(self)
            strand.work = self._waiting.popleft()
            self._ready.append(strand)


class Sleep:
    """Until somebody else wakes whoever made it. A thread sleeps; a strand lets the others of its thread go on."""

    __slots__ = ("_awake", "_lock", "_resting", "_strand")

    def __init__(self) -> None:
        here = getcurrent()
        self._awake = self._resting = False
        self._strand = here if isinstance(here, Strand) else None
        self._lock: threading.Lock | None = None
        if self._strand is None:
            self._lock = threading.Lock()  # a third of an event's work, and a busy ledger has three of these a spend
            self._lock.acquire()

    def wait(self) -> None:
        """At once if woken already."""
        if self._strand is None:
            assert self._lock is not None
            self._lock.acquire()
            return
        self._resting = (
            True  # before looking: whoever wakes us from another thread sees it, or we see that we are awake
        )
        while not self._awake:
            self._strand.rest()

    def wake(self) -> None:
        """Ends the sleep; does nothing if somebody has."""
        if self._awake:
            return
        self._awake = True
        if self._strand is not None:
            if self._resting:
                self._strand.loom.resume(self._strand)
            return
        assert self._lock is not None
        try:  # noqa: SIM105 - `suppress` takes longer than all the rest
            self._lock.release()
        except RuntimeError:
            pass


class Mutex:
    """One at a time, threads and strands alike, in the order in which they came."""

    __slots__ = ("_access", "_taken", "_waiting")

    def __init__(self) -> None:
        self._access = threading.Lock()
        self._taken = False
        self._waiting: deque[Sleep] = deque()

    def acquire(self) -> None:
        """Waits until it is one's own."""
        with self._access:
            if not self._taken:
                self._taken = True
                return
            sleep = Sleep()
            self._waiting.append(sleep)
        try:
            sleep.wait()
        except BaseException:  # interrupted: whoever comes next must not wait for us
            with self._access:
                still = sleep in self._waiting
                if still:
                    self._waiting.remove(sleep)
            if not still:
                self.release()
            raise

    def release(self) -> None:
        """Hands it to whoever has waited longest."""
        with self._access:
            following = self._waiting.popleft() if self._waiting else None
            self._taken = following is not None
        if following is not None:
            following.wake()


class Held:
    """Several mutexes, taken in the order given, given back in the other."""

    __slots__ = ("_held",)

    def __init__(self, mutexes: Sequence[Mutex]) -> None:
        self._held: list[Mutex] = []
        try:
            for mutex in mutexes:
                mutex.acquire()
                self._held.append(mutex)
        except BaseException:
            self.release()
            raise

    def __enter__(self) -> Held:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()

    def release(self) -> None:
        """Gives all of them back."""
        while self._held:
            self._held.pop().release()


def let_others() -> None:
    """In a strand: after all others of its thread have gone as far as they can. In a thread: at once."""
    here = getcurrent()
    if isinstance(here, Strand):
        here.loom.after_others(here)


def apart(work: Callable[[], Outcome]) -> Outcome:
    """What takes long and lets go of the interpreter: in a strand it gets a thread of its own, so that others go on."""
    if not isinstance(getcurrent(), Strand):
        return work()
    asked: Asked[None, Outcome] = Asked(None)
    threading.Thread(target=lambda: asked.do(lambda _: [work()]), name="apart", daemon=True).start()
    return asked.outcome()


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


class Gather(Generic[Item, Outcome]):
    """What several strands ask for is done for all of them at once; threads are served alone.

    `work` takes what was asked and returns as many outcomes. If it fails for several, each is tried alone.
    """

    def __init__(self, work: Callable[[list[Item]], Sequence[Outcome]]) -> None:
        self._work = work
        self._waiting: list[Asked[Item, Outcome]] = []
        self._access = threading.Lock()

    def __call__(self, item: Item) -> Outcome:
        if not isinstance(getcurrent(), Strand):
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
