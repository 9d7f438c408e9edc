"""Strands: several requests in one thread, each going on where another would only wait.

A request waits for the disk again and again. Threads that wake each other for that cost more than what they then do, so
a busy process walks for many in one thread, that of its event loop: where a thread would sleep, a strand lets the
others go on, and whoever commits for a group first lets all others come to the same place. Nothing else changes: code
in a strand reads and runs as it would in a thread of its own, and both can wait for each other.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from queue import SimpleQueue
from time import monotonic
from types import TracebackType
from typing import Protocol

from greenlet import getcurrent, greenlet

Work = Callable[[], None]
SHORT_TURN, LONG_TURN = 0.01, 0.1
"""Seconds that strands may take before the loop reads and writes again: as long as it did so before, within these.
Those who are turned away, however many come, then leave about half of the time to those inside."""
MOST_PASSED = 6
"""How often the oldest of those that wait for all others is passed by: about as often as a request waits."""


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


class Host(Protocol):
    """An event loop, as far as a loom needs one."""

    def call_soon(self, work: Work, /) -> object:
        """Does it later, in the loop's thread; called there."""
        ...

    def call_soon_threadsafe(self, work: Work, /) -> object:
        """The same from any thread; RuntimeError if the loop has ended."""
        ...


class Loom:
    """Strands in the thread of an event loop: `most` at once, all others wait to begin.

    The thread that reads requests is the one that walks for them: two of them would take the interpreter from each
    other at every request, which costs as much again as what they do.
    """

    def __init__(self, most: int, host: Host) -> None:
        self._most, self.host = most, host
        self._thread = threading.get_ident()
        self._woken: SimpleQueue[Strand] = SimpleQueue()
        """By other threads."""
        self._begun, self._passed, self._due, self._patient = 0, 0, False, False
        self._left = monotonic()
        """When strands last let the loop go on."""
        self._idle: list[Strand] = []
        self._waiting: deque[Work] = deque()
        self._ready: deque[Strand] = deque()
        self._later: deque[Strand] = deque()

    def begin(self, work: Work) -> None:
        """In a strand, soon; called in the loop's thread. What it does must raise nothing."""
        self._waiting.append(work)
        self._soon()

    def resume(self, strand: Strand) -> None:
        """A strand need not wait any longer; from any thread."""
        if threading.get_ident() == self._thread:
            self._ready.append(strand)
            self._soon()
        else:
            self._woken.put(strand)
            with suppress(RuntimeError):  # the loop has ended: `close` looks, too
                self.host.call_soon_threadsafe(self._turn)

    def after_others(self, strand: Strand) -> None:
        """Rests until no other strand can go on."""
        self._later.append(strand)
        self._soon()
        while strand in self._later:
            strand.rest()

    def close(self) -> None:
        """Finishes all that was begun; called in the loop's thread."""
        while (more := self._went_on()) or self._begun:
            if not more:
                self._step(self._last() if self._later else self._woken.get())
        for strand in self._idle:
            strand.switch()  # each ends in the thread that it began in
        self._idle = []

    def _soon(self) -> None:
        if not self._due:
            self._due = True
            self.host.call_soon(self._turn)

    def _turn(self) -> None:
        """All go as far as they can. Whoever wants to come after all others also waits for what the loop reads next."""
        self._due = False
        if self._went_on():
            self._soon()
        elif self._later:
            if self._patient:
                self._step(self._last())
            self._patient = not self._patient
            self._soon()

    def _last(self) -> Strand:
        """Of those that come after all others, the newest: it may come to where an older one waits, and share what that
        one does. None is passed by too often."""
        if self._passed >= MOST_PASSED or len(self._later) == 1:
            self._passed = 0
            return self._later.popleft()
        self._passed += 1
        return self._later.pop()

    def _went_on(self) -> bool:
        """Lets strands go on for a while; whether there are more that could go on now."""
        now = monotonic()
        until = now + min(max(now - self._left, SHORT_TURN), LONG_TURN)
        try:
            return self._walked(until)
        finally:
            self._left = monotonic()

    def _walked(self, until: float) -> bool:
        while monotonic() < until:
            while not self._woken.empty():
                self._ready.append(self._woken.get())
            while self._waiting and self._begun < self._most:
                self._begun += 1
                strand = self._idle.pop() if self._idle else Strand(self)
                strand.work = self._waiting.popleft()
                self._ready.append(strand)
            if not self._ready:
                return False
            self._step(self._ready.popleft())
        return True

    def _step(self, strand: Strand) -> None:
        if strand.work is None:  # resumed too late: what it waited for has ended
            return
        strand.switch()
        if strand.work is None:
            self._begun -= 1
            self._idle.append(strand)


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


def in_strand() -> bool:
    """Whether this is one; else it is a thread."""
    return isinstance(getcurrent(), Strand)


def let_others() -> None:
    """In a strand: after all others of its thread have gone as far as they can. In a thread: at once."""
    here = getcurrent()
    if isinstance(here, Strand):
        here.loom.after_others(here)
