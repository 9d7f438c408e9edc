"""The books: kept from events alone, equal to what the contract holds."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ledger_history import history, replayed, word

from noisebank.errors import LedgerRefused
from noisebank.ledger.abi import budget_ledger
from noisebank.ledger.books import Books
from noisebank.ledger.machine import Event, Machine
from noisebank.records import Case, Record
from noisebank.units import NOTHING, Precision
from support import CURATOR, OWNER

ACCOUNT = word(1)


def opened(account: bytes = ACCOUNT, budget: int = 100) -> Event:
    people = {"owner": OWNER.address, "curator": CURATOR.address}
    digests = {"policy": word(8), "data": word(9)}
    return Event("AccountOpened", {"account": account, **people, "budget": budget, **digests, "raise_delay": 5})


def reserved(
    id: int, case: Case, wanted: int, fresh: int, spent: int, reused: int = 0, account: bytes = ACCOUNT
) -> Event:
    names = {"account": account, "id": word(id), "query": word(3), "analyst": word(4), "about": 2}
    decided = {"case": case.value, "wanted": wanted, "fresh": fresh, "reused": word(reused), "spent": spent}
    return Event("Reserved", {**names, **decided})


@pytest.fixture
def books() -> Books:
    books = Books()
    books.write(opened(), 1, 1_001)
    books.write(reserved(11, Case.FIRST, 10, 10, 10), 2, 1_002)
    books.write(reserved(12, Case.REFINE, 30, 20, 30, reused=11), 3, 1_003)
    books.write(reserved(13, Case.BLUR, 20, 0, 30, reused=12), 3, 1_003)
    return books


def test_account_shows_balance_and_measurements(books: Books):
    state = books.account(ACCOUNT)
    assert (state.budget, state.spent, state.left) == (Precision(100), Precision(30), Precision(70))
    assert state.measurements == 2
    assert (state.owner, state.curator, state.raise_delay) == (OWNER.address, CURATOR.address, 5)
    assert (state.policy, state.data) == (word(8), word(9))


def test_only_paid_answers_are_records(books: Books):
    expected = (Record(word(11), Precision(10)), Record(word(12), Precision(30)))
    assert books.records(ACCOUNT, word(3)) == expected
    assert books.records(ACCOUNT, word(4)) == books.records(word(2), word(3)) == ()


def test_reservations_come_oldest_first_and_whole(books: Books):
    assert [made.id for made in books.reservations(ACCOUNT)] == [word(11), word(12), word(13)]
    blur = books.reservation(word(13))
    assert (blur.case, blur.wanted, blur.fresh, blur.reused) == (Case.BLUR, Precision(20), NOTHING, word(12))
    assert (blur.block, blur.time, blur.about, blur.analyst) == (3, 1_003, 2, word(4))
    assert (blur.answer, blur.published_in) == (None, None)
    assert books.reservation(word(11)).reused is None


def test_publication_is_added_to_its_reservation(books: Books):
    books.write(Event("Published", {"account": ACCOUNT, "id": word(12), "answer": word(77)}), 4, 1_004)
    assert books.reservation(word(12)).answer == word(77)
    assert books.reservation(word(12)).published_in == 4
    assert books.reservation(word(12)).block == 3
    assert books.reservation(word(11)).answer is None


def test_budget_and_role_changes_are_kept_and_told(books: Books):
    later = [
        Event("BudgetLowered", {"account": ACCOUNT, "budget": 90}),
        Event("RaiseProposed", {"account": ACCOUNT, "budget": 200, "ready": 5, "expires": 9}),
        Event("BudgetRaised", {"account": ACCOUNT, "budget": 200}),
        Event("OwnerProposed", {"account": ACCOUNT, "owner": "0x0b"}),
        Event("OwnerChanged", {"account": ACCOUNT, "owner": "0x0b"}),
        Event("CuratorProposed", {"account": ACCOUNT, "curator": "0x0c"}),
        Event("CuratorChanged", {"account": ACCOUNT, "curator": "0x0c"}),
    ]
    seen = []
    for place, event in enumerate(later):
        books.write(event, 4 + place, 1_004 + place)
        state = books.account(ACCOUNT)
        seen.append((state.budget.units, state.owner == "0x0b", state.curator == "0x0c"))
    assert [budget for budget, _, _ in seen] == [90, 90, 200, 200, 200, 200, 200]
    assert [owner for _, owner, _ in seen] == [False, False, False, False, True, True, True]
    assert [curator for _, _, curator in seen] == [False] * 6 + [True]
    changes = books.changes(ACCOUNT)
    assert [change.event for change in changes] == [opened(), *later]
    assert [change.block for change in changes] == [1, *range(4, 11)]
    assert books.account(ACCOUNT).spent == Precision(30)


def test_accounts_are_apart(books: Books):
    books.write(opened(word(2), budget=7), 4, 1_004)
    books.write(reserved(21, Case.FIRST, 7, 7, 7, account=word(2)), 5, 1_005)
    assert [state.account for state in books.accounts()] == [ACCOUNT, word(2)]
    assert books.account(ACCOUNT).spent == Precision(30)
    assert [made.id for made in books.reservations(word(2))] == [word(21)]
    assert [change.block for change in books.changes(word(2))] == [4]


def test_unknown_names_have_no_entry(books: Books):
    assert books.account(word(5)) is None
    assert books.reservation(word(5)) is None
    assert books.reservations(word(5)) == books.changes(word(5)) == ()


def test_books_of_a_whole_history_are_the_contracts():
    state = replayed(history())
    for account in state.books.accounts():
        owner, curator, budget, spent, measurements, policy, data, delay = state.machine.view(
            state.contract, "accounts", account.account
        )
        assert (account.owner, account.curator) == (owner, curator)
        assert (account.budget.units, account.spent.units, account.measurements) == (budget, spent, measurements)
        assert (account.policy, account.data, account.raise_delay) == (policy, data, delay)


@given(st.lists(st.tuples(st.integers(1, 3), st.integers(1, 20)), max_size=15))
@settings(max_examples=40, deadline=None)
def test_records_are_the_contracts_whatever_is_asked(requests: list[tuple[int, int]]):
    contract, books = budget_ledger(), Books()
    machine = Machine(contract, 5)
    machine.at(0, 1_000)
    address = machine.deploy(CURATOR.address, contract.initcode)

    def call(sender: str, *call: object) -> None:
        for event in machine.execute(sender, address, contract.call(*call)):  # type: ignore[arg-type]
            books.write(event, 1, 1_000)

    call(OWNER.address, "open_account", CURATOR.address, 40, word(1), word(2), 0)
    (state,) = books.accounts()
    for id, (query, wanted) in enumerate(requests, 1):
        try:
            call(CURATOR.address, "reserve", state.account, word(id), word(query), word(9), 1, wanted, 99)
        except LedgerRefused:
            assert books.reservation(word(id)) is None
    for query in map(word, range(1, 4)):
        (count,) = machine.view(address, "record_count", state.account, query)
        held = [machine.view(address, "records", state.account, query, place) for place in range(count)]
        assert [(record.precision.units, record.id) for record in books.records(state.account, query)] == held
    _, _, _, spent, measurements, *_ = machine.view(address, "accounts", state.account)
    (state,) = books.accounts()
    assert (state.spent.units, state.measurements) == (spent, measurements)
