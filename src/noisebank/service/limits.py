"""Limits on load: token buckets per caller, and a pool of worker threads with a bounded queue."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from queue import SimpleQueue
from threading import Thread
from typing import Any, TypeVar

from noisebank.service.errors import ApiError

Result = TypeVar("Result")
MAX_CALLERS = 100_000
Job = tuple[Callable[[], Any], asyncio.AbstractEventLoop, "asyncio.Future[Any]"]


class RateLimiter:
    """One token bucket per caller: `rate` requests per second in the long run, `burst` at once."""

    def __init__(self, rate: float, burst: int, now: Callable[[], float] = time.monotonic) -> None:
        self._rate, self._burst, self._now = rate, float(burst), now
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take_token(self, caller: str) -> None:
        """Count one request; raises if it comes too early, and says how many seconds to wait."""
        tokens = self._count_tokens(caller)
        if tokens < 1.0:
            raise ApiError("too-many-requests", "more requests than this caller may make", (1.0 - tokens) / self._rate)
        self._set_tokens(caller, tokens - 1.0)

    def owe_tokens(self, caller: str, count: int) -> None:
        """Count further requests that came with an admitted one. The caller's next request waits for all of them."""
        self._set_tokens(caller, self._count_tokens(caller) - count)

    def _count_tokens(self, caller: str) -> float:
        now = self._now()
        tokens, last = self._buckets.get(caller, (self._burst, now))
        return min(self._burst, tokens + (now - last) * self._rate)

    def _set_tokens(self, caller: str, tokens: float) -> None:
        self._buckets[caller] = tokens, self._now()
        self._buckets.move_to_end(caller)
        while len(self._buckets) > MAX_CALLERS:  # whoever was quiet longest starts with a full bucket again
            self._buckets.popitem(last=False)


class WorkerPool:
    """Runs blocking work on a few threads; a bounded number of jobs may wait for one, further ones are refused."""

    def __init__(self, threads: int, queue: int) -> None:
        self._jobs: SimpleQueue[Job | None] = SimpleQueue()
        self._threads = [Thread(target=self._run_jobs, name=f"worker {index}", daemon=True) for index in range(threads)]
        self._max_jobs, self.active_jobs, self._closed = threads + queue, 0, False
        for thread in self._threads:
            thread.start()

    async def run(self, work: Callable[[], Result]) -> Result:
        """Run work on a thread and return its result. A caller who hangs up does not stop what is reserved."""
        job: Job = self._admit_job(work)
        self._jobs.put(job)
        return await job[2]  # type: ignore[no-any-return]

    def close(self) -> None:
        """Finish the jobs under way and accept no others."""
        self._closed = True
        for _ in self._threads:
            self._jobs.put(None)
        for thread in self._threads:
            thread.join()

    @property
    def is_full(self) -> bool:
        """Whether a further job would be refused."""
        return self.active_jobs >= self._max_jobs or self._closed

    def _admit_job(self, work: Callable[[], Any]) -> Job:
        if self.is_full:
            raise overload_error()
        self.active_jobs += 1
        loop = asyncio.get_running_loop()
        return work, loop, loop.create_future()

    def _run_jobs(self) -> None:
        """Run jobs until None comes. An executor's futures would cost more than the ledger's part of a repeat."""
        while (job := self._jobs.get()) is not None:
            outcome = _capture_outcome(job[0])
            with suppress(RuntimeError):  # the loop may have ended before the job it waited for
                job[1].call_soon_threadsafe(self._finish_job, job, *outcome)

    def _finish_job(self, job: Job, result: Any, error: BaseException | None) -> None:
        self.active_jobs -= 1
        future = job[2]
        if future.cancelled():  # the caller has gone; what was reserved is finished all the same
            return
        if error is None:
            future.set_result(result)
        else:
            future.set_exception(error)


def overload_error() -> ApiError:
    """Return the error for a request that finds the queue full."""
    return ApiError("overloaded", "more requests are waiting than this service holds; ask again soon", 1.0)


def _capture_outcome(work: Callable[[], Any]) -> tuple[Any, BaseException | None]:
    """Return the result of the work, or the exception that it raised."""
    try:
        return work(), None
    except BaseException as error:
        return None, error
