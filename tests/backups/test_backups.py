"""Backups: of a bank under load, put back, tampered with, killed in the middle; what a copy brings back."""

from __future__ import annotations

import json
import shutil
import threading
from contextlib import closing
from pathlib import Path
from typing import Any

import apsw
import pytest
from click.testing import CliRunner

from noisebank import Account, Bank, NoisebankError, create_bank, open_bank
from noisebank.bank import backup
from noisebank.cli.main import main
from noisebank.service import auth
from support.internals import (
    ACCESS,
    JOURNAL,
    VAULT,
    ZERO_PRECISION,
    AnswerLost,
    BadBank,
    BankInUse,
    Case,
    RestoreOptions,
    SystemEntropy,
    Tampered,
    make_backup,
    restore,
)

SMOKERS = "SELECT COUNT(*) FROM people WHERE smoker"


def older(age: int) -> str:
    return f"SELECT COUNT(*) FROM people WHERE age > {age}"


def answers(bank: Bank) -> dict[str, Any]:
    return {id.hex(): bank.parts.vault.find_answer(id) for _, id in bank.parts.vault.sealed_ids()}


# -- what comes back ------------------------------------------------------------------------------


def test_a_copy_comes_back_as_it_was(folder: Path, tmp_path: Path) -> None:
    with open_bank(folder) as bank:
        before, head, state = answers(bank), bank.head(), bank.account().state
        made = make_backup(folder, tmp_path / "copy", with_keys=True)  # the bank is open meanwhile
    assert not (tmp_path / "copy.partial").exists()
    for path in (tmp_path / "copy").rglob("*"):
        assert path.stat().st_mode & 0o077 == 0
    done = restore(tmp_path / "copy", tmp_path / "again", RestoreOptions(head=head.digest.hex()))
    assert (
        done.vault_check.answer_count == len(before) == 3
        and done.vault_check.recomputed_count == 3
        and not done.vault_check.lost_ids
    )
    assert done.has_keys and done.given_up_count == 0 and "pinned head" in done.compared_with[0]
    assert done.manifest.files == made.manifest.files
    with open_bank(tmp_path / "again") as bank:
        assert (answers(bank), bank.head(), bank.account().state) == (before, head, state)
        assert bank.account().ask(SMOKERS, sigma="4", key="first 4").case is Case.REFINE
        assert bank.account().ask(SMOKERS, sigma="3").case is Case.REFINE


def test_keys_are_left_out_unless_asked_for(folder: Path, tmp_path: Path) -> None:
    make_backup(folder, tmp_path / "copy")
    secrets = [path.read_text().strip() for path in (folder / "keys").iterdir()]
    for path in (tmp_path / "copy").rglob("*"):
        assert not any(secret in path.read_bytes().decode("latin-1") for secret in secrets)
    done = restore(tmp_path / "copy", tmp_path / "again")
    assert not done.has_keys and any("No keys" in warning for warning in done.warnings)
    with pytest.raises(BadBank, match="key"):
        open_bank(tmp_path / "again")
    shutil.copytree(folder / "keys", tmp_path / "again" / "keys", dirs_exist_ok=True)
    with open_bank(tmp_path / "again") as bank:
        assert bank.account().ask(SMOKERS, sigma="4").case is Case.REPEAT


def test_copies_of_a_bank_under_load_are_one_moment(folder: Path, tmp_path: Path) -> None:
    """Threads ask all the time; each copy opens, has what its journal shows, and repeats the same bits."""
    shown: dict[str, Any] = {}
    stop = threading.Event()

    def load(account: Account, worker: int) -> None:
        for number in range(10_000):
            if stop.is_set():
                return
            key = f"{worker} {number}"
            age, sigma = 20 + (number * 7 + worker) % 40, f"{60 - number % 30}"
            try:
                shown[key] = (older(age), sigma, account.ask(older(age), sigma=sigma, key=key).exact)
            except NoisebankError:
                return

    with open_bank(folder) as bank:
        threads = [threading.Thread(target=load, args=(bank.account(), worker)) for worker in range(3)]
        for thread in threads:
            thread.start()
        try:
            manifests = [make_backup(folder, tmp_path / f"copy{n}", with_keys=True).manifest for n in range(3)]
        finally:
            stop.set()
            for thread in threads:
                thread.join()
    blocks = [manifest.ledger["block"] for manifest in manifests]
    assert blocks == sorted(blocks) and blocks[-1] > blocks[0], "the load was no load"
    for number in range(3):
        done = restore(tmp_path / f"copy{number}", tmp_path / f"again{number}")
        assert not done.vault_check.lost_ids and not done.vault_check.unknown_ids
    with open_bank(tmp_path / "again2") as bank:
        account, found = bank.account(), 0
        for key, (sql, sigma, exact) in shown.items():
            question, accuracy = account.parse(sql), _wish(sigma)
            target = account.context.target_precision(question, accuracy)
            request = account.context.request_builder.build_request(question, accuracy, target, key, "owner")
            reservation = bank.ledger.find_reservation(account.id, request.id)
            if reservation is not None and request.id not in bank.parts.vault.lost_ids:
                assert account.ask(sql, sigma=sigma, key=key).exact == exact
                found += 1
        assert found > 5


