"""Requests whose noise depends on the data: what they cost, what they say, and that what they say holds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from random import Random
from typing import Any
from unittest.mock import patch

import pytest

from noisebank.account import coarse_looks as looking
from noisebank.account import pipeline as coarse_pipeline
from noisebank.account.account import Account
from noisebank.account.answers import Answer
from noisebank.account.completion import complete_reservations
from noisebank.account.context import AccountContext
from noisebank.account.pipeline import BatchItem
from noisebank.core.asks import Ask
from noisebank.core.errors import (
    AnswerLost,
    BadRequest,
    BadTable,
    BudgetExhausted,
    KeyReused,
    LedgerHalted,
    OutcomeUnknown,
    UnsupportedQuery,
    VaultUnreachable,
)  # fmt: skip
from noisebank.core.records import Case
from noisebank.core.result import Result
from noisebank.core.units import Precision
from noisebank.planning.coarse_looks import least_half_width
from support.banks import memory_account, write_people

AVERAGE = "SELECT AVG(age) FROM people WHERE smoker"
ROWS = 900
TRUTH = sum(20 + i % 60 for i in range(ROWS) if i % 3) / sum(1 for i in range(ROWS) if i % 3)


@pytest.fixture(scope="module")
def account(tmp_path_factory: pytest.TempPathFactory) -> Account:
    return memory_account(write_people(tmp_path_factory.mktemp("people"), rows=ROWS, epsilon="40"))


def test_an_average_is_as_close_as_requested(account: Account) -> None:
    quote, before = account.quote(AVERAGE, within=3), account.state.spent
    result = account.ask(AVERAGE, within=3)
    assert max(result.value - result.low, result.high - result.value) <= 3
    assert abs(result.value - TRUTH) < 9  # six standard deviations: one interval in twenty misses the truth
    assert "every number is within 3" in result.notes[-1]
    assert result.cost == account.state.spent - before == Precision(sum(part.cost.units for part in result.parts))
    assert [part.case for part in result.parts] == [Case.FIRST, Case.FIRST, Case.REFINE, Case.REFINE]
    assert quote.coarse_look and quote.coarse_look < result.cost < quote.cost
    # In the end the look is a small part of it: what is left is counted in what such requests may cost.
    assert quote.how_many == quote.remains.units // quote.cost.units <= 10
    assert "at most 10% of the budget" in repr(quote)


def test_a_retry_takes_the_same_steps(account: Account) -> None:
    first = account.ask(AVERAGE, within=4, key="again")
    spent = account.state.spent
    again = account.ask(AVERAGE, within=4, key="again")
    assert again.rows == first.rows and account.state.spent == spent
    with pytest.raises(KeyReused):
        account.ask("SELECT AVG(income) FROM people WHERE smoker", within=40, key="again")


def test_steps_are_powers_of_two_and_far_apart(account: Account) -> None:
    result = account.ask("SELECT AVG(income) FROM people WHERE town = 'north'", within=30)
    for look, answer in zip(result.parts[:2], result.parts[2:], strict=True):
        growth = Fraction(answer.target.units, look.target.units)
        assert growth >= 16 and growth.denominator == 1 and growth.numerator & (growth.numerator - 1) == 0


def test_what_cannot_be_reached_ends_at_its_look(account: Account) -> None:
    before = account.state.spent
    result = account.ask("SELECT AVG(children) FROM people WHERE age > 100", within="0.01")
    assert "not seen to be within 0.01: that would cost more than this request may (max_cost;" in result.notes[-1]
    assert (account.state.spent.units - before.units) * 1_000 < account.state.budget.units
    limited = account.ask("SELECT AVG(income) FROM people WHERE NOT smoker", within=20, max_cost="0.01")
    assert "not seen" in limited.notes[-1] and limited.cost.exact <= Fraction(1, 100)


def test_groups_ratios_quantiles_and_statistics(account: Account) -> None:
    for sql, wish in (
        ("SELECT town, COUNT(*) AS n FROM people GROUP BY town", {"relative": "5%"}),
        ("SELECT SUM(income) / COUNT_IF(smoker) AS ratio FROM people", {"relative": "10%"}),
        ("SELECT town, AVG(age) AS mean FROM people GROUP BY town", {"within": "5"}),
        ("SELECT SUM(income) / SUM(age) AS r, AVG(age) FILTER (WHERE smoker) AS m FROM people", {"relative": "20%"}),
    ):
        result = account.ask(sql, **wish)
        assert "every number is within" in result.notes[-1], sql
        assert all(each.stddev is None for row in result.rows for each in row.estimates)


@pytest.mark.parametrize("wish", [{"within": 20}, {"relative": "20%"}, {"epsilon": "0.1", "delta": "1e-6"}])
def test_derived_results_that_only_order_or_choose(account: Account, wish: dict[str, object]) -> None:
    """A fuzz found that these ended in an assertion: all that is shown is linear, and what orders it is not."""
    for sql in (
        "SELECT COUNT(*) FROM people WHERE age > 31 ORDER BY AVG(income)",
        "SELECT town, COUNT(*) FROM people WHERE age > 31 GROUP BY town HAVING AVG(age) > 3",
    ):
        quote = account.quote(sql, **wish)  # type: ignore[arg-type]
        assert account.ask(sql, **wish).cost <= quote.cost  # type: ignore[arg-type]
    with pytest.raises(UnsupportedQuery, match="sigma"):
        account.ask(sql, sigma=5)


def test_all_numbers_at_once_are_stated_wider(account: Account) -> None:
    sql = "SELECT town, COUNT(*) AS n FROM people GROUP BY town"
    each, together = (account.ask(sql, within=20, groups=groups) for groups in ("each", "all"))
    assert together.rows[0].stddev < each.rows[0].stddev and together.confidence == each.confidence == 0.95
    with pytest.raises(BadRequest, match="each or all"):
        account.ask(sql, within=20, groups="some")


def test_rows_that_noise_has_chosen_are_corrected_for_once(account: Account) -> None:
    """All numbers at once, or those that are chosen among all: for one number per row it is the same correction."""
    sql = "SELECT town, COUNT(*) AS n FROM people GROUP BY town ORDER BY n DESC LIMIT 1"
    each, together = (account.ask(sql, spend="1%", groups=groups) for groups in ("each", "all"))
    assert each.rows == together.rows and each.rows[0].items == ("n",)
    assert "those of one column hold together with 95% confidence" in each.notes[-1]
    assert "all of them hold together with 95% confidence" in together.notes[-1]
    looked = account.ask("SELECT town, AVG(age) AS m FROM people GROUP BY town HAVING COUNT(*) > 5", within=5)
    assert any("hold together with 95% confidence" in note for note in looked.notes)


def test_a_share_of_the_budget_is_spent(account: Account) -> None:
    sql = "SELECT VARIANCE(income) AS v, AVG(income) AS m FROM people WHERE age > 33"
    quote = account.quote(sql, spend="1%")
    result = account.ask(sql, spend="0.01")
    assert result.cost == quote.cost <= Precision(account.state.budget.units // 100)
    assert quote.cost.units > account.state.budget.units // 101
    for wrong in ("0", "2", "-1%", "much"):
        with pytest.raises(BadRequest):
            account.ask(sql, spend=wrong)


def test_what_goes_with_nothing_else(account: Account) -> None:
    (outcome,) = account.ask_many([Ask(AVERAGE, {"within": 3})], atomic=True)
    assert isinstance(outcome, BadRequest) and "charged before" in str(outcome)
    with pytest.raises(UnsupportedQuery, match="sigma"):
        account.ask(AVERAGE, sigma=3)
    with pytest.raises(BadRequest, match=r"0\.9999"):
        account.ask(AVERAGE, within=3, confidence="0.99999")


@pytest.mark.parametrize(("stated", "least", "most"), [(1.0, 0.94, 1.0), (0.6, 0.0, 0.93)])
def test_what_is_stated_after_looks_holds(
    account: Account, monkeypatch: pytest.MonkeyPatch, stated: float, least: float, most: float
) -> None:
    """Noise is drawn as bank and ledger would: every step contains the one before. A wrong scale is noticed."""
    real, random, draws = account.ask(AVERAGE, within=3), Random(11), 250
    assert isinstance(real, Result)
    answers: list[Answer] = []

    def answer_steps(context: AccountContext, items: Sequence[BatchItem]) -> None:
        for item in items:
            for index, (question, target) in enumerate(item.questions):
                precision = float(context.target_precision(question, target))
                unit = float(context.sensitivity_of(question.query) * abs(question.unit))
                before, error = errors.get(index, (0.0, 0.0))
                fresh = random.gauss(0.0, unit / (precision - before) ** 0.5)
                error = (before * error + (precision - before) * fresh) / precision
                errors[index] = precision, error
                value = truths[index] + error
                stddev = stated * unit / precision**0.5
                item.answers.append(replace(answers[index], value=value, exact=Fraction(value), stddev=stddev))

    item = account._parser.parse_request(Ask(AVERAGE, {"within": 3})).item
    looking.answer_batch(account.context, [item])
    answers = item.answers
    smokers = sum(1 for i in range(ROWS) if i % 3)
    truths = [TRUTH * smokers, float(smokers)]
    monkeypatch.setattr(looking, "answer_batch", answer_steps)
    covered = 0
    for _ in range(draws):
        errors: dict[int, tuple[float, float]] = {}
        outcome = account.ask(AVERAGE, within=3)
        covered += outcome.low <= TRUTH <= outcome.high
    assert least <= covered / draws <= most


@pytest.mark.parametrize(
    ("sql", "wish"),
    [
        (AVERAGE, {"within": "1e-30"}),
        ("SELECT town, AVG(age) FROM people GROUP BY town", {"within": "1e-9"}),
        ("SELECT AVG(children > 2) FROM people", {"within": "1e-12", "max_cost": "40%"}),
        (AVERAGE, {"within": 1, "max_cost": "1e-8"}),
    ],
)
def test_what_no_average_can_be_is_refused_before_a_look(account: Account, sql: str, wish: dict[str, str]) -> None:
    """It bought its look and then said that the goal cannot be reached."""
    before, entries = account.state.spent, len(account.ledger.list_reservations(account.id))
    with pytest.raises(
        BadRequest, match=r"is finer than .* can be for this price, whatever the table is: say at least"
    ):
        account.ask(sql, **wish, key="finer")
    assert account.state.spent == before and len(account.ledger.list_reservations(account.id)) == entries
    assert account.vault.find_request_by_key(account.id, "owner", "finer / look 1") is None
    if "max_cost" not in wish:
        with pytest.raises(BadRequest, match="finer"):
            account.quote(sql, **wish)


def test_the_least_width_is_below_every_stated_one(account: Account) -> None:
    """The bound holds for the most favourable table, at the most precise answer that the price allows."""
    for sql in (AVERAGE, "SELECT AVG(income) FROM people", "SELECT AVG(smoker) FROM people WHERE town = 'north'"):
        result = account.ask(sql, epsilon="1.5", delta="1e-6")
        top = result.parts[0]
        query = account.parse(top.sql).query
        least = least_half_width(float(account.context.sensitivity_of(query)), top.target, ROWS, 0.95)
        assert least <= (result.high - result.low) / 2


ERRORS = (BadTable("cannot be read"), OutcomeUnknown("no answer"), LedgerHalted("stopped"), ZeroDivisionError("a bug"))


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_an_error_after_a_look_is_this_requests_alone(error: Exception, tmp_path: Path) -> None:
    """It was a ValueError about zip(), for the whole batch."""
    account = memory_account(write_people(tmp_path, rows=ROWS, epsilon="40"))
    real, calls = account.ledger.reserve_many, iter(range(9))

    def fail_once(groups: Any) -> Any:
        if next(calls) == 1:
            raise error
        return real(groups)

    asks = [Ask(AVERAGE, {"within": 6}, key="k"), Ask("SELECT COUNT(*) FROM people WHERE age > 40", {"sigma": 3})]
    with patch.object(account.ledger, "reserve_many", fail_once):
        failed, other = account.ask_many(asks)
    assert isinstance(failed, OutcomeUnknown if isinstance(error, ZeroDivisionError) else type(error))
    assert isinstance(other, Result)
    again, entries = account.ask_many(asks[:1])[0], account.ledger.list_reservations(account.id)
    assert isinstance(again, Result) and len(again.parts) == 4 and len(entries) == 5
    with patch.object(account.ledger, "reserve_many", side_effect=error), pytest.raises(type(error)):
        account.ask("SELECT AVG(age) FROM people WHERE town = 'north'", within=9)


def test_a_request_that_ended_at_its_look_has_ended(tmp_path: Path) -> None:
    """One key has one answer: more budget, or more that a request may cost, is for another key."""
    account = memory_account(write_people(tmp_path, rows=ROWS, epsilon="40"))
    real, calls = account.ledger.reserve_many, iter(range(9))
    refusal = BudgetExhausted(Precision(2), Precision(1), Precision(9))

    def refuse_once(groups: Any) -> Any:
        return [refusal] if next(calls) == 1 else real(groups)

    with patch.object(account.ledger, "reserve_many", refuse_once):
        ended = account.ask(AVERAGE, within=6, key="k")
    spent = account.state.spent
    assert len(ended.parts) == 2 and "not seen" in ended.notes[-1]
    again = account.ask(AVERAGE, within=6, key="k", max_cost="20")
    assert (again.rows, again.notes, account.state.spent) == (ended.rows, ended.notes, spent)
    other = account.ask(AVERAGE, within=6, key="other")
    assert len(other.parts) == 4 and account.state.spent > spent


@pytest.mark.parametrize("step", ["plan_step", "save_end"])
def test_a_vault_that_fails_between_steps_is_this_requests_error(step: str, tmp_path: Path) -> None:
    """Not that of what was asked beside it, whose answer is released."""
    account = memory_account(write_people(tmp_path, rows=ROWS, epsilon="40"))
    unreachable = Ask("SELECT AVG(income) FROM people WHERE NOT smoker", {"within": "20"}, max_cost="0.01", key="k")
    first = Ask(AVERAGE, {"within": "6"}, key="k") if step == "plan_step" else unreachable
    asks = [first, Ask("SELECT COUNT(*) FROM people WHERE age > 40", {"sigma": 3})]
    owner = looking if step == "plan_step" else looking.LookedRequest
    with patch.object(owner, step, side_effect=VaultUnreachable("gone")):
        failed, other = account.ask_many(asks)
    assert isinstance(failed, VaultUnreachable) and isinstance(other, Result)
    assert isinstance(account.ask_many(asks[:1])[0], Result)


def test_less_than_was_paid_is_another_request(account: Account) -> None:
    """Who allows less under the same key does not get the look instead of the answer."""
    sql = "SELECT AVG(age) FROM people WHERE NOT smoker"
    first = account.ask(sql, within=4, key="paid")
    with pytest.raises(KeyReused, match="paid"):
        account.ask(sql, within=4, key="paid", max_cost=Fraction(first.parts[0].cost.units * 3, 10**18))
    assert account.ask(sql, within=4, key="paid").rows == first.rows


def test_what_others_look_at_meanwhile_does_not_change_a_retry(tmp_path: Path) -> None:
    """Its second look was bought while there was room for looks, and a retry finds none: it goes the same way."""
    policy = write_people(tmp_path, rows=ROWS, epsilon="2")
    for _ in range(50):  # the noise of the first look decides: about every second bank looks twice
        account = memory_account(policy)
        first = account.ask(AVERAGE, within=8, key="k")
        if len(first.parts) == 6:
            break
    else:
        raise AssertionError("nobody has looked twice")
    with patch.object(account.context.looks, "has_room", return_value=False):
        assert account.ask(AVERAGE, within=8, key="k").rows == first.rows


def test_a_look_is_not_bought_under_a_key_that_is_taken(account: Account) -> None:
    account.ask("SELECT COUNT(*) FROM people WHERE smoker", sigma=3, key="taken")
    spent = account.state.spent
    with pytest.raises(KeyReused, match="taken"):
        account.ask("SELECT AVG(income) FROM people WHERE town = 'south'", within=90, key="taken")
    assert account.state.spent == spent


def test_an_answer_that_is_lost_is_not_replaced_by_its_look(tmp_path: Path) -> None:
    account = memory_account(write_people(tmp_path, rows=ROWS, epsilon="40"))
    account.ask(AVERAGE, within=6, key="k")
    final = account.ledger.list_reservations(account.id)[-1]
    with patch.object(coarse_pipeline, "complete_reservations", lambda context, paid: [
        AnswerLost("lost") if reservation.id == final.id else outcome
        for (reservation, _), outcome in zip(paid, complete_reservations(context, paid), strict=True)
    ]), pytest.raises(AnswerLost):  # fmt: skip
        account.ask(AVERAGE, within=6, key="k")
