"""Caches have a bound in bytes, and free or refused questions leave nothing beyond them."""

from __future__ import annotations

import gc
import threading
import tracemalloc
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from assurance.memory_soak import memory_soak, open_wide, questions
from noisebank.account import cube_state
from noisebank.account.account import Account
from noisebank.bank.bank import Bank, create_bank, open_bank
from noisebank.core.caches import ALL_CACHES, ENTRY_BYTES, BoundedCache, cache_results, deep_size
from noisebank.core.errors import BudgetExhausted, NoisebankError
from noisebank.core.locks import LOCKS, NamedLocks
from noisebank.planning.linear import query_from_weights, query_size
from noisebank.queries.cells import Cube, policy_cubes


def test_the_oldest_goes_when_the_bound_is_reached_and_what_is_used_stays() -> None:
    cache: BoundedCache[int, bytes] = BoundedCache(3 * (ENTRY_BYTES + 100), lambda key, value: len(value))
    for key in range(3):
        cache.put(key, bytes(100))
    assert cache.get(0) is not None and cache.used_bytes == cache.max_bytes
    cache.put(3, bytes(100))
    assert (cache.get(0) is None, cache.get(1) is None, len(cache)) == (False, True, 3)
    cache.put(0, bytes(300))  # larger than before: makes room for itself
    assert cache.used_bytes <= cache.max_bytes and cache.get(0) == bytes(300)
    cache.put(4, bytes(10_000))
    assert cache.get(4) is None and cache.get(0) == bytes(300)  # too large to keep, and nobody is dropped for it
    cache.clear()
    assert cache.used_bytes == len(cache) == 0


def test_many_threads_leave_the_count_of_bytes_right() -> None:
    cache: BoundedCache[int, bytes] = BoundedCache(20_000, lambda key, value: len(value))

    def work(first: int) -> None:
        for place in range(2_000):
            key = (first * 7 + place * 13) % 97
            if cache.get(key) is None:
                cache.put(key, bytes(key * 5))

    threads = [threading.Thread(target=work, args=(first,)) for first in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert cache.used_bytes == sum(ENTRY_BYTES + len(value) for value, _ in cache._entries.values()) <= cache.max_bytes


def test_a_function_that_remembers_is_called_once_for_each_and_again_for_what_it_raised() -> None:
    called: list[Any] = []

    @cache_results(10_000, typed=True)
    def half(value: int) -> float | None:
        called.append(value)
        if value < 0:
            raise ValueError
        return value / 2 if value else None

    assert [half(4), half(4), half(0), half(0), half(1), half(True)] == [2.0, 2.0, None, None, 0.5, 0.5]
    for _ in range(2):
        with pytest.raises(ValueError):
            half(-1)
    assert called == [4, 0, 1, True, -1, -1]


def test_sizes_are_at_least_what_memory_says() -> None:
    weights = [place % 2 for place in range(4_000)]
    for make in (lambda: query_from_weights(weights)[0], lambda: {name: (name, str(name) * 9) for name in range(500)}):
        gc.collect()
        tracemalloc.start()
        made: Any = make()
        if hasattr(made, "run_arrays"):
            assert made.run_arrays and made.support and made.max_weight
        gc.collect()
        taken, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        said = query_size(made) if hasattr(made, "runs") else deep_size(made)
        assert 0.8 * taken <= said <= 4 * taken


def test_a_policy_has_one_cube_that_goes_when_nobody_uses_it(tmp_path: Path) -> None:
    with wide_bank(tmp_path, 64) as bank:
        account = bank.account()
        (cube,) = policy_cubes(account.context.policy)
        assert policy_cubes(account.context.policy)[0] is cube is account.cubes._state._cubes[0]
        named = dict(account.context.policy.columns)
        assert Cube.for_columns(cube.columns, named) is not cube and Cube.for_columns(cube.columns, named) == cube


def test_locks_of_many_names_are_shared() -> None:
    turns = NamedLocks()
    for number in range(3 * LOCKS):
        with turns([b"%d" % number, b"%d" % (number + 1), b"%d" % number]):
            pass
    assert len(turns._locks) <= LOCKS


def wide_bank(folder: Path, cells: int) -> Bank:
    create_bank(folder / "bank")
    bank = open_bank(folder / "bank")
    open_wide(bank, folder, cells)
    return bank


def grown(account: Account, first: int, count: int) -> int:
    """Bytes that quotes and refused asks leave behind, the bounded caches' own accounts aside."""
    before, cached = tracemalloc.get_traced_memory()[0], sum(cache.used_bytes for cache in ALL_CACHES)
    for sql in questions(account.context.policy, first, count):
        account.quote(sql, sigma=50)
        with pytest.raises(BudgetExhausted):
            account.ask(sql, sigma="0.001")
    gc.collect()
    more = sum(cache.used_bytes for cache in ALL_CACHES) - cached
    return tracemalloc.get_traced_memory()[0] - before - max(0, more)


def test_quotes_and_refused_asks_leave_nothing_beyond_the_caches(tmp_path: Path) -> None:
    with wide_bank(tmp_path, 2_048) as bank:
        account = bank.account()
        tracemalloc.start()
        try:
            grown(account, 0, 20)  # what is loaded once
            found = grown(account, 20, 60)
        finally:
            tracemalloc.stop()
    assert found < 60 * 2_000, found  # the old bank kept 900 kB a question at 4,096 cells


def test_a_full_cache_answers_as_an_empty_one(tmp_path: Path) -> None:
    with wide_bank(tmp_path, 256) as bank, patch.object(cube_state, "QUERY_CACHE_BYTES", 1):
        account = bank.account()
        plain = [account.quote(sql, sigma=50) for sql in questions(account.context.policy, 0, 5)]
        account.context.cubes.rebuild()  # with caches that keep nothing
        assert [account.quote(sql, sigma=50) for sql in questions(account.context.policy, 0, 5)] == plain
        assert len(account.cubes._state._cube_queries) == 0
        with pytest.raises(NoisebankError):
            account.quote("SELECT nonsense", sigma=50)


def test_the_soak_finds_flat_memory_and_the_planted_bug() -> None:
    finding = memory_soak(0.0001)
    assert finding.passed, (finding.figure, finding.planted)
