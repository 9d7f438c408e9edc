"""Backups of a bank whose vault is in a database and whose ledger is on a chain, put back in either kind of vault."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from conformance.server import Server
from contract.node import node_or_skip
from noisebank import Bank, create_bank, open_bank
from support.banks import write_people
from support.internals import AnswerLost, BadBank, BadLedger, BadRequest, Case, RestoreOptions, make_backup, restore
from vault.town import DATABASE, Town

SMOKERS = "SELECT COUNT(*) FROM kept WHERE smoker"


def test_a_shared_bank_is_copied_while_two_gateways_use_it(town: Town, pair: tuple[Bank, Bank], tmp_path: Path) -> None:
    one, two = pair
    one.open_account(town.policy("kept", cubes='cubes = [["smoker", "town"]]\n'))
    first = one.account("kept").ask(SMOKERS, sigma="4", key="k")
    made = make_backup(town.folder, tmp_path / "copy")
    text = "".join(path.read_bytes().decode("latin-1") for path in (tmp_path / "copy").iterdir())
    assert town.node.url not in text and str(town.server.folder) not in text and made.manifest.on_chain
    later = two.account("kept").ask("SELECT COUNT(*) FROM kept WHERE age > 30", sigma="4", key="later")
    with pytest.raises(BadRequest, match="rpc"):
        restore(tmp_path / "copy", tmp_path / "again", RestoreOptions(vault="file"))
    with pytest.raises(BadRequest, match="vault"):
        restore(tmp_path / "copy", tmp_path / "again", RestoreOptions(rpc=town.node.url))
    with pytest.raises(BadBank, match="not empty"):
        address = town.server.address("postgres", DATABASE)
        restore(tmp_path / "copy", tmp_path / "again", RestoreOptions(rpc=town.node.url, vault=address))
    with node_or_skip() as other, pytest.raises(BadLedger):
        restore(tmp_path / "copy", tmp_path / "again", RestoreOptions(rpc=other.url, vault="file"))
    assert not (tmp_path / "again").exists()
    town.server.execute("CREATE DATABASE spare")
    try:
        for name, vault in (("file", "file"), ("database", town.server.address("postgres", "spare"))):
            done = restore(tmp_path / "copy", tmp_path / name, RestoreOptions(rpc=town.node.url, vault=vault))
            assert len(done.vault_check.lost_ids) == 1 + (
                name == "database"
            )  # what the first of the two publishes below
            assert done.vault_check.recomputed_count >= 1 and not done.has_keys
            shutil.copytree(town.folder / "keys", tmp_path / name / "keys", dirs_exist_ok=True)
            with open_bank(tmp_path / name) as bank:
                account = bank.account("kept")
                assert account.ask(SMOKERS, sigma="4", key="k").exact == first.exact
                assert account.ask(SMOKERS, sigma="5").case is Case.INFER
                with pytest.raises(AnswerLost):
                    account.ask("SELECT COUNT(*) FROM kept WHERE age > 30", sigma="4", key="later")
    finally:
        town.server.execute("DROP DATABASE spare WITH (FORCE)")
    again = two.account("kept").ask("SELECT COUNT(*) FROM kept WHERE age > 30", sigma="4", key="later")
    assert again.exact == later.exact


def test_a_vault_moves_from_a_file_to_a_database(tmp_path: Path, database: str, server: Server) -> None:
    policy = write_people(tmp_path / "table", neighbours="add-remove")
    sql = "SELECT COUNT(*) FROM people WHERE smoker"
    with open_bank(create_bank(tmp_path / "bank")) as bank:
        first = bank.open_account(policy).ask(sql, sigma="4", key="k")
    make_backup(tmp_path / "bank", tmp_path / "copy", with_keys=True)
    restore(tmp_path / "copy", tmp_path / "moved", RestoreOptions(vault=database))
    assert not (tmp_path / "moved" / "vault.sqlite").exists()
    assert json.loads((tmp_path / "moved" / "vault.json").read_text())["address"] == database
    with open_bank(tmp_path / "moved") as bank:
        assert bank.account().ask(sql, sigma="4", key="k").exact == first.exact
        assert bank.account().ask(sql, sigma="3").case is Case.REFINE
