"""The best that is free: an analyst gets a better recorded answer as far as the own view has room, for no charge."""

from __future__ import annotations

from pathlib import Path

import pytest

from noisebank.account.account import Account
from noisebank.account.derived.aggregates import ratio_interval
from noisebank.core.units import Precision, floor_to_ladder
from support.banks import memory_account, write_people

COUNT = "SELECT COUNT_IF(smoker) FROM people"
SMALL, LARGE = {"epsilon": "0.2", "delta": "1e-6"}, {"epsilon": "2", "delta": "1e-6"}


@pytest.fixture
def account(tmp_path: Path) -> Account:
    return memory_account(write_people(tmp_path, rows=20, epsilon="4"))


def limit_ann(account: Account, units: int) -> None:
    account.ledger.set_limit(account.id, account.analyst("ann"), units)


def test_a_better_recorded_answer_is_free_for_the_owner(account: Account) -> None:
    good = account.ask(COUNT, **LARGE)
    again = account.ask(COUNT, **SMALL, best=True)
    assert again.exact == good.exact and again.stddev == good.stddev and not again.cost
    assert account.ask(COUNT, **SMALL, best=False).stddev > good.stddev


@pytest.mark.parametrize("share", [2, 3, 10])
def test_an_analyst_gets_what_the_view_has_room_for(account: Account, share: int) -> None:
    """Between what was wished and what is recorded: as much as the limit leaves, on the ladder."""
    wished, recorded = account.quote(COUNT, **SMALL).target, account.quote(COUNT, **LARGE).target
    account.ask(COUNT, **LARGE)
    limit = wished.units + (recorded.units - wished.units) // share
    limit_ann(account, limit)
    spent = account.state.spent
    account.ask(COUNT, **SMALL, analyst="ann", best=True)
    used = account.view("ann").used
    assert used == floor_to_ladder(Precision(limit)) and wished < used < recorded
    assert account.state.spent == spent  # the account pays nothing for it


def test_what_was_delivered_before_counts_for_the_analyst(account: Account) -> None:
    """Its room is what it has of this question already, and what is left of the limit; not less."""
    wished, recorded = account.quote(COUNT, **SMALL).target, account.quote(COUNT, **LARGE).target
    account.ask(COUNT, **LARGE)
    limit_ann(account, 2 * wished.units)
    account.ask(COUNT, **SMALL, analyst="ann")
    assert account.view("ann").used == wished
    account.ask(COUNT, **SMALL, analyst="ann", best=True)
    assert account.view("ann").used == floor_to_ladder(Precision(2 * wished.units)) < recorded


def test_with_room_for_all_an_analyst_gets_the_recorded_answer_itself(account: Account) -> None:
    good = account.ask(COUNT, **LARGE)
    limit_ann(account, account.state.budget.units)
    answer = account.ask(COUNT, **SMALL, analyst="ann", best=True)
    assert answer.exact == good.exact and answer.stddev == good.stddev


@pytest.mark.parametrize(("top", "deviation"), [(1e160, 1e-10), (1e-10, 1e160), (-1e160, 1e-10), (1e-170, 1e-300)])
@pytest.mark.parametrize("shared", [False, True])
def test_a_ratio_of_very_unlike_sizes_stays_finite(top: float, deviation: float, shared: bool) -> None:
    low, high = ratio_interval(top, deviation, 50.0, 1e-3, 0.95, shared)
    size = max(abs(top), deviation)
    assert low <= top / 50 <= high and -size < low <= high < size
