"""Copies of a bank whose requests take looks: made between any two durable steps of a request, and put back twice.

From a copy nothing is ever drawn for a reservation that its journal, or a newer one, shows; a request whose steps are
all there gets the same bits; and what looks may decide is counted as before."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from noisebank import Account, Bank, NoisebankError, create_bank, open_bank
from support.banks import write_people
from support.internals import AnswerLost, RestoreOptions, make_backup, restore

AVERAGE = "SELECT AVG(age) FROM people WHERE smoker"
OTHER = "SELECT town, AVG(income) FROM people GROUP BY town"
WISHES: dict[str, tuple[str, dict[str, Any]]] = {
    "early": (OTHER, {"within": 150}),
    "k": (AVERAGE, {"within": 6}),
}
STEPS = (("ledger", "reserve_many"), ("vault", "seal_many"), ("ledger", "publish_many"))
MOMENTS = tuple((number, when) for number in range(6) for when in ("before", "after"))
"""Of two steps of the request (its look, and its answer): before and after each is charged, sealed and published."""


def copy_at(bank: Bank, number: int, when: str, copy: Callable[[], object]) -> None:
    """Makes a copy around the n-th durable step from now on."""
    count = [0]

    def watch(owner: Any, name: str) -> None:
        real = getattr(owner, name)

        def step(*arguments: Any, **named: Any) -> Any:
            is_it, count[0] = count[0] == number, count[0] + 1
            if is_it and when == "before":
                copy()
            outcome = real(*arguments, **named)
            if is_it and when == "after":
                copy()
            return outcome

        setattr(owner, name, step)

    for owner, name in STEPS:
        watch(getattr(bank.parts, owner), name)


def ask(account: Account, key: str) -> Any:
    sql, wish = WISHES[key]
    return account.ask(sql, **wish, key=key)


@pytest.mark.parametrize(("number", "when"), MOMENTS)
def test_a_copy_between_two_steps_of_a_request(number: int, when: str, tmp_path: Path) -> None:
    folder, copies = tmp_path / "bank", [0]
    with open_bank(create_bank(folder)) as bank:
        account = bank.open_account(write_people(tmp_path / "table", rows=900, epsilon="30"))
        early = ask(account, "early")

        def copy() -> None:
            copies[0] += 1
            make_backup(folder, tmp_path / "copy", with_keys=True)

        copy_at(bank, number, when, copy)
        live = ask(account, "k")
        assert copies == [1] and len(live.parts) == 4
        exported = tmp_path / "journal.jsonl"
        exported.write_text("".join(line + "\n" for line in bank.export()))
        published = {entry.id for entry in account.ledger.list_reservations(account.id)}
        spent, looked = account.state.spent, account.context.looks.total

    # The copy alone, and the same copy over itself once it has gone on: its journal is the newer one then.
    first = _go_on(tmp_path / "copy", tmp_path / "alone", RestoreOptions(), early, None)
    again = _go_on(tmp_path / "copy", tmp_path / "alone", RestoreOptions(replace=True), early, first)
    assert again is None or first is None or again.rows == first.rows

    # An old copy beside the newest journal: spent is spent, what is lost is not measured, what looks decided counts.
    restore(tmp_path / "copy", tmp_path / "beside", RestoreOptions(journal=exported))
    with open_bank(tmp_path / "beside") as bank:
        account = bank.account()
        assert account.state.spent == spent and account.context.looks.total >= looked
        assert ask(account, "early").rows == early.rows
        try:
            assert ask(account, "k").rows == live.rows
        except NoisebankError as error:
            assert isinstance(error, AnswerLost), error
        sealed = {id for _, id in bank.parts.vault.sealed_ids()}
        assert {entry.id for entry in account.ledger.list_reservations(account.id)} == published
        assert sealed <= published and account.state.spent == spent


def _go_on(copy: Path, folder: Path, options: RestoreOptions, early: Any, before: Any) -> Any:
    """Puts a copy back, and asks again; nothing that was reserved in it without an answer may be drawn."""
    done = restore(copy, folder, options)
    with open_bank(folder) as bank:
        account = bank.account()
        reserved = {entry.id: entry.is_finished for entry in account.ledger.list_reservations(account.id)}
        had = {id for _, id in bank.parts.vault.sealed_ids()}
        assert ask(account, "early").rows == early.rows
        spent = account.state.spent
        try:
            result = ask(account, "k")
        except NoisebankError as error:
            assert isinstance(error, AnswerLost), error
            result = None
        sealed = {id for _, id in bank.parts.vault.sealed_ids()}
        assert not (sealed - had) & set(reserved), "drawn for what the copy's journal shows"
        if before is not None and result is not None:
            assert account.state.spent == spent, "charged again"
        assert done.given_up_count + len(done.vault_check.lost_ids) or result is not None
        assert account.verify().passed
        return result