def _wish(sigma: str) -> Any:
    from support.internals import parse_accuracy

    return parse_accuracy(sigma=sigma)


# -- what a copy cannot bring back ------------------------------------------------------------------


def test_the_other_order_would_lose_answers(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The planted mistake: the vault first. An answer published in between is in the journal and not in the vault."""
    real = backup.copy_database
    with open_bank(folder) as bank:

        def in_between(source: Path, target: Path) -> None:
            real(source, target)
            if source.name == first:
                bank.account().ask(older(40 if first == VAULT else 50), sigma="9")

        monkeypatch.setattr(backup, "copy_database", in_between)
        first = JOURNAL
        make_backup(folder, tmp_path / "right", with_keys=True)
        done = restore(tmp_path / "right", tmp_path / "again")
        assert not done.vault_check.lost_ids and done.vault_check.answer_count == 3  # the copy ends with its journal
        first = VAULT
        with tmp_path.joinpath("x").open("w"):
            room = tmp_path / "wrong"
            room.mkdir()
            in_between(folder / VAULT, room / VAULT)
            real(folder / JOURNAL, room / JOURNAL)
        assert backup._align_vault(room)["answers"] == 4  # one of five is gone
        from support.internals import check_vault, open_vault_copy, read_journal_file, replay_journal

        with open_vault_copy(room / VAULT) as vault:
            assert len(check_vault(replay_journal(read_journal_file(room / JOURNAL)), vault).lost_ids) == 1


def test_what_was_reserved_and_not_sealed_is_never_measured_from_a_copy(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The live bank measured it after the copy was made, and showed it: measured again it would be a second sample."""
    with open_bank(folder) as bank:
        account = bank.account()
        real = account.context.plain.draw_contents

        def copied_meanwhile(*parts: Any) -> Any:
            make_backup(folder, tmp_path / "copy", with_keys=True)
            return real(*parts)

        monkeypatch.setattr(account.context.plain, "draw_contents", copied_meanwhile)
        live = account.ask(older(30), sigma="4", key="k")
    done = restore(tmp_path / "copy", tmp_path / "again")
    assert done.given_up_count == 1 and any("given up" in warning for warning in done.warnings)
    with open_bank(tmp_path / "again") as bank:
        assert bank.recovered["people"].lost == 1 and bank.recovered["people"].finished == 0
        spent = bank.account().state.spent
        with pytest.raises(AnswerLost):
            bank.account().ask(older(30), sigma="4", key="k")
        with pytest.raises(AnswerLost):
            bank.account().ask(older(30), sigma="8")  # a blur of what is lost
        assert bank.account().state.spent == spent
        assert bank.account().ask(SMOKERS, sigma="4").case is Case.REPEAT
    # With the newer journal it is known that the answer was published: lost, and just as little measured.
    done = restore(tmp_path / "copy", folder, RestoreOptions(replace=True))
    assert len(done.vault_check.lost_ids) == 1 and done.given_up_count == 0
    with open_bank(folder) as bank, pytest.raises(AnswerLost):
        bank.account().ask(older(30), sigma="4", key="k")
    assert live.cost > ZERO_PRECISION


@pytest.mark.parametrize("known", [False, True])
def test_what_an_exported_journal_shows_without_an_answer_is_never_measured(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, known: bool
) -> None:
    """Anybody can export a journal between charge and answer. The bank shows the answer, and is then lost; the journal
    tells of the charge only. Whether the copied vault knows the request or the key brings it back: no second sample."""
    with open_bank(folder) as bank:
        account = bank.account()
        if not known:
            make_backup(folder, tmp_path / "copy", with_keys=True)
        real, exported = account.context.plain.draw_contents, tmp_path / "journal.jsonl"

        def exported_meanwhile(*parts: Any) -> Any:
            if known:
                make_backup(folder, tmp_path / "copy", with_keys=True)
                bank.parts.ledger.pause_account(account.id)  # a newer block
            exported.write_text("\n".join(bank.export()) + "\n")
            return real(*parts)

        monkeypatch.setattr(account.context.plain, "draw_contents", exported_meanwhile)
        account.ask(older(30), sigma="4", key="k")
    done = restore(tmp_path / "copy", tmp_path / "again", RestoreOptions(journal=exported))
    assert "newer than the backup" in done.journal_origin and done.given_up_count == 1
    assert any("given up" in warning for warning in done.warnings)
    assert any("spent a second time" in warning for warning in done.warnings)
    with open_bank(tmp_path / "again") as bank:
        assert bank.recovered["people"].lost == 1 and bank.recovered["people"].finished == 0
        with pytest.raises(AnswerLost):
            bank.account().ask(older(30), sigma="4", key="k")


def test_what_one_restore_has_given_up_the_next_one_does_not_measure(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The copy is put back, goes on for a while, and is put back once more over itself: its journal is the newer one,
    the given up reservation is still without an answer there, and the copied vault knows how to measure it."""
    with open_bank(folder) as bank:
        account = bank.account()
        real = account.context.plain.draw_contents

        def copied_meanwhile(*parts: Any) -> Any:
            make_backup(folder, tmp_path / "copy", with_keys=True)
            return real(*parts)

        monkeypatch.setattr(account.context.plain, "draw_contents", copied_meanwhile)
        account.ask(older(30), sigma="4", key="k")
    restore(tmp_path / "copy", tmp_path / "again")
    with open_bank(tmp_path / "again") as bank:
        bank.account().ask(older(50), sigma="4")
    done = restore(tmp_path / "copy", tmp_path / "again", RestoreOptions(replace=True))
    assert "newer than the backup" in done.journal_origin and done.given_up_count == 1
    with open_bank(tmp_path / "again") as bank:
        assert bank.recovered["people"].finished == 0
        with pytest.raises(AnswerLost):
            bank.account().ask(older(30), sigma="4", key="k")


def test_an_old_copy_over_a_newer_history(folder: Path, tmp_path: Path) -> None:
    make_backup(folder, tmp_path / "copy")
    with open_bank(folder) as bank:
        later = bank.account().ask(older(30), sigma="4", key="later")
        state, head = bank.account().state, bank.head().digest.hex()
        exported = tmp_path / "journal.jsonl"
        exported.write_text("\n".join(bank.export()) + "\n")
        with pytest.raises(BankInUse):
            restore(tmp_path / "copy", folder, RestoreOptions(replace=True))
    with pytest.raises(BadBank, match="--replace"):
        restore(tmp_path / "copy", folder)
    with pytest.raises(Tampered, match="pinned head"):  # somebody remembers that there was more
        restore(tmp_path / "copy", tmp_path / "old", RestoreOptions(head=head))
    assert not (tmp_path / "old").exists() and not (tmp_path / "old.partial").exists()
    old = restore(tmp_path / "copy", tmp_path / "old")
    assert any("spent a second time" in warning for warning in old.warnings)
    for asked, target in (
        (RestoreOptions(journal=exported, head=head), tmp_path / "new"),
        (RestoreOptions(replace=True), folder),
    ):
        done = restore(tmp_path / "copy", target, asked)
        assert (
            done.head == head and "newer than the backup" in done.journal_origin and len(done.vault_check.lost_ids) == 1
        )
        assert not any("spent a second time" in warning for warning in done.warnings)
    assert done.moved_aside is not None and (done.moved_aside / VAULT).is_file() and done.has_keys
    with open_bank(folder) as bank:
        assert bank.account().state == state and bank.recovered["people"].lost == 1
        with pytest.raises(AnswerLost):
            bank.account().ask(older(30), sigma="4", key="later")
        assert bank.account().state == state and later.cost > ZERO_PRECISION


def test_journals_of_others_and_damaged_ones_are_left_aside(folder: Path, tmp_path: Path) -> None:
    make_backup(folder, tmp_path / "copy")
    create_bank(tmp_path / "stranger")
    with pytest.raises(BadBank, match="another bank"):
        restore(tmp_path / "copy", tmp_path / "stranger", RestoreOptions(replace=True))
    with open_bank(folder) as bank:
        bank.account().ask(older(30), sigma="4")
    database = apsw.Connection(str(folder / JOURNAL))
    database.execute(
        "UPDATE lines SET line = replace(line, '\"time\":1', '\"time\":2') "
        "WHERE number = (SELECT max(number) FROM lines)"
    )
    database.close()
    done = restore(tmp_path / "copy", folder, RestoreOptions(replace=True))
    assert done.journal_origin == "the backup" and any("left aside" in warning for warning in done.warnings)
    with open_bank(folder) as bank:
        assert bank.account().ask(SMOKERS, sigma="4").case is Case.REPEAT
    database = apsw.Connection(str(folder / JOURNAL))
    database.execute("UPDATE lines SET line = replace(line, '\"time\":1', '\"time\":2') WHERE number = 1")
    database.close()
    with pytest.raises(Tampered, match="different histories"):
        restore(tmp_path / "copy", folder, RestoreOptions(replace=True))


# -- who may come in ------------------------------------------------------------------------------------


def test_api_keys_are_copied_and_revoked_ones_stay_revoked_where_that_is_known(folder: Path, tmp_path: Path) -> None:
    from noisebank.service.roles import Role
    from support.internals import AccessControl

    assert auth.ACCESS_FILE == ACCESS
    with closing(AccessControl(folder / ACCESS, SystemEntropy())) as doors:
        doors.add_person("maria", Role.ANALYST)
        secret, facts = doors.make_key("maria")
        session, _ = doors.make_session("maria", 3600, key=facts.id)
        make_backup(folder, tmp_path / "copy")
        doors.revoke_key("maria", facts.id)
    restored = restore(tmp_path / "copy", tmp_path / "again")
    assert any("revoked" in warning for warning in restored.warnings)
    with closing(AccessControl(tmp_path / "again" / ACCESS, SystemEntropy())) as doors:
        assert doors.find_caller(secret) is not None and doors.find_caller(session) is None
    replaced = restore(tmp_path / "copy", folder, RestoreOptions(replace=True))
    assert not any("revoked" in warning for warning in replaced.warnings)
    with closing(AccessControl(folder / ACCESS, SystemEntropy())) as doors:
        assert doors.find_caller(secret) is None


def test_the_commands_say_what_they_did(folder: Path, tmp_path: Path) -> None:
    def run(*arguments: str, code: int = 0) -> dict[str, Any]:
        done = CliRunner().invoke(main, [*arguments, "--json"])
        assert done.exit_code == code, done.output
        return dict(json.loads(done.stdout))

    copy = str(tmp_path / "copy")
    made = run("backup", str(folder), copy)
    assert made["answers"] == 3 and made["files"] == ["journal.sqlite", "vault.sqlite"] and not made["keys"]
    assert run("backup", str(folder), copy, code=2)["error"] == "BadBank"
    assert run("restore", copy, str(folder), code=2)["error"] == "BadBank"
    assert run("restore", copy, str(tmp_path / "x"), "--head", "00" * 32, code=1)["error"] == "Tampered"
    done = run("restore", copy, str(folder), "--replace", "--head", made["ledger"]["head"])
    assert done["lost"] == done["never_measured"] == 0 and done["recomputed"] == 3 and done["keys"]
    assert done["moved_aside"] and len(done["warnings"]) == 1
    (tmp_path / "copy" / VAULT).write_bytes(b"")
    assert run("restore", copy, str(tmp_path / "x"), code=1)["error"] == "Tampered"
    shown = CliRunner().invoke(main, ["backup", str(folder), str(tmp_path / "another")])
    assert shown.exit_code == 0 and "keep this elsewhere" in shown.output.replace("\n", " ")
    again = CliRunner().invoke(main, ["restore", str(tmp_path / "another"), str(tmp_path / "third")])
    assert again.exit_code == 0 and "3 records recomputed" in again.output and "warning" in again.output
