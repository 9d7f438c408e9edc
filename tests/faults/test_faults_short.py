"""The fault rows of `make assurance`, short; and recovery, the lock and unreadable files by themselves."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import apsw
import pytest

from assurance import ask_once
from assurance.crashes import Asked, Crash, Fuse, Witness, ask_all_again, bank_with_account, opened, workload_of
from assurance.crashes import crashes as crash_row
from assurance.cube_crashes import cube_crashes
from assurance.kill9 import kill9
from assurance.power_loss import power_loss
from assurance.report import Row
from assurance.second_sample import ask, second_sample
from assurance.strace_kills import strace_kills, strace_works
from noisebank import Bank, create_bank
from support.internals import (
    JOURNAL,
    KEYS,
    LOCK,
    VAULT,
    AnswerLost,
    BadBank,
    BadTable,
    BankInUse,
    Case,
    EmbeddedLedger,
    GroupCommit,
    OutcomeUnknown,
    PendingItem,
    RecoveryCounts,
    TableChanged,
    Tampered,
    workload_rng,
)


@pytest.mark.parametrize(
    ("row", "share"),
    [(crash_row, 0.02), (cube_crashes, 0.1), (power_loss, 0.05), (kill9, 0.05), (second_sample, 0.04)],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_row(row: Row, share: float) -> None:
    finding = row(share)
    assert finding.passed, finding
    assert finding.planted


def test_strace_kills() -> None:
    if not strace_works():
        why = "strace is not installed or may not trace: kills at every system call were NOT tried"
        if os.environ.get("CI") == "true":
            pytest.fail(why)
        pytest.skip(why)
    finding = strace_kills(0.04)
    assert finding.passed, finding
    assert finding.planted


# -- recovery ----------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return bank_with_account(tmp_path)


@pytest.fixture
def requests() -> list[Asked]:
    """FIRST, REFINE, REPEAT, BLUR of one query."""
    return workload_of(workload_rng(7), "request", more=0)


def cut_off(folder: Path, asked: Asked, where: str) -> None:
    """A process that ends there; its files stay as they were at that moment."""
    after = folder.with_name("after")
    fuse = Fuse(name=where, save=lambda: shutil.copytree(folder, after))
    with pytest.raises(Crash), opened(folder, Witness(), fuse) as bank:
        ask(bank.account(), asked)
    shutil.rmtree(folder)
    after.rename(folder)


def answer_all(folder: Path, requests: list[Asked]) -> None:
    with Bank(folder) as bank:
        for asked in requests:
            ask(bank.account(), asked)


def recovered(folder: Path) -> RecoveryCounts:
    with Bank(folder) as bank:
        return bank.recovered["people"]


@pytest.mark.parametrize(
    "where",
    ["after reserve", "before measure", "after measure", "after draw", "before seal", "after seal", "before publish"],
)
def test_what_was_reserved_is_finished(folder: Path, requests: list[Asked], where: str) -> None:
    cut_off(folder, requests[0], where)
    assert recovered(folder) == RecoveryCounts(finished=1)
    assert recovered(folder) == RecoveryCounts()
    witness = Witness()
    with opened(folder, witness, Fuse()) as bank:
        ask_all_again(bank, witness, requests[:1])
    assert (witness.wrong, witness.touches, witness.draws) == ([], 0, 0)


def test_what_was_never_reserved_is_nothing(folder: Path, requests: list[Asked]) -> None:
    cut_off(folder, requests[0], "after save_request")
    with Bank(folder) as bank:
        assert bank.recovered["people"] == RecoveryCounts()
        assert not bank.account().state.spent
        assert ask(bank.account(), requests[0]).case is Case.FIRST


def test_without_its_table_a_reservation_waits_and_a_later_ask_finishes_it(folder: Path, requests: list[Asked]) -> None:
    answer_all(folder, requests[:1])
    cut_off(folder, requests[1], "after reserve")
    table, elsewhere = folder.parent / "table" / "people.csv", folder.parent / "elsewhere.csv"
    table.rename(elsewhere)
    with Bank(folder) as bank:
        account = bank.account()
        assert bank.recovered["people"] == RecoveryCounts(waiting=1)
        spent = account.state.spent
        with pytest.raises(BadTable):
            ask(account, requests[1])
        with pytest.raises(BadTable):  # it would be blurred from the answer that is still missing
            ask(account, requests[3])
        known = ask(account, requests[0])  # what is sealed needs no table
        elsewhere.rename(table)
        late = ask(account, requests[1])
        assert late.case is Case.REFINE
        assert account.state.spent == spent == known.cost + late.cost
        assert ask(account, requests[3]).case is Case.BLUR
    assert recovered(folder) == RecoveryCounts()


def test_a_changed_table_is_not_measured(folder: Path, requests: list[Asked]) -> None:
    cut_off(folder, requests[0], "after reserve")
    table = folder.parent / "table" / "people.csv"
    table.write_text(table.read_text() + "1,1,true,north,1\n")
    witness = Witness()
    with opened(folder, witness, Fuse()) as bank:
        assert bank.recovered["people"] == RecoveryCounts(waiting=1)
        with pytest.raises(TableChanged):
            ask(bank.account(), requests[0])
    assert witness.touches == 0


def test_a_request_that_the_vault_never_heard_of_is_finished_by_its_key(folder: Path, requests: list[Asked]) -> None:
    backup = folder.with_name("backup")
    shutil.copytree(folder, backup)
    cut_off(folder, requests[0], "after reserve")
    restore_vault(backup, folder)
    witness = Witness()
    with opened(folder, witness, Fuse()) as bank:
        assert bank.recovered["people"] == RecoveryCounts(unknown=1)
        assert witness.touches == 0
        first = ask(bank.account(), requests[0])
        assert bank.account().state.spent == first.cost
    assert (witness.wrong, witness.touches) == ([], 1)
    assert recovered(folder) == RecoveryCounts()


def test_what_the_vault_lost_is_lost(folder: Path, requests: list[Asked]) -> None:
    answer_all(folder, requests[:1])
    backup = folder.with_name("backup")
    shutil.copytree(folder, backup)
    answer_all(folder, requests[1:])
    restore_vault(backup, folder)
    witness = Witness()
    with opened(folder, witness, Fuse()) as bank:
        account = bank.account()
        assert bank.recovered["people"] == RecoveryCounts(lost=2)  # the repeat never had an answer of its own
        spent = account.state.spent
        for asked in requests[1:]:
            if asked.wanted == requests[0].wanted:  # it repeats what is still there
                assert ask(account, asked).exact == ask(account, requests[0]).exact
                continue
            with pytest.raises(AnswerLost):
                ask(account, asked)
        with pytest.raises(AnswerLost):  # nothing can be refined that is not there
            account.ask(requests[0].sql(0), epsilon=2, delta=1e-5)
        assert account.state.spent == spent
    assert (witness.touches, witness.draws) == (0, 0)


def restore_vault(backup: Path, folder: Path) -> None:
    for file in folder.glob(f"{VAULT}*"):
        file.unlink()
    shutil.copy(backup / VAULT, folder / VAULT)


def test_a_journal_older_than_the_vault_is_refused(folder: Path, requests: list[Asked]) -> None:
    old = folder.with_name("old")
    shutil.copytree(folder, old)
    answer_all(folder, requests[:1])
    shutil.copy(old / JOURNAL, folder / JOURNAL)
    with pytest.raises(Tampered, match="older than the vault"):
        Bank(folder)


# -- a commit that fails -----------------------------------------------------------------------


def test_after_a_failed_commit_nothing_is_committed_again() -> None:
    reasons: list[str] = []
    works = True

    def commit(turns: list[PendingItem[int, int]]) -> None:
        for turn in turns:
            turn.outcome = turn.item
        if not works:
            raise apsw.FullError("the disk is full")

    group: GroupCommit[int, int] = GroupCommit(commit, reasons.append)  # type: ignore[arg-type]
    assert group(1) == 1
    works = False
    with pytest.raises(OutcomeUnknown):
        group(2)
    works = True
    with pytest.raises(OutcomeUnknown):
        group(3)
    assert len(reasons) == 2


def test_a_full_disk_ends_the_process_and_loses_nothing(folder: Path, requests: list[Asked]) -> None:
    answer_all(folder, requests[:1])
    code = """
