"""`BatchWorker`: what arrives while a batch is on its way forms the next one; bounds, disconnects, shutdown."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from noisebank.service.batching import BatchWorker
from noisebank.service.errors import ApiError
from support.patience import patience


class Table:
    """A made-up table: doubles numbers, refuses multiples of seven, and can be held up at every batch."""

    def __init__(self, is_held: bool = False) -> None:
        self.batches: list[list[int]] = []
        self.atomic: list[bool] = []
        self.begun, self.released = threading.Semaphore(0), threading.Semaphore(0)
        self.is_held = is_held

    def __call__(self, items: Sequence[int], atomic: bool) -> list[int | str]:
        self.batches.append(list(items))
        self.atomic.append(atomic)
        self.begun.release()
        if self.is_held:
            assert self.released.acquire(timeout=patience())
        if any(item < 0 for item in items):
            raise ZeroDivisionError
        return [f"not {item}" if item % 7 == 0 else 2 * item for item in items]

    async def wait_begun(self) -> None:
        assert await asyncio.to_thread(self.begun.acquire, True, patience())


def run_with(worker: BatchWorker[int, int | str], play: Callable[[], Awaitable[None]]) -> None:
    async def both() -> None:
        try:
            await asyncio.wait_for(play(), patience())
        finally:
            worker.close()

    asyncio.run(both())


def test_idleness_makes_batches_of_one_and_load_makes_them_large() -> None:
    table = Table(is_held=True)
    worker = BatchWorker("t", table, 100, 100)

    async def play() -> None:
        first = asyncio.ensure_future(worker.run([1]))
        await table.wait_begun()
        others = [asyncio.ensure_future(worker.run([number])) for number in range(2, 40)]
        await asyncio.sleep(0)
        assert table.batches == [[1]] and worker.active_items == 39
        table.released.release(2)
        assert await first == [2]
        assert [await other for other in others] == [
            [f"not {number}" if number % 7 == 0 else 2 * number] for number in range(2, 40)
        ]
        assert table.batches[1:] == [list(range(2, 40))] and worker.active_items == 0

    run_with(worker, play)


def test_a_full_worker_refuses_and_loses_nothing() -> None:
    table = Table(is_held=True)
    worker = BatchWorker("t", table, 2, 3)

    async def play() -> None:
        first = asyncio.ensure_future(worker.run([1]))
        await table.wait_begun()
        waiting = [asyncio.ensure_future(worker.run([number])) for number in (2, 3, 4, 5)]
        await asyncio.sleep(0)
        assert worker.is_full
        with pytest.raises(ApiError) as refused:
            await worker.run([6])
        assert refused.value.name == "overloaded"
        further = asyncio.ensure_future(worker.run([6], is_admitted=True))
        table.released.release(10)
        assert [await each for each in (first, *waiting, further)] == [[2], [4], [6], [8], [10], [12]]
        assert table.batches == [[1], [2, 3], [4, 5], [6]] and not worker.is_full

    run_with(worker, play)


def test_a_slow_table_does_not_hold_up_a_quick_one() -> None:
    slow, quick = Table(is_held=True), Table()
    workers = BatchWorker("slow", slow, 2, 1), BatchWorker("quick", quick, 2, 1)

    async def play() -> None:
        held = [asyncio.ensure_future(workers[0].run([number])) for number in (1, 2, 3)]
        await slow.wait_begun()
        assert workers[0].is_full
        assert [await workers[1].run([number]) for number in range(1, 6)] == [[2], [4], [6], [8], [10]]
        assert not any(each.done() for each in held)
        slow.released.release(5)
        assert [await each for each in held] == [[2], [4], [6]]
        workers[1].close()

    run_with(workers[0], play)


def test_callers_who_go_away_do_not_matter_to_others() -> None:
    table = Table(is_held=True)
    worker = BatchWorker("t", table, 100, 100)

    async def play() -> None:
        first = asyncio.ensure_future(worker.run([1]))
        await table.wait_begun()
        others = [asyncio.ensure_future(worker.run([number])) for number in (2, 3, 4)]
        await asyncio.sleep(0)
        first.cancel()  # in the middle of its batch
        others[1].cancel()  # before its batch: it is not begun
        table.released.release(5)
        assert await others[0] == [4] and await others[2] == [8]
        assert table.batches == [[1], [2, 4]]
        assert await worker.run([5]) == [10] and worker.active_items == 0

    run_with(worker, play)


def test_a_mistake_of_the_work_is_told_to_all_of_its_batch_and_to_nobody_else() -> None:
    table = Table(is_held=True)
    worker = BatchWorker("t", table, 100, 100)

    async def play() -> None:
        first = asyncio.ensure_future(worker.run([1]))
        await table.wait_begun()
        failing = [asyncio.ensure_future(worker.run([number])) for number in (-1, 2)]
        table.released.release(5)
        assert await first == [2]
        for each in failing:
            with pytest.raises(ZeroDivisionError):
                await each
        assert await worker.run([3]) == [6] and worker.active_items == 0

    run_with(worker, play)


def test_an_atomic_request_is_a_batch_of_its_own() -> None:
    table = Table(is_held=True)
    worker = BatchWorker("t", table, 100, 100)

    async def play() -> None:
        first = asyncio.ensure_future(worker.run([1]))
        await table.wait_begun()
        others = [
            asyncio.ensure_future(worker.run(items, atomic=atomic))
            for items, atomic in (([2], False), ([3, 4], True), ([5, 6], False))
        ]
        table.released.release(5)
        await asyncio.gather(first, *others)
        assert table.batches == [[1], [2, 5, 6], [3, 4]] and table.atomic == [False, False, True]

    run_with(worker, play)


def test_a_shutdown_finishes_what_was_let_in() -> None:
    table = Table(is_held=True)
    worker = BatchWorker("t", table, 2, 100)

    async def play() -> None:
        jobs = [asyncio.ensure_future(worker.run([number])) for number in range(1, 8)]
        await table.wait_begun()
        table.released.release(10)
        worker.close()
        with pytest.raises(ApiError):
            await worker.run([9])
        assert [await job for job in jobs] == [[2], [4], [6], [8], [10], [12], ["not 7"]]

    run_with(worker, play)


def test_a_loop_that_has_ended_does_not_stop_the_worker() -> None:
    table = Table(is_held=True)
    worker = BatchWorker("t", table, 2, 100)

    async def leave() -> None:
        task = asyncio.ensure_future(worker.run([1]))
        await table.wait_begun()
        task.cancel()

    asyncio.run(leave())
    table.released.release(5)
    worker.close()
    assert table.batches == [[1]]


def test_long_requests_are_split_by_weight() -> None:
    worker = BatchWorker("t", Table(), 10, 10, lambda item: item)
    try:
        assert worker.split_items([3, 3, 3, 3, 12, 1, 9, 1]) == [[3, 3, 3], [3], [12], [1, 9], [1]]
    finally:
        worker.close()


ITEMS = st.lists(st.integers(0, 50), min_size=1, max_size=6, unique=True)


def weigh(item: int) -> int:
    """Of the property below: items of job `n` are 1,000 `n` and something below 51."""
    return 1 + item % 1_000 // 25


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(ITEMS, st.booleans(), st.booleans()),
        max_size=30,
    ),
    st.integers(1, 8),
    st.integers(1, 8),
    st.integers(0, 40),
)
def test_whatever_arrives_has_its_own_outcome_or_is_refused(
    jobs: list[tuple[list[int], bool, bool]], max_weight: int, max_waiting: int, releases: int
) -> None:
    """Each job (items, atomic, whether its caller goes away) is answered with its own items, once, or not begun."""
    table = Table(is_held=True)
    worker = BatchWorker("t", table, max_weight, max_waiting, weigh)

    async def play() -> None:
        futures = []
        for number, (items, atomic, leaves) in enumerate(jobs):
            futures.append(asyncio.ensure_future(worker.run([1_000 * number + item for item in items], atomic=atomic)))
            if number % 3 == 0:
                await asyncio.sleep(0)
            if number < releases:
                table.released.release()
            if leaves and number:
                futures[number - 1].cancel()
        table.released.release(1_000)
        outcomes = await asyncio.gather(*futures, return_exceptions=True)
        seen = [item for batch in table.batches for item in batch]
        assert len(seen) == len(set(seen))
        for number, ((items, _, _), outcome) in enumerate(zip(jobs, outcomes, strict=True)):
            own = [1_000 * number + item for item in items]
            if isinstance(outcome, list):
                assert outcome == [f"not {item}" if item % 7 == 0 else 2 * item for item in own]
                start = seen.index(own[0])
                assert seen[start : start + len(own)] == own
            else:
                assert isinstance(outcome, ApiError | asyncio.CancelledError), outcome
                assert isinstance(outcome, asyncio.CancelledError) or not set(own) & set(seen)
        for batch, atomic in zip(table.batches, table.atomic, strict=True):
            owners = {item // 1_000 for item in batch}
            assert len(owners) == 1 or not atomic
            assert len(owners) == 1 or sum(map(weigh, batch)) <= max_weight
        worker.close()
        await asyncio.sleep(0)
        assert worker.active_items == 0

    run_with(worker, play)
