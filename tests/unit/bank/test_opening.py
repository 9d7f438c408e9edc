"""Opening accounts: once per policy, of a table that holds still, with a cube of its own for each of the policy's."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from noisebank.bank.opening import open_account
from noisebank.core.errors import BadBank, BadRequest, BadTable
from noisebank.policy.file import read_policy
from noisebank.vault.sqlite_vault import SqliteVault
from support.banks import memory_rooms, write_people


def test_an_account_that_the_vault_has_forgotten_is_not_opened_twice(tmp_path: Path) -> None:
    parts, policy = memory_rooms(), read_policy(write_people(tmp_path))
    first, _ = open_account(parts, policy)
    with pytest.raises(BadRequest, match="--next"):
        open_account(parts, policy)
    with pytest.raises(BadBank, match="given out twice"):
        open_account(replace(parts, vault=SqliteVault(":memory:")), policy)
    assert [state.account for state in parts.ledger.books.list_accounts()] == [first.id]


def test_a_table_that_changes_meanwhile_is_not_opened(tmp_path: Path) -> None:
    path = write_people(tmp_path, neighbours="add-remove")
    table = path.parent / "people.csv"

    def change_table(done: int, total: int) -> None:
        if done == total:
            table.write_text(table.read_text() + "33,100,true,north,1\n")

    parts = memory_rooms()
    with pytest.raises(BadTable, match="changed while it was being opened"):
        open_account(parts, read_policy(path), change_table)
    assert not parts.ledger.books.list_accounts()
    open_account(parts, read_policy(path))


def test_cubes_of_one_size_are_charged_apart(tmp_path: Path) -> None:
    path = write_people(tmp_path)
    text = path.read_text().replace('type = "boolean"', 'type = "boolean"\nnullable = true')
    path.write_text('cubes = [["smoker"], ["town"]]\n' + text)
    account, _ = open_account(memory_rooms(), read_policy(path))
    assert account.state.cubes == (4, 4)
    for condition in ("smoker", "town = 'north'"):
        account.ask(f"SELECT COUNT(*) FROM people WHERE {condition}", epsilon="0.1", delta="1e-6")
    assert {entry.cube for entry in account.ledger.list_reservations(account.id)} == {1, 2}