import sys
from noisebank.bank.bank import Bank
from pathlib import Path
with Bank(Path(sys.argv[1])) as bank:
    bank.parts.ledger._journal._database.pragma("max_page_count", 1)
    for place in range(1000):
        bank.account().ask(sys.argv[2], sigma=sys.argv[3])
"""
    command = [sys.executable, "-c", code, str(folder), requests[0].sql(0), requests[0].sigma]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 70, ended
    assert "a commit failed" in ended.stderr
    with Bank(folder) as bank:
        assert ask(bank.account(), requests[0]).cost == bank.account().state.spent


# -- one process at a time ---------------------------------------------------------------------


def test_a_second_process_is_refused_until_the_first_lets_go(folder: Path) -> None:
    command = [sys.executable, str(Path(ask_once.__file__)), str(folder), "a key"]
    with Bank(folder) as bank:
        with pytest.raises(BankInUse):
            Bank(folder)
        refused = subprocess.run(command, capture_output=True, text=True, check=False)
        assert refused.returncode == 1
        assert "BankInUse" in refused.stderr
        assert not bank.account().state.spent
    answered = subprocess.run(command, capture_output=True, text=True, check=True)
    assert '"answered": "a key"' in answered.stdout


def test_a_bank_that_could_not_be_opened_is_let_go(folder: Path) -> None:
    vault = (folder / VAULT).read_bytes()
    (folder / VAULT).write_bytes(b"x" * 5000)
    with pytest.raises(BadBank):
        Bank(folder)
    (folder / VAULT).write_bytes(vault)
    Bank(folder).close()


# -- files that cannot be read -----------------------------------------------------------------


def spoil_key(folder: Path) -> None:
    (folder / KEYS / "curator.key").write_text("not a key\n")


def show_key(folder: Path) -> None:
    (folder / KEYS / "curator.key").chmod(0o644)


def lose_key(folder: Path) -> None:
    (folder / KEYS / "curator.key").unlink()


def swap_key(folder: Path) -> None:
    shutil.copy(folder / KEYS / "owner.key", folder / KEYS / "curator.key")


def lose_vault(folder: Path) -> None:
    (folder / VAULT).unlink()


def lose_journal(folder: Path) -> None:
    (folder / JOURNAL).unlink()


def empty_journal(folder: Path) -> None:
    (folder / JOURNAL).write_bytes(b"")


def spoil_journal(folder: Path) -> None:
    (folder / JOURNAL).write_bytes(b"not a database" * 1000)


def vault_is_a_folder(folder: Path) -> None:
    (folder / VAULT).unlink()
    (folder / VAULT).mkdir()


def lock_is_a_folder(folder: Path) -> None:
    (folder / LOCK).unlink()
    (folder / LOCK).mkdir()


def damage_pages(name: str) -> Callable[[Path], None]:
    """All but the first page: SQLite opens it and finds out later."""

    def damage(folder: Path) -> None:
        content = (folder / name).read_bytes()
        (folder / name).write_bytes(content[:4096] + b"\xa5" * (len(content) - 4096))

    damage.__name__ = f"damage_{name}"
    return damage


@pytest.mark.parametrize(
    "damage",
    [
        spoil_key, show_key, lose_key, swap_key, lose_vault, lose_journal, empty_journal, spoil_journal,
        vault_is_a_folder, lock_is_a_folder, damage_pages(JOURNAL), damage_pages(VAULT),
    ],
    ids=lambda damage: damage.__name__,
)  # fmt: skip
def test_unreadable_files_are_a_bad_bank(folder: Path, requests: list[Asked], damage: Callable[[Path], None]) -> None:
    answer_all(folder, requests)
    damage(folder)
    with pytest.raises(BadBank):
        Bank(folder)


def test_a_row_that_nobody_wrote_is_noticed(folder: Path, requests: list[Asked]) -> None:
    answer_all(folder, requests)
    database = apsw.Connection(str(folder / VAULT))
    database.execute("UPDATE answers SET body = 'no answer'")
    database.close()
    with pytest.raises(Tampered):
        Bank(folder)


def test_a_bank_that_was_cut_off_while_it_was_made_is_no_bank(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def cut(*arguments: object) -> EmbeddedLedger:
        raise Crash

    monkeypatch.setattr("noisebank.bank.folder.create_chain", cut)
    with pytest.raises(Crash):
        create_bank(tmp_path / "bank")
    with pytest.raises(BadBank, match="empty"):
        Bank(tmp_path / "bank")
    with pytest.raises(BadBank, match="not an empty folder"):
        create_bank(tmp_path / "bank")
