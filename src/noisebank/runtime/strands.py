"""Strands: fibers (greenlets) that serve several requests in one thread, that of the event loop.

A request waits for the disk again and again, and waking threads for that costs more than the work that follows. So
where a thread would sleep, a strand yields to the others, and the leader of a group commit first lets all others reach
the same commit. Code in a strand reads and runs as it would in a thread of its own; strands and threads can wait for
each other.
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
"""Bounds in seconds of a turn of the strands, which is as long as the loop's last turn. So rejecting requests, however
many come, takes at most about half of the time."""
MOST_PASSED = 6
"""How often the oldest strand in `_later` is passed over: about as often as a request waits."""


class Strand(greenlet):  # type: ignore[misc]  # greenlet says nothing of its types
    """A fiber. It is reused for one work after the other: a new one costs the allocation of its stack."""

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
        """Yields until resumed. May be resumed for no reason: callers check again what they wait for."""
        assert self.parent is not None
        self.parent.switch()


class Host(Protocol):
    """An event loop, as far as a loom needs one."""

    def call_soon(self, work: Work, /) -> object:
        """Runs the work later, in the loop's thread; called there."""
        ...

    def call_soon_threadsafe(self, work: Work, /) -> object:
        """The same from any thread; RuntimeError if the loop has ended."""
        ...


class Loom:
    """Scheduler of strands in the thread of an event loop: at most `most` at once, all others wait to begin.

    The thread that reads requests also serves them: two threads would take the interpreter from each other at every
    request, which costs as much again as the work.
    """

    def __init__(self, most: int, host: Host) -> None:
        self._most, self.host = most, host
        self._thread = threading.get_ident()
        self._woken: SimpleQueue[Strand] = SimpleQueue()
        """Strands resumed by other threads."""
        self._begun, self._passed, self._due, self._patient = 0, 0, False, False
        self._left = monotonic()
        """When strands last returned to the loop."""
        self._idle: list[Strand] = []
        self._waiting: deque[Work] = deque()
        self._ready: deque[Strand] = deque()
        self._later: deque[Strand] = deque()

    def begin(self, work: Work) -> None:
        """Runs the work in a strand, soon; called in the loop's thread. The work must raise nothing."""
        self._waiting.append(work)
        self._soon()

    def resume(self, strand: Strand) -> None:
        """Makes a strand ready to go on; from any thread."""
        if threading.get_ident() == self._thread:
            self._ready.append(strand)
            self._soon()
        else:
            self._woken.put(strand)
            with suppress(RuntimeError):  # the loop has ended: `close` looks, too
                self.host.call_soon_threadsafe(self._turn)

    def after_others(self, strand: Strand) -> None:
        """Yields until no other strand can go on."""
        self._later.append(strand)
        self._soon()
        while strand in self._later:
            strand.rest()

    def close(self) -> None:
        """Finishes all strands that have begun; called in the loop's thread."""
        while (more := self._went_on()) or self._begun:
            if not more:
                self._step(self._last() if self._later else self._woken.get())
        for strand in self._idle:
            strand.switch()  # a greenlet must end in the thread that it began in
        self._idle = []

    def _soon(self) -> None:
        if not self._due:
            self._due = True
            self.host.call_soon(self._turn)

    def _turn(self) -> None:
        """Runs all strands as far as they can go. Those in `_later` also wait for what the loop reads next."""
        self._due = False
        if self._went_on():
            self._soon()
        elif self._later:
            if self._patient:
                self._step(self._last())
            self._patient = not self._patient
            self._soon()

    def _last(self) -> Strand:
        """Returns the newest strand in `_later`: it may reach the commit at which an older one waits, and share it. The
        oldest is passed over at most MOST_PASSED times."""
        if self._passed >= MOST_PASSED or len(self._later) == 1:
            self._passed = 0
            return self._later.popleft()
        self._passed += 1
        return self._later.pop()

    def _went_on(self) -> bool:
        """Runs strands for one turn; returns whether more could go on now."""
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
    """Lets its creator sleep until somebody wakes it. A thread blocks; a strand yields to the others of its thread."""

    __slots__ = ("_awake", "_lock", "_resting", "_strand")

    def __init__(self) -> None:
        here = getcurrent()
        self._awake = self._resting = False
        self._strand = here if isinstance(here, Strand) else None
        self._lock: threading.Lock | None = None
        if self._strand is None:
            self._lock = threading.Lock()  # a third of the cost of an Event; a busy ledger needs three per spend
            self._lock.acquire()

    def wait(self) -> None:
        """Waits; returns at once if woken already."""
        if self._strand is None:
            assert self._lock is not None
            self._lock.acquire()
            return
        self._resting = True  # before the check: either the waking thread sees this, or we see that we are awake
        while not self._awake:
            self._strand.rest()

    def wake(self) -> None:
        """Ends the sleep; does nothing if it has ended."""
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
    """A lock for threads and strands alike, granted in the order in which they came."""

    __slots__ = ("_access", "_taken", "_waiting")

    def __init__(self) -> None:
        self._access = threading.Lock()
        self._taken = False
        self._waiting: deque[Sleep] = deque()

    def acquire(self) -> None:
        """Waits for the lock."""
        with self._access:
            if not self._taken:
                self._taken = True
                return
            sleep = Sleep()
            self._waiting.append(sleep)
        try:
            sleep.wait()
        except BaseException:  # interrupted: the next one must not wait for us
            with self._access:
                still = sleep in self._waiting
                if still:
                    self._waiting.remove(sleep)
            if not still:
                self.release()
            raise

    def release(self) -> None:
        """Gives the lock to whoever has waited longest."""
        with self._access:
            following = self._waiting.popleft() if self._waiting else None
            self._taken = following is not None
        if following is not None:
            following.wake()


class Held:
    """Several mutexes, acquired in order and released in reverse order."""

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
        """Releases all of them."""
        while self._held:
            self._held.pop().release()


def in_strand() -> bool:
    """Whether the caller runs in a strand."""
    return isinstance(getcurrent(), Strand)


def let_others() -> None:
    """In a strand: yields until all others of its thread have gone as far as they can. In a thread: does nothing."""
    here = getcurrent()
    if isinstance(here, Strand):
        here.loom.after_others(here)
