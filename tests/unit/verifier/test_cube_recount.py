"""What the cells of a cube must be charged where one person takes another's place. The whole file takes 3 seconds."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest

from noisebank.account.account import Account
from noisebank.account.statement import make_openings
from noisebank.bank.opening import open_account
from noisebank.core.records import CellRun
from noisebank.ledger.protocol import Reservation
from noisebank.policy.file import read_policy
from noisebank.queries.query import Query
from noisebank.verifier.cube_recount import CubeRecount
from noisebank.verifier.openings import check_openings
from support.banks import memory_rooms

POLICY = """\
name = "people"
source = "people.csv"
neighbours = "replace-one"
rows = 300
cubes = [["age"]]
[budget]
epsilon = 2
delta = 1e-6
[columns.age]
type = "integer"
bounds = [0, 63]
bins = [16, 32, 48]
"""
ANSWERS = 4


@pytest.fixture
def account(tmp_path: Path) -> Account:
    """All four parts of a table, each asked for by itself: who moves from one to another is in two of them."""
    (tmp_path / "people.csv").write_text("age\n" + "".join(f"{row % 64}\n" for row in range(300)))
    (tmp_path / "people.toml").write_text(POLICY)
    policy = replace(read_policy(tmp_path / "people.toml"), first_look=Fraction(0))
    account, _ = open_account(memory_rooms(), policy)
    for low in range(0, 64, 16):
        account.ask(f"SELECT COUNT(*) FROM people WHERE age BETWEEN {low} AND {low + 15}", within=60)
    return account


def list_measurements(account: Account) -> list[tuple[Reservation, Query]]:
    questions = {bytes.fromhex(id): entry["sql"] for id, entry in make_openings(account)["records"].items()}
    return [
        (reservation, account.parse(questions[reservation.id]).query)
        for reservation in account.ledger.list_reservations(account.id)
    ]


def change_weight(reservation: Reservation, change: int) -> Reservation:
    (run,) = reservation.runs
    return replace(reservation, runs=(CellRun(run.start, run.stop, run.weight + change),))


def test_nobody_is_in_more_than_two_of_them_and_so_the_last_ones_are_free(account: Account) -> None:
    costs = [reservation.cost.units for reservation, _ in list_measurements(account)]
    assert len(costs) == ANSWERS and costs[0] == costs[1] > 10**8 * max(costs[2:])  # but for rounding
    assert check_openings(make_openings(account), account.ledger.books).opened_count == ANSWERS


@pytest.mark.parametrize("cheated", [None, 0, 1])
def test_a_charge_below_what_all_pairs_have_lost_is_found(account: Account, cheated: int | None) -> None:
    recount, verdicts = CubeRecount(account.context.policy), []
    for number, (reservation, query) in enumerate(list_measurements(account)):
        (run,) = reservation.runs
        change = -max(1, run.weight // 1000) if number == cheated else 0
        verdicts.append(recount.check(change_weight(reservation, change), query))
    assert len(verdicts) == ANSWERS and all(verdicts) is (cheated is None)


def test_a_charge_to_a_part_of_the_cells_or_in_two_parts_is_found(account: Account) -> None:
    (reservation, query), *_ = list_measurements(account)
    (run,) = reservation.runs
    for runs in ((CellRun(0, run.stop - 1, run.weight),), (CellRun(1, run.stop, run.weight),), (run, run), ()):
        assert not CubeRecount(account.context.policy).check(replace(reservation, runs=runs), query)
    assert CubeRecount(account.context.policy).check(reservation, query)


def test_after_a_measurement_that_was_not_opened_sums_of_that_cube_are_not_held_against_it(account: Account) -> None:
    recount, ((first, _), *others) = CubeRecount(account.context.policy), list_measurements(account)
    recount.skip(first)
    assert all(recount.check(reservation, query) for reservation, query in others)
