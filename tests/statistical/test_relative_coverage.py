"""Relative accuracy through the whole bank: the promise holds, and a broken rule would be seen."""

from __future__ import annotations

from pathlib import Path

import pytest

from noisebank.path import Account
from noisebank.planning.relative import Goal
from support import memory_account, write_people

RUNS = 150


def misses(account: Account, offset: int) -> int:
    """How often 150 different counts are off by more than 10% at 80% confidence."""
    missed = 0
    for number in range(RUNS):
        # Everybody is older than 19 and earns less than 900: different queries, one true value.
        income, age = 901 + (number + offset) % 99, 90 + number % 30
        sql = f"SELECT COUNT(*) FROM people WHERE income < {income} AND age < {age}"
        answer = account.ask(sql, relative="10%", confidence=0.8)
        assert answer.reached
        missed += abs(answer.value - 2_000) > 200
    return missed


@pytest.fixture
def account(tmp_path: Path) -> Account:
    return memory_account(write_people(tmp_path, rows=2_000, epsilon="20"))


def test_the_promise_holds(account: Account) -> None:
    # Binomial(150, .2): more than 55 misses has probability 3e-6 even if the promise held with equality.
    assert misses(account, 0) <= 55


def test_a_final_measurement_of_far_too_little_precision_would_be_seen(
    account: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = Goal.needed
    monkeypatch.setattr(Goal, "needed", lambda self, size: right(self, size) / 400)
    assert misses(account, 1) > 75  # expected: about 120
