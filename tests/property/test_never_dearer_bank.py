"""Never dearer than plain, through a bank's own door: beside a bank without cubes, and the exact loss of all rows."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from noisebank.account.account import Account
from noisebank.account.statement import make_statement
from noisebank.bank.opening import open_account
from noisebank.core.asks import AccuracyOptions, Ask
from noisebank.core.errors import NoisebankError
from noisebank.core.records import Case
from noisebank.core.units import UNITS_PER_PRECISION
from noisebank.planning.serving import ChargeLimits
from noisebank.policy.file import read_policy
from noisebank.policy.model import Neighbours
from support.banks import memory_rooms

BUDGET = '[budget]\nepsilon = 90\ndelta = 1e-6\n[columns.v]\ntype = "integer"\nbounds = [0, 50]\n'
ACCURACIES = ({"epsilon": "0.1"}, {"epsilon": "0.2"}, {"epsilon": "0.05"}, {"sigma": "7"}, {"sigma": "13"})


def write_table(pick: random.Random, folder: Path, neighbours: str) -> list[list[str]]:
    """A table with a policy that has cubes and one that has none; returns conditions on each column."""
    columns, conditions, rows = "", [], [[] for _ in range(40)]
    for name in "abc"[: pick.randint(1, 3)]:
        size = pick.randint(2, 5)
        values: list[str] = [f"k{number}" for number in range(size)]
        if pick.random() < 0.5:
            columns += (
                f'[columns.{name}]\ntype = "text"\nkeys = {values}\ncomplete = {str(pick.random() < 0.5).lower()}\n'
            )
            sets = [pick.sample(values, pick.randint(1, size)) for _ in range(5)]
            conditions.append([f"{name} IN ({', '.join(map(repr, chosen))})" for chosen in sets])
        else:
            values = [str(number) for number in range(size)]
            columns += (
                f'[columns.{name}]\ntype = "integer"\nbounds = [0, {size - 1}]\nbins = [{", ".join(values[1:])}]\n'
            )
            conditions.append([f"{name} BETWEEN {low} AND {size - 1}" for low in range(size)])
        for row in rows:
            row.append(pick.choice(values))
    names = list("abc"[: len(conditions)])
    lines = [",".join([*names, "v"]), *(",".join([*row, str(pick.randrange(51))]) for row in rows)]
    (folder / "t.csv").write_text("\n".join(lines) + "\n")
    size_line = "rows = 40" if neighbours == "replace-one" else "row_cap = 1000"
    head = f'name = "t"\nsource = "t.csv"\nneighbours = "{neighbours}"\n{size_line}\n'
    expect = "expect = " + pick.choice(["[]", "['marginals']", "['ranges']"]) + "\n"
    tail = (BUDGET + columns).replace("'", '"')
    (folder / "cubes.toml").write_text(f"{head}cubes = [{names}]\n{expect}".replace("'", '"') + tail)
    (folder / "plain.toml").write_text(head + tail)
    return conditions


def open_pair(pick: random.Random, folder: Path, neighbours: str) -> tuple[Account, Account, list[str]]:
    """An account with cubes, one without, and questions that both can answer."""
    conditions = write_table(pick, folder, neighbours)
    pool = []
    for _ in range(8):
        parts = [pick.choice(tests) for tests in conditions if pick.random() < 0.7]
        where = " WHERE " + pick.choice([" AND ", " AND ", " OR "]).join(parts) if parts else ""
        groups = " GROUP BY a" if pick.random() < 0.2 else ""
        pool.append(f"SELECT {pick.choice(['COUNT(*)', 'COUNT(*)', 'SUM(v)', 'AVG(v)'])} FROM t{where}{groups}")
    cubes, plain = (
        open_account(memory_rooms(), read_policy(folder / f"{name}.toml"))[0] for name in ("cubes", "plain")
    )
    return cubes, plain, pool


def exact_loss(account: Account) -> float:
    """The most that the cube's measured rows tell about one person, from the rows themselves."""
    tables = []
    for (_, (_, column)), posterior in account.cubes._state._posteriors.items():
        information = np.zeros((posterior.statistic.cell_count,) * 2)
        for entry in posterior.measurements:
            weights = entry.query.dense_weights / entry.query.max_weight
            information += float(entry.precision) * np.outer(weights, weights)
        for looked in posterior.looks:
            information += float(looked.look.precision) * looked.look.information
        tables.append((bool(column), information))
    if not tables:
        return 0.0
    kinds = [(0.0, 0.0), (1.0, 0.0), (1.0, 1.0)]  # absent; present with the lowest and with the largest value
    if account.context.policy.neighbours is not Neighbours.REPLACE_ONE:
        return max(float(sum((kind[s] ** 2 * table.diagonal() for s, table in tables)).max()) for kind in kinds)
    may_miss = bool(account.context.policy.complete_columns)
    pairs = product(kinds[0 if may_miss else 1 :], repeat=2)
    return max(
        float(
            sum(
                left[s] ** 2 * table.diagonal()[:, None] + right[s] ** 2 * table.diagonal()
                - 2 * left[s] * right[s] * table
                for s, table in tables
            ).max()
        )
        for left, right in pairs
    )  # fmt: skip


