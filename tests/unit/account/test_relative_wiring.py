"""A relative request, from the SQL to its price: the asker's unit and the policy's numbers arrive where they count."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import pytest

from noisebank.account.account import Account
from noisebank.planning.relative import RelativeTarget
from support.banks import memory_account, write_people

ROWS = 20
SMOKERS = "SELECT {} * COUNT_IF(smoker) FROM people"
FACTORS = (Fraction(1), Fraction(-1), Fraction(2), Fraction(-3), Fraction(1, 4), Fraction(-1, 4))
SHARE = Fraction(1, 2)


@pytest.fixture
def account(tmp_path: Path) -> Account:
    return memory_account(write_people(tmp_path, rows=ROWS, epsilon="50"))


@pytest.mark.parametrize("factor", FACTORS)
def test_the_floor_that_nobody_says_is_a_tenth_of_the_largest_value_in_the_askers_unit(
    account: Account, factor: Fraction
) -> None:
    floor = float(ROWS * abs(factor) / 10)
    assert account.quote(SMOKERS.format(float(factor)), relative=SHARE, confidence=0.9).floor == floor
    answer = account.ask(SMOKERS.format(float(factor)), relative=SHARE, confidence=0.9)
    assert answer.verdict is not None and answer.verdict.floor == floor


@pytest.mark.parametrize("factor", FACTORS)
@pytest.mark.parametrize("floor", [Fraction(4), Fraction(17, 2)])
def test_a_multiple_costs_what_the_same_distance_costs(account: Account, factor: Fraction, floor: Fraction) -> None:
    """Whatever the sign and size of the unit: one measurement, as precise as its promise needs."""
    multiple = account.quote(SMOKERS.format(float(factor)), relative=SHARE, confidence=0.9, floor=floor * abs(factor))
    single = account.quote("SELECT COUNT_IF(smoker) FROM people", relative=SHARE, confidence=0.9, floor=floor)
    distance = floor * abs(factor) * SHARE / (1 + 2 * SHARE)
    within = account.quote(SMOKERS.format(float(factor)), within=distance, confidence=0.9)
    assert multiple.target == single.target == within.target and multiple.cost == single.cost == within.cost
    assert multiple.stddev == pytest.approx(single.stddev * float(abs(factor)))


@pytest.mark.parametrize("factor", FACTORS)
def test_half_the_floor_costs_what_the_answer_says(account: Account, factor: Fraction) -> None:
    sql = SMOKERS.format(float(factor))
    answer = account.ask(sql, relative=SHARE, confidence=0.9, floor=8 * abs(factor))
    verdict = answer.verdict
    assert verdict is not None
    following = account.quote(sql, relative=SHARE, confidence=0.9, floor=4 * abs(factor))
    assert verdict.next_cost == following.cost and following.cost
    target = RelativeTarget(SHARE, Fraction(9, 10), 8 * abs(factor))
    assert verdict.reached is target.is_reached(answer.exact, answer.stddev)


@pytest.mark.parametrize(
    "sql", ["SELECT 1 + COUNT_IF(smoker) FROM people", "SELECT COUNT(*) FROM people GROUP BY town"]
)
def test_where_no_floor_follows_from_the_policy_a_look_comes_first(account: Account, sql: str) -> None:
    result = account.ask(sql, relative=SHARE, confidence=0.9)
    assert result.estimate.verdict is None if len(result.rows) == 1 else len(result.rows) == 2
    assert "seen to be within" in result.notes[-1] or "every number is within" in result.notes[-1]
    assert Fraction(account.state.spent.units, account.state.budget.units) <= Fraction(1, 10)
