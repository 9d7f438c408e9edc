"""`python -m research planner --part values`: the pools are those of the table, and their prices what theory says."""

from __future__ import annotations

from math import prod

import pytest

from research.benches.planner_values import ValuePool, list_pools, price_pool

POOLS = {pool.name: pool for pool in list_pools()}


def test_the_pools_are_those_of_the_table() -> None:
    counted = {name: (prod(axis.size for axis in pool.axes), len(pool.questions)) for name, pool in POOLS.items()}
    assert list(counted.values()) == [
        (144, 73), (120, 74), (64, 60), (36, 60), (1024, 24), (36, 80), (64, 84), (100, 40), (30, 95), (64, 680),
    ]  # fmt: skip
    for pool in POOLS.values():
        assert len(set(pool.questions)) == len(pool.questions)


def test_prices_are_those_of_plain_reuse_or_less_and_above_the_optimum() -> None:
    """Each cell is in one question of each of three pairs of columns; two cells together in six."""
    found = price_pool(POOLS["two of 6 x 5 x 4"], 1)
    assert (found["plain"], found["plain_replace_one"], found["online_replace_one"]) == (3.0, 6.0, 6.0)
    assert found["optimum"] == pytest.approx(2.374, abs=1e-3)
    assert found["optimum"] <= found["online"] <= 2 * found["plain"]


def test_everybody_is_not_asked_about_where_that_is_public() -> None:
    pool = POOLS["any of 4 x 3 x 3"]
    alone = ValuePool(
        "everybody",
        pool.axes,
        tuple(query for query in pool.questions if query.support == (0, 36) and len(query.runs) == 1),
    )
    assert len(alone.questions) == 1
    found = price_pool(alone, 1)
    assert (found["online"], found["online_replace_one"], found["plain_replace_one"]) == (1.0, 0.0, 0.0)
