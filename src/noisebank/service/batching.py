"""Batches: one worker thread per table; what arrives while its batch is on its way forms the next one.

So load makes batches large and idleness makes them one: nothing waits for a clock. Items are handed to the thread by a
queue, and all results of a batch come back to the event loop in one call. Nothing below the service knows of this.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Generic, TypeVar

from noisebank.service.limits import overload_error

Item = TypeVar("Item")
Outcome = TypeVar("Outcome")
Work = Callable[[Sequence[Item], bool], Sequence[Outcome]]
"""Returns one outcome per item of a batch. If the second argument (atomic) is true, all succeed or fail together."""


@dataclass(slots=True, eq=False)
class Job(Generic[Item, Outcome]):
    """The items of one caller, who waits for the future."""

    items: Sequence[Item]
    weight: int
    atomic: bool
    future: asyncio.Future[Sequence[Outcome]]


class BatchWorker(Generic[Item, Outcome]):
    """Runs the work of one table on a thread of its own, one batch at a time.

    `weigh_item` says how much of a batch an item takes: at most `max_weight` are worked on at once (but at least one
    caller's), and `max_waiting` further items may wait. To be used from one event loop; its thread counts the items.
    """

    def __init__(
        self, name: str, work: Work[Item, Outcome], max_weight: int, max_waiting: int,
        weigh_item: Callable[[Item], int] = lambda item: 1,
    ) -> None:  # fmt: skip
        self._work, self._max_weight, self._weigh_item = work, max_weight, weigh_item
        self._max_items, self.active_items = max_weight + max_waiting, 0
        self._queue: SimpleQueue[Job[Item, Outcome] | None] = SimpleQueue()
        self._held_back: Job[Item, Outcome] | None = None
        """Taken from the queue, but too large for the batch that was collected then."""
        self._closed = False
        self._thread = Thread(target=self._run_batches, name=f"batches of {name}", daemon=True)
        self._thread.start()

    @property
    def is_full(self) -> bool:
        """Whether a further item would be refused."""
        return self.active_items >= self._max_items or self._closed

    async def run(self, items: Sequence[Item], *, atomic: bool = False, is_admitted: bool = False) -> Sequence[Outcome]:
        """Run items as part of a batch and return their outcomes; raises overloaded if too many wait.

        A caller who goes away does not stop a batch that has begun. `is_admitted` is for the further parts of a
        request whose first part was let in.
        """
        if self._closed or (self.is_full and not is_admitted):
            raise overload_error()
        self.active_items += len(items)
        weight = sum(map(self._weigh_item, items))
        job: Job[Item, Outcome] = Job(items, weight, atomic, asyncio.get_running_loop().create_future())
        self._queue.put(job)
        return await job.future

    def split_items(self, items: Sequence[Item]) -> list[Sequence[Item]]:
        """Split the items of one request into parts that fit into a batch, in their order."""
        parts: list[list[Item]] = []
        weight = 0
        for item in items:
            weight += self._weigh_item(item)
            if not parts or weight > self._max_weight:
                parts.append([])
                weight = self._weigh_item(item)
            parts[-1].append(item)
        return list(parts)

    def close(self) -> None:
        """Finish what was let in, and let in nothing else. Called in the event loop's thread."""
        if not self._closed:
            self._closed = True
            self._queue.put(None)
            self._thread.join()

    # -- on the worker's thread ----------------------------------------------------------------

    def _run_batches(self) -> None:
        while batch := self._take_batch():
            abandoned = [job for job in batch if job.future.done()]  # their callers have gone: nothing was begun
            together = [job for job in batch if not job.atomic and job not in abandoned]
            groups = [[job] for job in batch if job.atomic and job not in abandoned]
            for jobs in filter(None, (together, *groups)):
                self._run_jobs(jobs)
            if abandoned:
                self._call_loop(abandoned, ())

    def _take_batch(self) -> list[Job[Item, Outcome]]:
        """Wait for a job; return it with all others that are there and fit. Empty after the last one."""
        job = self._held_back or self._queue.get()
        batch: list[Job[Item, Outcome]] = []
        weight, self._held_back = 0, None
        while job is not None:
            if batch and weight + job.weight > self._max_weight:
                self._held_back = job
                return batch
            batch.append(job)
            weight += job.weight
            try:
                job = self._queue.get_nowait()
            except Empty:
                return batch
        if batch:
            self._queue.put(None)  # for the next call: this batch is the last
        return batch

    def _run_jobs(self, jobs: Sequence[Job[Item, Outcome]]) -> None:
        try:
            outcomes = self._work([item for job in jobs for item in job.items], jobs[0].atomic)
        except BaseException as error:
            self._call_loop(jobs, error)
        else:
            self._call_loop(jobs, outcomes)

    def _call_loop(self, jobs: Sequence[Job[Item, Outcome]], outcomes: Sequence[Outcome] | BaseException) -> None:
        """Give all outcomes to the event loop in one call: each call wakes it."""
        with suppress(RuntimeError):  # the loop may have ended before the batch that it waited for
            jobs[0].future.get_loop().call_soon_threadsafe(self._finish_jobs, jobs, outcomes)

    # -- on the event loop's thread ------------------------------------------------------------

    def _finish_jobs(self, jobs: Sequence[Job[Item, Outcome]], outcomes: Sequence[Outcome] | BaseException) -> None:
        start = 0
        for job in jobs:
            stop = start + len(job.items)
            if job.future.done():  # the caller has gone; what was charged is finished all the same
                pass
            elif isinstance(outcomes, BaseException):
                job.future.set_exception(outcomes)
            else:
                job.future.set_result(outcomes[start:stop])
            start = stop
        self.active_items -= start
