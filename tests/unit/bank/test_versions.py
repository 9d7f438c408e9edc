"""A table that changes: refused until its next version is opened; what is spent stays spent."""

from __future__ import annotations  # noqa: I001

import os
from pathlib import Path

import pytest
from support.banks import memory_rooms, write_people

from noisebank.verifier.verification import verify
from noisebank.account.charging import make_claims
from noisebank.bank.bank import create_bank, open_bank
from noisebank.core.asks import OWNER
from noisebank.core.errors import BadRequest, KeyReused, Misuse, TableChanged, Tampered
from noisebank.ledger.embedded import EmbeddedLedger
from noisebank.ledger.protocol import Seal
from noisebank.bank.opening import Confirmed, open_account, open_next_version
from noisebank.account.account import Account
from noisebank.planning.reuse import Plan
from noisebank.policy.file import read_policy
from noisebank.core.records import Case
from noisebank.core.units import Precision

SQL = "SELECT COUNT(*) FROM people WHERE smoker"


def changed(policy: Path) -> None:
    table = policy.parent / "people.csv"
    table.write_text(table.read_text() + "33,100,true,north,1\n")


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    path = write_people(tmp_path, neighbours="add-remove")
    path.write_text('cubes = [["smoker", "town"]]\n' + path.read_text())
    return path


def opened(policy: Path) -> tuple[Account, Account]:
    """The account before and after its table changed, one question asked before."""
    rooms = memory_rooms()
    first, _ = open_account(rooms, read_policy(policy))
    first.ask(SQL, within=10)
    changed(policy)
    with pytest.raises(TableChanged):
        first.ask(SQL, within=5)
    return first, open_next_version(rooms, first, read_policy(policy))[0]


def test_what_is_spent_stays_spent_and_nothing_is_reused(policy: Path):
    first, second = opened(policy)
    spent = first.state.spent
    assert second.id == first.id and second.state.version == 2 and second.state.spent == spent > Precision(0)
    answer = second.ask(SQL, within=10)
    assert answer.case is Case.FIRST
    assert second.state.spent == spent + answer.cost
    assert second.ask(SQL, within=10).case is Case.REPEAT


def test_the_cube_is_tabulated_anew(policy: Path):
    first, second = opened(policy)
    counted = [account.engine.statistic(account.parse(SQL).query) for account in (first, second)]
    assert counted[1] == counted[0] + 1


def test_reservations_without_an_answer_are_burnt(policy: Path):
    rooms = memory_rooms()
    first, _ = open_account(rooms, read_policy(policy))
    planned = Plan(Case.FIRST, Precision(10), Precision(10), None)
    (claim,) = make_claims(first.context, [b"\x07" * 32], OWNER, [(first.parse(SQL), planned)], Precision(10))
    rooms.ledger.reserve(claim)
    changed(policy)
    second, _ = open_next_version(rooms, first, read_policy(policy))
    assert second.state.spent == Precision(10)
    with pytest.raises(Exception, match="ledger: "):
        rooms.ledger.publish(second.id, Seal(claim.id, b"\x01" * 32))


def test_the_same_rows_stay_in_their_version(policy: Path):
    rooms = memory_rooms()
    first, _ = open_account(rooms, read_policy(policy))
    first.ask(SQL, within=10)
    table = policy.parent / "people.csv"
    os.utime(table, (1, 1))
    with pytest.raises(TableChanged):
        first.ask("SELECT COUNT(*) FROM people", within=5)
    same, _ = open_next_version(rooms, first, read_policy(policy), confirmed=Confirmed(same_rows=True))
    assert same.state.version == 1 and same.ask(SQL, within=10).case is Case.REPEAT
    assert same.ask("SELECT COUNT(*) FROM people", within=5).case is Case.FIRST


@pytest.mark.parametrize("rows_change", [False, True])
def test_whether_rows_have_changed_cannot_be_seen_from_versions(policy: Path, rows_change: bool):
    """The table is opened anew on a day that was fixed before, and one person's row has changed since, or has not."""
    rooms = memory_rooms()
    first, _ = open_account(rooms, read_policy(policy))
    if rows_change:
        changed(policy)
    second, _ = open_next_version(rooms, first, read_policy(policy))
    assert second.state.version == 2


def test_rows_that_are_not_the_same_do_not_pass_for_it(policy: Path):
    rooms = memory_rooms()
    first, _ = open_account(rooms, read_policy(policy))
    before = rooms.ledger.head()
    for change in (
        lambda: policy.write_text(policy.read_text().replace("[0, 120]", "[0, 110]")),
        lambda: changed(policy),
    ):
        change()
        with pytest.raises(Misuse):
            open_next_version(rooms, first, read_policy(policy), confirmed=Confirmed(same_rows=True))
    assert rooms.ledger.head() == before


@pytest.mark.parametrize(
    ("old", "new", "part"),
    [
        ('name = "people"', 'name = "others"', "name"), ("epsilon = 4", "epsilon = 5", "epsilon"),
        ("delta = 1e-6", "delta = 1e-5", "delta"), ('"add-remove"\nrow_cap = 1000', '"replace-one"\nrows = 21', "neighbours"),  # noqa: E501
        ('name = "people"', 'name = "people"\nraise_delay_hours = 1', "raise_delay"),
        ('name = "people"', 'name = "people"\nunit = "town"\nmax_rows = 2', "unit"),
    ],
)  # fmt: skip
def test_what_the_promise_is_about_cannot_change(policy: Path, old: str, new: str, part: str):
    rooms = memory_rooms()
    first, _ = open_account(rooms, read_policy(policy))
    changed(policy)
    policy.write_text(policy.read_text().replace(old, new))
    with pytest.raises(BadRequest) as refusal:
        open_next_version(rooms, first, read_policy(policy))
    assert refusal.value.parameter == part and rooms.ledger.get_account(first.id).version == 1


def test_a_key_means_one_question_of_one_version(policy: Path):
    rooms = memory_rooms()
    first, _ = open_account(rooms, read_policy(policy))
    first.ask(SQL, within=10, key="mine")
    changed(policy)
    second, _ = open_next_version(rooms, first, read_policy(policy))
    with pytest.raises(KeyReused):
        second.ask(SQL, within=10, key="mine")


def test_versions_on_disk(policy: Path, tmp_path: Path):
    folder = create_bank(tmp_path / "bank")
    with open_bank(folder) as bank:
        bank.open_account(policy).ask(SQL, within=10)
        changed(policy)
        bank.open_and_inspect(policy, "people")
    with open_bank(folder) as bank:
        account = bank.account()
        assert account.state.version == 2 and account.ask(SQL, within=10).case is Case.FIRST
    changed(policy)
    with open_bank(folder) as bank:
        bank.open_and_inspect(policy, "people")
        assert bank.account().state.version == 3
        assert verify(list(bank.export())).passed
        assert isinstance(bank.ledger, EmbeddedLedger)


def test_a_lost_cube_is_said(policy: Path):
    rooms = memory_rooms()
    account, _ = open_account(rooms, read_policy(policy))
    rooms.vault._database.execute("UPDATE cubes SET body = x'00'")
    with pytest.raises(Tampered, match="lost a cube"):
        account.ask(SQL, within=10)
    rooms.vault._database.execute("DELETE FROM cubes")
    with pytest.raises(Tampered, match="lost a cube"):
        account.ask(SQL, within=10)