def is_paid(account: Account) -> bool:
    """Whether the cube was charged at least what was told."""
    paid = account.ledger.books.largest_cell_charge(account.id, account.cubes.cube_numbers[0])
    return paid.units >= exact_loss(account) * UNITS_PER_PRECISION * (1 - 1e-9) - 2


def options_of(accuracy: dict[str, str]) -> AccuracyOptions:
    return {**accuracy, "delta": "1e-6"} if "epsilon" in accuracy else dict(accuracy)  # type: ignore[return-value]


def costs(outcomes: Sequence[object]) -> list[int] | None:
    """What each has cost, in units; None if any was refused."""
    if any(isinstance(outcome, NoisebankError) for outcome in outcomes):
        return None
    return [outcome.charge.cost.units for outcome in outcomes]  # type: ignore[attr-defined]


@pytest.mark.parametrize("neighbours", ["add-remove", "replace-one"])
@pytest.mark.parametrize("seed", range(6))
def test_no_answer_is_dearer_than_in_a_bank_without_cubes(tmp_path: Path, seed: int, neighbours: str) -> None:
    """One by one, with restarts between; asked again is free to the unit, and the same bits."""
    pick = random.Random(seed)
    account, plain, pool = open_pair(pick, tmp_path, neighbours)
    answers: dict[tuple[str, str], list[list[float | None]]] = {}
    for _ in range(25):
        sql, accuracy = pick.choice(pool), pick.choice(ACCURACIES)
        try:
            result, beside = (each.ask(sql, **options_of(accuracy)) for each in (account, plain))
        except NoisebankError:  # of everybody, or the budget's end
            continue
        assert result.charge.cost <= beside.charge.cost, (sql, accuracy)
        values = [[estimate.value for estimate in row.estimates] for row in result.rows]
        known = answers.setdefault((sql, str(accuracy)), values)
        if known is not values:
            assert not result.charge.cost.units, (sql, accuracy)
            assert known == values and result.case is Case.REPEAT
        assert is_paid(account)
        if pick.random() < 0.15:
            account.context.cubes.rebuild()
        statement = make_statement(account)
        assert statement.spent - statement.looks <= statement.naive
    assert answers


@pytest.mark.parametrize("neighbours", ["add-remove", "replace-one"])
@pytest.mark.parametrize("seed", range(6))
def test_no_group_is_dearer_and_none_is_charged_too_little(tmp_path: Path, seed: int, neighbours: str) -> None:
    pick = random.Random(100 + seed)
    account, plain, pool = open_pair(pick, tmp_path, neighbours)
    for _ in range(8):
        group = [Ask(sql, options_of(pick.choice(ACCURACIES))) for sql in pick.sample(pool, pick.randint(1, 5))]
        paid, beside = (costs(each.ask_many(group, atomic=True)) for each in (account, plain))
        if paid is not None and beside is not None:
            assert sum(paid) <= sum(beside), group
        assert is_paid(account)


def test_parts_of_a_group_that_are_planned_alone_are_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each would be charged what it adds to the losses before the group: together they tell more."""
    monkeypatch.setattr(
        "noisebank.planning.transaction.ChargeLimits",
        lambda *limits: replace(ChargeLimits(*limits), measured_cubes=frozenset()),
    )
    assert not all(are_groups_paid(tmp_path))


def test_parts_of_a_group_are_charged_for_what_they_tell_together(tmp_path: Path) -> None:
    assert all(are_groups_paid(tmp_path))


def are_groups_paid(folder: Path) -> list[bool]:
    """Asks atomic groups about four cells, where one person takes another's place. Returns for each group whether the
    cube was charged enough."""
    keys = ["a", "b", "c", "d"]
    (folder / "t.csv").write_text("town,v\n" + "".join(f"{key},1\n" for key in keys * 10))
    head = f'name = "t"\nsource = "t.csv"\nneighbours = "replace-one"\nrows = 40\ncubes = [["town"]]\n{BUDGET}'
    (folder / "t.toml").write_text(f'{head}[columns.town]\ntype = "text"\nkeys = {keys}\n'.replace("'", '"'))
    paid = []
    for seed in (17, 18, 19):
        pick = random.Random(seed)
        account = open_account(memory_rooms(), read_policy(folder / "t.toml"))[0]
        for _ in range(6):
            group = []
            for _ in range(pick.randint(1, 4)):
                chosen, sigma = pick.sample(keys, pick.randint(1, 3)), str(pick.choice([1, 2, 3, 5, 8]))
                places = ", ".join(map(repr, chosen))
                group.append(Ask(f"SELECT COUNT(*) FROM t WHERE town IN ({places})", {"sigma": sigma}))
            account.ask_many(group, atomic=True)
            paid.append(is_paid(account))
    return paid
