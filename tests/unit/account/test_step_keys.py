"""Keys of steps are nobody's own, and a key names one request: also one that has ended at its look."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from noisebank.account import coarse_looks
from noisebank.account.account import Account
from noisebank.account.coarse_looks import LookedRequest
from noisebank.core.asks import Ask
from noisebank.core.errors import BadRequest, BudgetExhausted, KeyReused
from noisebank.core.result import Result
from noisebank.core.units import Precision
from support.banks import memory_account, write_people

AVERAGE = "SELECT AVG(age) FROM people WHERE smoker"
COUNT = "SELECT COUNT(*) FROM people WHERE smoker"
DEAR: dict[str, Any] = {"within": "0.8", "max_cost": "0.2%"}
"""More than `max_cost` pays for, as its look finds out."""


@pytest.fixture
def account(tmp_path: Path) -> Account:
    return memory_account(write_people(tmp_path, rows=900, epsilon="40"))


@pytest.mark.parametrize(
    "key", ["k / end", "k / look 1", "k / look 23", "k / part 1 of 2", "k / end / end", "look 0123456789abcdef / 1"]
)
@pytest.mark.parametrize("wish", [{"sigma": 3}, {"within": 3}, {"spend": "1%"}])
def test_a_key_that_looks_like_that_of_a_step_is_refused(key: str, wish: dict[str, Any], account: Account) -> None:
    for sql in (AVERAGE if "within" in wish else COUNT, f"{COUNT} AND CURRENT_DATE > DATE '2020-01-01'"):
        with pytest.raises(BadRequest, match="key of a step"):
            account.ask(sql, key=key, **wish)
    assert not account.state.spent.units and account.vault.find_request_by_key(account.id, "owner", key) is None


@pytest.mark.parametrize("key", ["end", "k/end", "k / ending", "look 1", "k / part of it", "k / end #1"])
def test_other_keys_are_not(key: str, account: Account) -> None:
    assert account.ask(COUNT, sigma=3, key=key).rows == account.ask(COUNT, sigma=3, key=key).rows


def test_a_key_of_several_questions_asked_for_the_best(account: Account) -> None:
    """It was an error that nobody foresaw, of the whole batch."""
    account.ask("SELECT COUNT(*), SUM(age) FROM people WHERE smoker", epsilon="0.1", delta="1e-9", key="k")
    asks = [
        Ask(COUNT, {"sigma": 9}, key="k", best=True),
        Ask("SELECT COUNT(*) FROM people WHERE age > 9", {"sigma": 9}),
    ]
    refused, answered = account.ask_many(asks)
    assert isinstance(refused, KeyReused) and isinstance(answered, Result)


def test_a_key_of_a_request_that_ended_names_no_other_one(account: Account) -> None:
    ended, spent = account.ask(AVERAGE, key="k", **DEAR), account.state.spent
    assert len(ended.parts) == 2 and "not seen" in ended.notes[-1]
    for sql in (COUNT, f"{COUNT} AND CURRENT_DATE > DATE '2020-01-01'"):
        with pytest.raises(KeyReused):
            account.ask(sql, sigma=3, key="k")
    assert account.ask(AVERAGE, key="k", **{**DEAR, "max_cost": "9%"}).rows == ended.rows
    assert account.state.spent == spent


def test_a_retry_of_an_ended_request_is_about_the_same_moment(account: Account) -> None:
    sql = f"{AVERAGE} AND CURRENT_DATE > DATE '2020-01-01'"
    assert account.ask(sql, key="k", **DEAR).rows == account.ask(sql, key="k", **DEAR).rows


def end_now(request: LookedRequest, account: Account) -> None:
    """What another gateway saves that ends the request at its look."""
    other = LookedRequest(request.parsed, request.item, request.item, request.max_cost, request.key)
    coarse_looks.end_at_look(account.context, other, "the other one was quicker")
    assert other.first.error is None


def test_another_gateway_ends_it_before_its_last_step_is_saved(account: Account) -> None:
    real = coarse_looks.plan_step

    def plan_late(context: Any, request: LookedRequest, number: int) -> Any:
        step = real(context, request, number)
        if step is not None and request.is_final:
            end_now(request, account)
        return step

    with patch.object(coarse_looks, "plan_step", plan_late):
        ended = account.ask(AVERAGE, within=8, key="k")
    spent = account.state.spent
    assert len(ended.parts) == 2 and "quicker" in ended.notes[-1]
    assert account.ask(AVERAGE, within=8, key="k").rows == ended.rows and account.state.spent == spent


def test_another_gateway_has_come_further_before_it_ends(account: Account) -> None:
    """One of the two is refused and gets the other one's answer by a retry; it was shown its look."""
    answer = account.ask(AVERAGE, within=8, key="k")
    with (
        patch.object(LookedRequest, "is_saved", lambda request, context, key: key != "k"),  # as it was a moment ago
        patch.object(coarse_looks, "max_growth", lambda look, limit: 0),
        pytest.raises(KeyReused),
    ):
        account.ask(AVERAGE, within=8, key="k")
    assert account.ask(AVERAGE, within=8, key="k").rows == answer.rows


def test_a_step_that_cannot_be_paid_ends_under_a_key_beside(account: Account) -> None:
    real, calls = account.ledger.reserve_many, iter(range(9))
    refusal = BudgetExhausted(Precision(2), Precision(1), Precision(9))

    def refuse_second(groups: Any) -> Any:
        return [refusal] if next(calls) == 1 else real(groups)

    with patch.object(account.ledger, "reserve_many", refuse_second):
        ended = account.ask(AVERAGE, within=8, key="k")
    assert account.ask(AVERAGE, within=8, key="k").rows == ended.rows
    with pytest.raises(KeyReused):
        account.ask(COUNT, sigma=3, key="k")
