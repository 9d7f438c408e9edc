"""What the service's quick path must not give up: revoked keys, callers who hang up, repeats beside each other."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from noisebank.service.roles import Role
from support.banks import memory_account, write_people
from support.internals import AccessControl, ApiError, Case, SystemEntropy, WorkerPool
from support.patience import patience, wait_until


def test_a_key_that_another_process_revokes_opens_nothing_soon(tmp_path: Path) -> None:
    here, there = (AccessControl(tmp_path / "access.sqlite", SystemEntropy()) for _ in range(2))
    here.add_person("maria", Role.ANALYST)
    secret, facts = here.make_key("maria")
    assert there.find_caller(secret) is not None and here.find_caller(secret) is not None
    here.revoke_key("maria", facts.id)
    assert here.find_caller(secret) is None  # at once
    wait_until(lambda: there.find_caller(secret) is None, "the other process looks at the file again")
    again, _ = here.make_key("maria")
    assert there.find_caller(again) is not None
    here.close()
    there.close()


def test_an_expired_key_opens_nothing_though_it_was_let_in_before(tmp_path: Path) -> None:
    clock = [1_000.0]
    access = AccessControl(tmp_path / "access.sqlite", SystemEntropy(), lambda: clock[0])
    access.add_person("maria", Role.ANALYST)
    secret, _ = access.make_key("maria", seconds=10)
    assert access.find_caller(secret) is not None
    clock[0] += 10
    assert access.find_caller(secret) is None
    access.close()


def test_the_room_is_bounded_and_finishes_what_a_caller_has_left() -> None:
    room, began, may, finished = WorkerPool(1, 1), threading.Event(), threading.Event(), []

    def work() -> int:
        began.set()
        may.wait(patience())
        finished.append(1)
        return 7

    async def run() -> None:
        first = asyncio.ensure_future(room.run(work))
        await asyncio.to_thread(began.wait, patience())
        second = asyncio.ensure_future(room.run(lambda: 8))
        await asyncio.sleep(0)
        with pytest.raises(ApiError, match="waiting"):
            await room.run(lambda: 9)
        first.cancel()
        may.set()
        assert await second == 8 and finished == [1]
        with pytest.raises(ZeroDivisionError):
            await room.run(lambda: 1 // 0)
        assert room.active_jobs == 0

    asyncio.run(run())
    room.close()
    with pytest.raises(ApiError):
        asyncio.run(room.run(lambda: 1))


def test_many_repeats_at_once_are_the_same_bits_and_free(tmp_path: Path) -> None:
    account = memory_account(write_people(tmp_path))
    sql = "SELECT count(*) FROM people WHERE smoker"
    first = account.ask(sql, sigma=50)
    spent = account.state.spent
    with ThreadPoolExecutor(16) as pool:
        again = list(pool.map(lambda place: account.ask(sql, sigma=50, key=f"key {place}"), range(100)))
    assert {(answer.exact, answer.case) for answer in again} == {(first.exact, Case.REPEAT)}
    assert account.state.spent == spent and account.ledger.books.count_reservations(account.id) == 101


def test_the_same_repeat_twice_at_once_is_one(tmp_path: Path) -> None:
    account = memory_account(write_people(tmp_path))
    sql = "SELECT count(*) FROM people WHERE smoker"
    first = account.ask(sql, sigma=50)
    for turn in range(20):
        with ThreadPoolExecutor(8) as pool:
            again = list(pool.map(lambda _, key=f"key {turn}": account.ask(sql, sigma=50, key=key), range(8)))
        assert {answer.exact for answer in again} == {first.exact}
    assert account.ledger.books.count_reservations(account.id) == 21
