"""Draws that one person can touch: counted from ledger and vault, refused beyond the limit, recounted by verifiers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import patch

import pytest

from noisebank.account import draws
from noisebank.account.account import Account
from noisebank.account.draws import DrawCounter
from noisebank.account.recovery import recover_account
from noisebank.account.statement import make_openings
from noisebank.bank.opening import load_accounts, open_account, open_next_version
from noisebank.core.errors import DrawsExhausted
from noisebank.core.records import MAX_DRAWS, Case
from noisebank.policy.file import read_policy
from noisebank.privacy.calibration import EPSILON_MARGIN
from noisebank.verifier import openings
from noisebank.verifier.verification import verify
from support.banks import memory_rooms, write_people

WISH = {"epsilon": "0.1", "delta": "1e-6"}
GROUPED = "SELECT COUNT(*) FROM people WHERE age > {} GROUP BY smoker, town"


@contextmanager
def limited(most: int) -> Iterator[None]:
    """The proof allows so many draws."""
    with patch.object(draws, "MAX_DRAWS", most), patch.object(openings, "MAX_DRAWS", most):
        yield


def account_of(folder: Path, more: str = "", neighbours: str = "replace-one") -> Account:
    path = write_people(folder, neighbours=neighbours)
    path.write_text(more + path.read_text())
    return open_account(memory_rooms(), read_policy(path))[0]


def families(folder: Path) -> Account:
    """Four groups and three rows per person: somebody who comes or goes touches three."""
    path = write_people(folder, neighbours="add-remove")
    path.write_text('unit = "age"\nmax_rows = 3\n' + path.read_text())
    return open_account(memory_rooms(), read_policy(path))[0]


def drawn(account: Account) -> int:
    """Counted by a bank that starts anew."""
    return DrawCounter(account.id, account.ledger, account.vault)._count_exactly()


def test_a_measurement_of_groups_is_counted_by_what_a_person_touches(tmp_path: Path) -> None:
    account = account_of(tmp_path)
    account.ask("SELECT COUNT(*) FROM people WHERE age > 30", **WISH)
    account.ask(GROUPED.format(30), **WISH)
    account.ask(GROUPED.format(30), **WISH)  # the same bits
    account.ask(GROUPED.format(30), epsilon="0.05", delta="1e-6")  # a blur
    assert drawn(account) == 1 + 2  # who leaves one group enters another
    account.ask("SELECT SUM(income) FROM people GROUP BY town", **WISH)
    assert drawn(account) == 5 and account.state.measurements == 3
    assert MAX_DRAWS == 2**20 and 2 * MAX_DRAWS / EPSILON_MARGIN == 2**43  # the margin pays for draws


def test_a_count_goes_on_where_it_ended_and_starts_again_if_an_old_entry_was_paid_for() -> None:
    entries, starts = [3, 0, 2], []
    paid = SimpleNamespace(measurements=2)

    def page_reservations(account: bytes, start: int, stop: int) -> list[SimpleNamespace]:
        starts.append(start)
        return [SimpleNamespace(fresh_precision=draws) for draws in entries[start:stop]]

    ledger = SimpleNamespace(
        get_account=lambda account: paid, books=SimpleNamespace(page_reservations=page_reservations)
    )
    counter = DrawCounter(b"a", ledger, SimpleNamespace())  # type: ignore[arg-type]
    with patch.object(DrawCounter, "_count_draws", lambda counter, entry: entry.fresh_precision):
        assert counter._count_exactly() == 5 and starts == [0, 3]
        entries.append(4)
        paid.measurements = 3
        assert counter._count_exactly() == 9 and starts[2:] == [3, 4]
        entries[1] = 7  # a repeat at first, paid for later
        paid.measurements = 4
        assert counter._count_exactly() == 16 and starts[4:] == [4, 0, 4]


def test_beyond_the_limit_nothing_is_measured_or_charged(tmp_path: Path) -> None:
    account = families(tmp_path)
    with limited(7):
        account.ask(GROUPED.format(30), **WISH)
        account.ask(GROUPED.format(40), **WISH)
        spent = account.state.spent
        with pytest.raises(DrawsExhausted) as refused:
            account.ask(GROUPED.format(50), **WISH)
        assert (refused.value.most, refused.value.drawn) == (7, 6)
        with pytest.raises(DrawsExhausted):  # of a group, none is charged
            account.ask("SELECT COUNT(*), SUM(income) FROM people", **WISH)
        assert account.state.spent == spent
        assert account.ask(GROUPED.format(40), **WISH).case is Case.REPEAT
        account.ask("SELECT COUNT(*) FROM people", **WISH)  # one more fits
        with pytest.raises(DrawsExhausted):
            account.ask("SELECT COUNT(*) FROM people WHERE smoker", **WISH)
        assert verify(account.ledger.export_journal(), openings=[make_openings(account)]).passed


def test_a_count_of_one_per_reservation_would_go_on(tmp_path: Path) -> None:
    """The planted bug: what the contract counts."""
    account = families(tmp_path)
    with limited(7), patch.object(draws, "max_draws", lambda *_: 1):
        for age in range(30, 33):
            account.ask(GROUPED.format(age), **WISH)
    with limited(7):
        report = verify(account.ledger.export_journal(), openings=[make_openings(account)])
        assert not report.passed and "not covered by the proof" in report.problem
    assert verify(account.ledger.export_journal(), openings=[make_openings(account)]).passed


def test_several_that_pass_the_first_check_at_once_do_not_pass_the_second(tmp_path: Path) -> None:
    account = families(tmp_path)
    with limited(7):
        with patch.object(DrawCounter, "check_next", lambda *_: None):
            account.ask(GROUPED.format(30), **WISH)
            account.ask(GROUPED.format(31), **WISH)
            with pytest.raises(DrawsExhausted):
                account.ask(GROUPED.format(32), **WISH, key="late")
        assert [found.is_finished for found in account.ledger.list_reservations(account.id)] == [True, True, False]
        found = recover_account(
            account
        )  # what lies beyond the limit stays undrawn; whatever came before can be finished
        assert (found.finished, found.unknown) == (0, 1)
        assert verify(account.ledger.export_journal(), openings=[make_openings(account)]).passed
    assert account.ask(GROUPED.format(32), **WISH, key="late").case is Case.FIRST


def test_the_count_is_derived_after_a_restart_a_new_version_and_a_loss(tmp_path: Path) -> None:
    path = write_people(tmp_path, neighbours="add-remove")
    plain = path.read_text()
    path.write_text('unit = "age"\nmax_rows = 3\n' + plain)
    rooms = memory_rooms()
    account = open_account(rooms, read_policy(path))[0]
    account.ask(GROUPED.format(30), **WISH)
    (tmp_path / "people.csv").write_text((tmp_path / "people.csv").read_text() + "33,100,true,north,1\n")
    path.write_text('unit = "age"\nmax_rows = 9\n' + plain)
    second = open_next_version(rooms, account, read_policy(path))[0]
    second.ask(GROUPED.format(30), **WISH)
    assert drawn(second) == 3 + 4  # four groups are fewer than nine rows
    (again,) = load_accounts(rooms)
    assert drawn(again) == 7 and again.context.draws._upper_bound() == 3 + 9
    with patch.object(type(rooms.vault), "find_request", lambda *_: None):  # a vault without the requests
        assert drawn(second) == 3 + 9
    with patch.object(type(rooms.vault), "find_opening", lambda *_: None):  # and without the policies
        assert drawn(second) == 2 * MAX_DRAWS
    report = verify(rooms.ledger.export_journal(), openings=[make_openings(second)])
    assert any("4 draws that one person can touch, of 1,048,576, besides 1" in what for what in report.compared_with)
    assert any("how many draws" in what for what in report.cannot_see)


def test_a_look_counts_each_of_its_rows(tmp_path: Path) -> None:
    path = write_people(tmp_path, neighbours="replace-one", epsilon="50", delta="0.01")
    text = path.read_text().replace("bounds = [0, 120]", f"bounds = [0, 63]\nbins = {list(range(8, 64, 8))}")
    path.write_text('cubes = [["age"]]\nexpect = ["ranges"]\n' + text)
    account = open_account(memory_rooms(), read_policy(path))[0]
    account.ask("SELECT COUNT(*) FROM people WHERE age < 24", **WISH)
    assert account.state.measurements == 1
    assert drawn(account) == 8  # every row reads all cells
    assert account.context.draws._upper_bound() == 8
    look, _ = account.ledger.list_reservations(account.id)
    sealed = account.vault.find_answer(look.id)
    assert sealed is not None and len(sealed.body["row_values"]) == 8
    report = verify(account.ledger.export_journal(), openings=[make_openings(account)])
    assert report.passed and any("8 draws that one person can touch" in what for what in report.compared_with)
    assert not any("how many draws" in what for what in report.cannot_see)


def test_without_openings_the_verifier_says_what_it_cannot_count(tmp_path: Path) -> None:
    account = account_of(tmp_path)
    account.ask("SELECT COUNT(*) FROM people WHERE age > 30", **WISH)
    assert not any("how many draws" in what for what in verify(account.ledger.export_journal()).cannot_see)
    account.ask(GROUPED.format(30), **WISH)
    (said,) = (what for what in verify(account.ledger.export_journal()).cannot_see if "how many draws" in what)
    assert account.id.hex()[:12] in said
