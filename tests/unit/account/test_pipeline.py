"""The path takes a batch: shared steps, errors of one's own, order among those that build on each other, crashes."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from noisebank.account.account import Account
from noisebank.account.recovery import recover_account
from noisebank.bank.opening import load_accounts, open_account
from noisebank.core.asks import AccuracyOptions, Ask
from noisebank.core.errors import AnswerLost, BadTable, BudgetExhausted, NoisebankError, PriceMoved
from noisebank.core.records import Case
from noisebank.policy.file import read_policy
from support.banks import memory_account, memory_rooms, write_people

COUNT = "SELECT count(*) FROM people WHERE age > {}"
WIDE: AccuracyOptions = {"sigma": "30"}
FINE: AccuracyOptions = {"sigma": "20"}
STEPS = ("save_requests", "reserve_many", "seal_many", "publish_many")


@pytest.fixture
def account(tmp_path: Path) -> Account:
    return memory_account(write_people(tmp_path, neighbours="add-remove"))


def test_a_batch_shares_its_commits_its_blocks_and_its_statement(
    account: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[str] = []
    parts = [(account.vault, name) for name in ("save_requests", "seal_many")]
    parts += [(account.ledger, name) for name in ("reserve_many", "publish_many")]
    parts.append((account.engine, "_run_sql"))
    for part, name in parts:
        monkeypatch.setattr(part, name, _noting(getattr(part, name), name, calls))
    before = account.ledger.head().number
    outcomes = account.ask_many([Ask(COUNT.format(age), WIDE) for age in range(20)])
    assert not any(isinstance(outcome, NoisebankError) for outcome in outcomes)
    assert calls == ["save_requests", "reserve_many", "_run_sql", "seal_many", "publish_many"]
    assert account.ledger.head().number == before + 2


def _noting(real: Any, name: str, calls: list[str]) -> Any:
    def noted(*arguments: Any) -> Any:
        calls.append(name)
        return real(*arguments)

    return noted


def list_crossings(account: Account, sql: str) -> list[tuple[str, str]]:
    """The calls of one ask from one module of account/ to another."""
    modules: list[str] = []
    crossings: list[tuple[str, str]] = []

    def notice(frame: FrameType, event: str, _: object) -> None:
        name = frame.f_globals.get("__name__", "")
        is_written = not frame.f_code.co_filename.startswith("<")  # dataclasses make their methods
        if event not in ("call", "return") or not name.startswith("noisebank.") or not is_written:
            return
        if event == "return":
            modules.pop()
            return
        crossings.append((modules[-1] if modules else "", name))
        modules.append(name)

    before = sys.getprofile()
    sys.setprofile(notice)
    try:
        account.ask(sql, sigma="30")
    finally:
        sys.setprofile(before)
    own = "noisebank.account."
    return [pair for pair in crossings if pair[0] != pair[1] and all(name.startswith(own) for name in pair)]


def test_an_ask_goes_back_and_forth_in_the_account_twelve_times_at_most(account: Account) -> None:
    """The path reads from top to bottom: ADR 26. What the vault calls back (to draw) comes from outside."""
    account.ask(COUNT.format(50), sigma="30")
    crossings = list_crossings(account, COUNT.format(51))
    assert 8 <= len(crossings) <= 12, crossings
    assert ("noisebank.account.account", "noisebank.account.pipeline") in crossings


def test_one_query_in_one_batch_is_first_refined_repeated_and_blurred(account: Account) -> None:
    sigmas = ("30", "20", "30", "20", "25", "30")
    outcomes = account.ask_many([Ask(COUNT.format(40), {"sigma": sigma}) for sigma in sigmas])
    cases = [outcome.case for outcome in outcomes if not isinstance(outcome, NoisebankError)]
    assert cases == [Case.FIRST, Case.REFINE, Case.REPEAT, Case.REPEAT, Case.BLUR, Case.REPEAT]
    values = [outcome.value for outcome in outcomes if not isinstance(outcome, NoisebankError)]
    assert values[0] == values[2] == values[5] and values[1] == values[3]


def test_whoever_fails_leaves_alone(account: Account, monkeypatch: pytest.MonkeyPatch) -> None:
    """Refused by the price, by the budget, by a lost answer, by the table: each has its own error, all others go on."""
    account.ask(COUNT.format(70), **WIDE)
    account.vault._database.execute("DELETE FROM answers")  # type: ignore[attr-defined]
    unreadable = account.parse(COUNT.format(60)).query
    real = account.engine.statistics_many

    def read(queries: Any) -> Any:
        numbers = real(queries)
        return [BadTable("gone") if query == unreadable else n for query, n in zip(queries, numbers, strict=True)]

    monkeypatch.setattr(account.engine, "statistics_many", read)
    requests = [
        Ask(COUNT.format(10), WIDE),
        Ask(COUNT.format(20), WIDE, max_cost="0"),
        Ask(COUNT.format(30), {"sigma": "0.05"}),
        Ask(COUNT.format(70), FINE),
        Ask(COUNT.format(60), WIDE, key="later"),
        Ask(COUNT.format(40), WIDE),
    ]
    outcomes = account.ask_many(requests)
    kinds = [type(outcome) for outcome in outcomes if isinstance(outcome, NoisebankError)]
    assert kinds == [PriceMoved, BudgetExhausted, AnswerLost, BadTable]
    assert [isinstance(outcome, NoisebankError) for outcome in outcomes] == [False, True, True, True, True, False]
    monkeypatch.undo()
    spent = account.state.spent
    assert account.ask(COUNT.format(60), key="later", **WIDE).case is Case.FIRST  # it was paid for, and is finished
    assert account.state.spent == spent


def test_a_mistake_of_ours_is_an_unknown_outcome_for_one(account: Account, monkeypatch: pytest.MonkeyPatch) -> None:
    wrong, real = account.parse(COUNT.format(20)).query, account.context.plain.plan

    def plan(question: Any, target: Any) -> Any:
        return 1 // 0 if question.query == wrong else real(question, target)

    monkeypatch.setattr(account.context.plain, "plan", plan)
    good, bad = account.ask_many([Ask(COUNT.format(10), WIDE), Ask(COUNT.format(20), WIDE)])
    assert not isinstance(good, NoisebankError)
    assert isinstance(bad, NoisebankError) and isinstance(bad.__cause__, ZeroDivisionError)
    with pytest.raises(ZeroDivisionError):
        account.ask(COUNT.format(20), **WIDE)


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("step", STEPS)
def test_a_batch_that_is_cut_off_is_finished_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str, after: bool
) -> None:
    """Before and after every durable step: after a restart and a retry each is answered, with one draw and one charge.

    The batch has new questions, two of one query, and a group.
    """
    rooms = memory_rooms()
    account, _ = open_account(rooms, read_policy(write_people(tmp_path, neighbours="add-remove", epsilon="8")))
    pair = "SELECT count(*), sum(age) FROM people WHERE smoker"
    batch = [Ask(COUNT.format(age), WIDE, key=f"k{age}") for age in (10, 20, 30)]
    batch += [Ask(COUNT.format(10), FINE, key="finer"), Ask(pair, {"epsilon": "0.2", "delta": "1e-6"}, key="pair")]
    part: Any = rooms.vault if step in ("save_requests", "seal_many") else rooms.ledger
    real = getattr(part, step)

    def cut(*arguments: Any) -> Any:
        if after:
            real(*arguments)
        raise KeyboardInterrupt

    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(part, step, cut)
        account.ask_many(batch)
    before = {sealed.id: sealed.text for sealed in rooms.vault.list_answers(account.id)}
    spent = account.state.spent
    (again,) = load_accounts(rooms)
    counts = recover_account(again)
    charged = step in ("seal_many", "publish_many") or (step == "reserve_many" and after)
    assert counts.finished == (5 if charged and (step, after) != ("publish_many", True) else 0)
    assert again.state.spent == spent and bool(spent) == charged
    outcomes = again.ask_many(batch)
    assert not any(isinstance(outcome, NoisebankError) for outcome in outcomes)
    reservations = again.ledger.list_reservations(again.id)
    assert len(reservations) == 6 and all(reservation.is_finished for reservation in reservations)
    assert [entry.case for entry in reservations].count(Case.FIRST) == 5
    texts = {sealed.id: sealed.text for sealed in rooms.vault.list_answers(account.id)}
    assert before.items() <= texts.items() and len(texts) == 6
    assert again.state.spent.units == sum(entry.fresh_precision.units for entry in reservations)


def test_fifty_threads_race_for_the_last_of_the_budget(tmp_path: Path) -> None:
    account = memory_account(write_people(tmp_path, neighbours="add-remove", epsilon="1"))
    most = account.state.budget.exact
    half: AccuracyOptions = {"sigma": str(float((most * 2 / 3) ** -1) ** 0.5)}

    def ask(age: int) -> object:
        return account.ask_many([Ask(COUNT.format(age), half), Ask(COUNT.format(age), half)])

    with ThreadPoolExecutor(50) as pool:
        outcomes = list(pool.map(ask, range(50)))
    winners = [pair for pair in outcomes if not isinstance(pair[0], NoisebankError)]  # type: ignore[index]
    assert len(winners) == 1 and [each.case for each in winners[0]] == [Case.FIRST, Case.REPEAT]  # type: ignore[attr-defined]
    assert account.state.spent <= account.state.budget
    assert len(account.ledger.list_reservations(account.id)) == 2


def test_questions_of_one_cube_go_one_after_the_other(tmp_path: Path) -> None:
    policy = write_people(tmp_path, neighbours="add-remove")
    policy.write_text(f'cubes = [["smoker", "town"]]\n{policy.read_text()}')
    account = memory_account(policy)
    whole = Ask("SELECT count(*) FROM people GROUP BY smoker, town", WIDE)
    part = Ask("SELECT count(*) FROM people WHERE smoker AND town = 'north'", WIDE)
    first, inferred, again = account.ask_many([whole, part, whole])
    assert not isinstance(first, NoisebankError) and first.case is Case.FIRST
    assert not isinstance(inferred, NoisebankError) and inferred.case is Case.INFER
    assert not isinstance(again, NoisebankError) and again.case is Case.REPEAT
    assert account.state.spent == first.cost
