"""Neighbouring tables give the same responses on every engine, apart from the noisy values themselves."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from random import Random
from typing import Any

import pytest

from assurance.data_independence import (
    LIMITS,
    PLANTS,
    Outcome,
    Plant,
    SameSalts,
    all_but_noise,
    differences,
    outcomes,
    requests,
    reserved,
    row,
)
from conformance.banks import account_over
from conformance.reference import Row
from conformance.server import Server
from conformance.stores import Store
from support.banks import PEOPLE
from support.internals import workload_rng

NAMES = ("age", "income", "smoker", "town", "children")
TEXTS = dict.fromkeys(NAMES, "text")
TYPED = {"age": "double", "income": "bigint", "smoker": "boolean", "town": "text", "children": "double"}
POLICY = PEOPLE.replace('source = "people.csv"\n', "")


def person(line: str) -> Row:
    """As text; an empty field is missing."""
    return {name: field or None for name, field in zip(NAMES, line.split(","), strict=True)}


def typed(random: Random) -> Row:
    """Somebody in columns with types: at, on or far beyond a bound, infinite, missing where it may be."""
    return {
        "age": random.choice([0.0, 120.0, 119.5, float("inf"), float("-inf"), random.uniform(0, 120)]),
        "income": random.choice([-100, 1000, 2**63 - 1, -(2**63), random.randrange(-100, 1000)]),
        "smoker": random.choice([True, False]),
        "town": random.choice(["north", "south", "x", "north "]),
        "children": random.choice([None, float("nan"), float("inf"), -1.0, 10.0, 11.0, 3.0]),
    }


FULL: Row = {"age": 120.0, "income": 1000, "smoker": True, "town": "north", "children": 10.0}


def tables(kind: str, random: Random) -> tuple[dict[str, str], list[Row], list[Row]]:
    """Types of the columns, and two neighbours."""
    if kind == "text":
        people = [person(row(random)) for _ in range(random.randrange(2, 7))]
        return TEXTS, people, people[:-1]
    if kind == "typed":
        people = [typed(random) for _ in range(random.randrange(2, 7))]
        return TYPED, people, people[1:]
    if kind == "full":  # row cap and bounds are reached: sums are as large as they may ever be
        return TYPED, [FULL] * 6, [FULL] * 5
    if kind == "empty":  # a table without rows, and one with a row
        return TYPED, [], [FULL]
    assert kind == "replaced"  # the only one in a group leaves it
    return TYPED, [FULL, {**FULL, "town": "south"}], [FULL, FULL]


def seen(
    store: Store, types: dict[str, str], rows: list[Row], asked: list[Any], folder: Path, relation: str, plant: Plant
) -> list[Outcome]:
    size = f"rows = {len(rows)}" if relation == "replace-one" else "row_cap = 6"
    policy = POLICY.format(neighbours=relation, rows=size, epsilon="8", delta="1e-6")
    account = account_over(store.put(types, rows), policy, folder, SameSalts())
    for analyst, limit in LIMITS.items():
        account.ledger.set_limit(account.id, account.analyst(analyst), limit.units)
    with plant(account):
        return outcomes(account, asked, all_but_noise) + reserved(account, with_answers=False)


def compared(store: Store, kind: str, folder: Path, plant: Plant, length: int) -> int:
    """How many responses differ."""
    random = workload_rng(len(kind))
    types, a, b = tables(kind, random)
    asked = [request for request in requests(random, 2 * length) if not request.touched][:length]
    relation = "replace-one" if kind == "replaced" else "add-remove"
    return differences(*(seen(store, types, rows, asked, folder, relation, plant) for rows in (a, b)))


@pytest.mark.parametrize("kind", ["text", "typed", "full", "empty", "replaced"])
def test_neighbours_get_the_same_responses(bank_store: Store, tmp_path: Path, kind: str) -> None:
    length = 4 if bank_store.kind == "spark" else 20
    assert compared(bank_store, kind, tmp_path, nullcontext, length) == 0


@pytest.mark.parametrize("bug", PLANTS)
def test_a_difference_would_be_seen(postgres: Server, tmp_path: Path, bug: str) -> None:
    store = Store("postgresql", tmp_path, postgres)
    assert any(compared(store, kind, tmp_path, PLANTS[bug], 20) for kind in ("replaced", "typed", "full", "empty"))
