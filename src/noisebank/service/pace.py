"""How fast somebody may ask, and how much may wait: token buckets, and a bounded room in front of the threads."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from noisebank.service.problems import Turned

Made = TypeVar("Made")
MOST_CALLERS = 100_000


class Pace:
    """A token bucket a caller: `rate` a second in the long run, `burst` at once."""

    def __init__(self, rate: float, burst: int, now: Callable[[], float] = time.monotonic) -> None:
        self._rate, self._burst, self._now = rate, float(burst), now
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, caller: str) -> None:
        """One request; raises when it comes too early, and says when it would not."""
        now = self._now()
        tokens, last = self._buckets.get(caller, (self._burst, now))
        tokens = min(self._burst, tokens + (now - last) * self._rate)
        if tokens < 1.0:
            raise Turned("too-many-requests", "more requests than this caller may make", (1.0 - tokens) / self._rate)
        self._buckets[caller] = tokens - 1.0, now
        self._buckets.move_to_end(caller)
        while len(self._buckets) > MOST_CALLERS:  # whoever was quiet longest starts with a full bucket again
            self._buckets.popitem(last=False)


class Room:
    """Blocking work on a few threads; a bounded number may wait for one, and nobody more."""

    def __init__(self, threads: int, queue: int) -> None:
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="asker")
        self._most, self.inside, self._closed = threads + queue, 0, False

    async def run(self, work: Callable[[], Made]) -> Made:
        """Does the work and waits for it. A caller who hangs up does not stop what is reserved."""
        if self.inside >= self._most or self._closed:
            raise Turned("overloaded", "more requests are waiting than this service holds; ask again soon", 1.0)
        self.inside += 1
        done = asyncio.get_running_loop().run_in_executor(self._threads, work)
        done.add_done_callback(self._leave)
        return await asyncio.shield(done)

    def _leave(self, done: asyncio.Future[Made]) -> None:
        self.inside -= 1
        if not done.cancelled():
            done.exception()  # seen, also where the caller has gone

    def close(self) -> None:
        """Finishes what is under way; takes nothing new."""
        self._closed = True
        self._threads.shutdown(wait=True)
