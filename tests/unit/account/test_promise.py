"""What an account promises at moments that somebody chose: no number follows what is spent, raises and lowerings do."""

from __future__ import annotations

import dataclasses
from fractions import Fraction
from pathlib import Path

import pytest

from noisebank.account.account import Account
from noisebank.account.statement import Statement, make_statement
from noisebank.bank.opening import open_account, open_next_version
from noisebank.cli import render
from noisebank.core.errors import BadRequest, LedgerRefused
from noisebank.core.quote import Quote
from noisebank.core.units import Precision
from noisebank.policy.file import read_policy
from noisebank.privacy.calibration import account_epsilon, budget_precision
from noisebank.privacy.odometer import raised_epsilon
from noisebank.service.web.formatting import budget_guess_rate, guess_rate, max_guess_rate
from support.banks import memory_rooms, write_people

DELTA = Fraction(1, 10**6)
FOUR = budget_precision(Fraction(4), DELTA)
WHERE = "SELECT COUNT(*) FROM people WHERE age > {}"


@pytest.fixture
def account(tmp_path: Path) -> Account:
    path = write_people(tmp_path, neighbours="add-remove")
    path.write_text("raise_delay_hours = 0\n" + path.read_text())
    return open_account(memory_rooms(), read_policy(path))[0]


def ask(account: Account, age: int = 30, epsilon: str = "0.5") -> None:
    account.ask(WHERE.format(age), epsilon=epsilon, delta="1e-6")


def raise_to(account: Account, epsilon: str) -> None:
    account.ledger.propose_raise(account.id, account.raise_to(Fraction(epsilon)).units)
    account.ledger.finish_raise(account.id)


def shown(account: Account) -> float:
    return max_guess_rate(account.budgets, account.epsilon, account.context.policy.delta)


def test_asking_moves_the_share_and_never_the_promise(account: Account) -> None:
    """The number that followed the spend was too small where it mattered: accounts that stop at extreme answers."""
    assert account.epsilon == 4 and shown(account) == budget_guess_rate(FOUR)
    for age in range(30, 34):
        ask(account, age)
        assert account.epsilon == 4 and shown(account) == budget_guess_rate(FOUR)
    made = make_statement(account)
    assert made.epsilon == 4 and made.share == float(account.state.spent) / float(FOUR) and not made.raised
    assert shown(account) > budget_guess_rate(account.state.spent)  # what was shown before


def test_nothing_that_people_see_is_an_epsilon_of_the_spend() -> None:
    for kind in (Statement, Quote):
        names = {field.name for field in dataclasses.fields(kind)}
        assert not {name for name in names if name.startswith("epsilon_")}, kind
    assert "epsilon" in {field.name for field in dataclasses.fields(Statement)}


def test_a_lowered_budget_promises_what_it_did_once_answers_were_given(account: Account) -> None:
    ask(account)
    account.ledger.lower_budget(account.id, account.state.spent.units)
    assert account.state.remaining_budget == Precision(0)
    assert account.epsilon == 4 and shown(account) == budget_guess_rate(FOUR)
    assert make_statement(account).lowered


def test_a_budget_that_is_lowered_before_any_answer_promises_less(account: Account) -> None:
    lower = budget_precision(Fraction(1), DELTA)
    account.ledger.lower_budget(account.id, lower.units)
    ask(account)
    assert account.epsilon == float(account_epsilon(lower, DELTA)) <= 1 and not make_statement(account).lowered


def test_a_raise_before_any_answer_is_an_opening_with_more(account: Account) -> None:
    raise_to(account, "5")
    ask(account)
    assert account.budgets.fixed == account.state.budget == budget_precision(Fraction(5), DELTA)
    assert account.epsilon == float(account_epsilon(account.state.budget, DELTA)) and not account.budgets.raised


def test_a_raise_that_was_announced_before_any_answer_counts_from_then(account: Account) -> None:
    account.ledger.propose_raise(account.id, account.raise_to(Fraction(5)).units)
    ask(account)
    before = account.epsilon
    account.ledger.finish_raise(account.id)
    assert account.epsilon == before == float(account_epsilon(budget_precision(Fraction(5), DELTA), DELTA))


def test_a_raise_after_answers_is_the_odometers(account: Account) -> None:
    ask(account)
    granted = account.raise_to(Fraction(10))
    assert FOUR < granted < budget_precision(Fraction(10), DELTA)  # less than at opening
    raise_to(account, "10")
    assert account.state.budget == granted and account.budgets.raised and make_statement(account).raised
    epsilon = raised_epsilon(FOUR, granted, DELTA)
    assert account.epsilon == float(epsilon) <= 10
    assert shown(account) == guess_rate(float(epsilon), DELTA) > budget_guess_rate(granted)
    account.ledger.lower_budget(account.id, account.state.spent.units)
    assert account.epsilon == float(epsilon)


def test_a_raise_that_grants_nothing_is_refused_and_says_from_where(account: Account) -> None:
    ask(account)
    with pytest.raises(BadRequest, match=r"more than 4\.75523"):  # the line at the first budget
        account.raise_to(Fraction("4.5"))
    with pytest.raises(LedgerRefused, match="not higher"):
        account.ledger.propose_raise(account.id, account.raise_to(Fraction(3)).units)
    account.ledger.lower_budget(account.id, account.state.spent.units)
    assert account.raise_to(Fraction("4.5")) == FOUR  # back to what was promised before any answer
    raise_to(account, "4.5")
    assert account.epsilon == 4 and not account.budgets.raised and not account.budgets.lowered


def test_versions_are_one_account_with_one_promise(account: Account, tmp_path: Path) -> None:
    ask(account)
    (tmp_path / "people.csv").write_text((tmp_path / "people.csv").read_text() + "33,100,true,north,1\n")
    rooms = memory_rooms()
    second = open_next_version(
        type(rooms)(account.ledger, account.vault, rooms.entropy), account, account.context.policy
    )[0]
    ask(second, 40)
    assert second.epsilon == 4 and second.budgets.fixed == FOUR
    raise_to(second, "6")
    assert second.budgets.raised and 4 < second.epsilon <= 6


def test_quotes_say_how_much_of_the_budget_is_spent(account: Account, capsys: pytest.CaptureFixture[str]) -> None:
    ask(account)
    quote = account.quote(WHERE.format(50), epsilon="0.5", delta="1e-6")
    assert quote.share_now == account.share(account.state.spent) and quote.share_after == 2 * quote.share_now
    render.show_quote(quote)
    render.show_statement(make_statement(account), 0)
    said = " ".join(capsys.readouterr().out.split())
    assert "of the budget" in said and "epsilon 4 at delta 1e-06 (zCDP: rho 0.352), for the whole budget" in said
    assert f"{float(account_epsilon(account.state.spent, DELTA)):.4f}" not in said
