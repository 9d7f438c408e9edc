"""`Account.ask_many`: one outcome for each question, and atomic groups."""

from __future__ import annotations

from pathlib import Path

import pytest

from noisebank.account.account import Account
from noisebank.core.asks import AccuracyOptions, Ask
from noisebank.core.errors import BadQuery, BadRequest, BudgetExhausted, KeyReused, PriceMoved
from noisebank.core.quote import Quote
from noisebank.core.records import Case
from noisebank.core.result import Result
from support.banks import memory_account, write_people

SMOKERS = "SELECT count(*) FROM people WHERE smoker"
OLDER = "SELECT count(*) FROM people WHERE age > 50"
TENTH: AccuracyOptions = {"epsilon": "0.1", "delta": "1e-6"}


@pytest.fixture
def account(tmp_path: Path) -> Account:
    return memory_account(write_people(tmp_path))


def test_each_question_has_its_own_outcome_in_order(account: Account) -> None:
    bad = Ask("SELECT nonsense FROM people", TENTH)
    first, failed, again, other = account.ask_many([Ask(SMOKERS, TENTH), bad, Ask(SMOKERS, TENTH), Ask(OLDER, TENTH)])
    assert isinstance(failed, BadQuery)
    assert isinstance(first, Result) and isinstance(again, Result) and isinstance(other, Result)
    assert (first.case, again.case, other.case) == (Case.FIRST, Case.REPEAT, Case.FIRST)
    assert again.exact == first.exact and account.state.spent == first.cost + other.cost


def test_a_key_is_one_request_also_within_a_batch(account: Account) -> None:
    same = Ask(SMOKERS, TENTH, key="k")
    first, again, reused = account.ask_many([same, same, Ask(OLDER, TENTH, key="k")])
    assert isinstance(first, Result) and isinstance(again, Result) and isinstance(reused, KeyReused)
    assert again.exact == first.exact and account.state.spent == first.cost


def test_a_limit_may_be_a_share_of_the_budget(account: Account) -> None:
    price = account.quote(SMOKERS, **TENTH).cost
    share = 100 * price.exact / account.state.budget.exact
    with pytest.raises(PriceMoved):
        account.ask(SMOKERS, max_cost=f"{float(share) * 0.99:.12f}%", **TENTH)
    assert account.ask(SMOKERS, max_cost=f"{float(share) * 1.01:.12f}%", **TENTH).cost == price
    for wrong in ("-1%", "many%", "%"):
        with pytest.raises(BadRequest):
            account.ask(OLDER, max_cost=wrong, **TENTH)


def test_an_atomic_batch_has_one_price(account: Account) -> None:
    price = account.quote(SMOKERS, **TENTH).cost
    outcomes = account.ask_many(
        [Ask(SMOKERS, TENTH, max_cost=price.exact), Ask(OLDER, TENTH, max_cost=price.exact)], atomic=True
    )
    assert all(isinstance(outcome, Result) for outcome in outcomes)
    assert account.state.spent.units == 2 * price.units
    outcomes = account.ask_many(
        [
            Ask("SELECT count(*) FROM people WHERE NOT smoker", TENTH, max_cost=price.exact),
            Ask("SELECT count(*) FROM people WHERE age > 40", TENTH, max_cost="0"),
        ],
        atomic=True,
    )
    assert [type(outcome) for outcome in outcomes] == [PriceMoved, PriceMoved]
    assert account.state.spent.units == 2 * price.units


def test_an_atomic_batch_is_charged_whole_or_not_at_all(account: Account) -> None:
    large: AccuracyOptions = {
        "epsilon": float(account.context.policy.epsilon) * 0.9,
        "delta": account.context.policy.delta,
    }
    outcomes = account.ask_many([Ask(SMOKERS, large), Ask(OLDER, large)], atomic=True)
    assert [type(outcome) for outcome in outcomes] == [BudgetExhausted, BudgetExhausted]
    assert not account.state.spent
    alone, refused = account.ask_many([Ask(SMOKERS, large), Ask(OLDER, large)])
    assert isinstance(alone, Result) and isinstance(refused, BudgetExhausted)


def test_an_atomic_batch_refuses_what_it_cannot_keep_together(account: Account) -> None:
    many = [Ask(f"SELECT count(*) FROM people WHERE age > {age}", TENTH) for age in range(17)]
    for requests in (many, [Ask(SMOKERS, TENTH, key="a"), Ask(OLDER, TENTH, key="b")]):
        outcomes = account.ask_many(requests, atomic=True)
        assert {type(outcome) for outcome in outcomes} == {BadRequest} and len(outcomes) == len(requests)
    mixed = account.ask_many([Ask(SMOKERS, TENTH, max_cost="1"), Ask(OLDER, TENTH)], atomic=True)
    assert {type(outcome) for outcome in mixed} == {BadRequest}
    assert not account.state.spent and account.ask_many([], atomic=True) == []


def test_quotes_of_many_and_of_all_together(account: Account) -> None:
    both = [Ask(SMOKERS, TENTH), Ask("SELECT nonsense FROM people", TENTH), Ask(OLDER, TENTH)]
    first, failed, second = account.quote_many(both)
    assert isinstance(failed, BadQuery) and isinstance(first, Quote) and isinstance(second, Quote)
    together = account.quote_together([both[0], both[2], both[0]])  # the first one twice: it is asked once
    assert together.cost == first.cost + second.cost and len(together.parts) == 2
    with pytest.raises(BadQuery):
        account.quote_together(both)
    outcomes = account.ask_many([both[0], both[2], both[0]], atomic=True)
    assert all(isinstance(outcome, Result) for outcome in outcomes) and account.state.spent == together.cost


def test_questions_together_name_their_own_groups(account: Account) -> None:
    """One query under two names of its groups is asked once, and each SELECT gets the names that it wrote."""
    wordings = (("child", "adult"), ("young", "old"))
    asks = [
        Ask(f"SELECT CASE WHEN age < 18 THEN '{a}' ELSE '{b}' END AS g, COUNT(*) FROM people GROUP BY 1", TENTH)
        for a, b in wordings
    ]
    outcomes = account.ask_many(asks, atomic=True)
    assert [tuple(row.keys[0] for row in outcome.rows) for outcome in outcomes if isinstance(outcome, Result)] == [
        *wordings
    ]
