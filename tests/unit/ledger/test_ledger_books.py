"""The books: kept from logs alone, equal to what the contract holds."""

from __future__ import annotations

from dataclasses import fields
from inspect import signature
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ledger_history import ANALYST, history, log_of, replayed, word
from noisebank.core.errors import LedgerRefused
from noisebank.core.records import WHOLE_WEIGHT, Case, CellRun, Record
from noisebank.core.units import ZERO_PRECISION, Precision
from noisebank.ledger.abi import Value, budget_ledger
from noisebank.ledger.books import Books
from noisebank.ledger.encoding import _claim_rows
from noisebank.ledger.evm import Event, Evm
from noisebank.ledger.protocol import OWNER_ANALYST, Claim, Unit, View
from noisebank.ledger.replay import Replay
from support.banks import CURATOR, OWNER

ACCOUNT = word(1)
NEXT_OWNER, NEXT_CURATOR = "0x" + "0b" * 20, "0x" + "0c" * 20


def test_books_read_an_event_in_the_order_of_its_words():
    order = {event.name: event.input_names for event in budget_ledger().events.values()}
    words = list(signature(Books._enter_reservation).parameters)[3:]  # after the books, the block and its time
    events_words = {"charged": "runs", "target_units": "wanted"}  # ours: the contract's
    assert [events_words.get(word, word) for word in words] == list(order["Reserved"])
    assert order["Published"] == ("account", "id", "answer")


def opened(account: bytes = ACCOUNT, budget: int = 100, unit: int = 1) -> Event:
    people = {"owner": OWNER.address, "curator": CURATOR.address, "unit": unit}
    digests = {"policy": word(8), "data": word(9)}
    return Event("AccountOpened", {"account": account, **people, "budget": budget, **digests, "raise_delay": 5})


def reserved(id: int, case: Case, wanted: int, fresh: int, spent: int, **others: Any) -> Event:
    plain: dict[str, Any] = {
        "account": ACCOUNT, "id": word(id), "query": word(3), "analyst": OWNER_ANALYST, "about": 2, "cube": 0,
        "case": case.value, "wanted": wanted, "fresh": fresh, "reused": 0, "spent": spent, "used": 0, "runs": (),
    }  # fmt: skip
    assert others.keys() <= plain.keys()
    return Event("Reserved", {**plain, **others})


def write(books: Books, event: Event, block: int) -> None:
    books.enter_log(log_of(event), block, 1_000 + block)


@pytest.fixture
def books() -> Books:
    books = Books(budget_ledger())
    write(books, opened(), 1)
    write(books, reserved(11, Case.FIRST, 10, 10, 10), 2)
    write(books, reserved(12, Case.REFINE, 30, 20, 30, reused=1), 3)
    write(books, reserved(13, Case.BLUR, 20, 0, 30, reused=2), 3)
    return books


def test_account_shows_balance_and_measurements(books: Books):
    state = books.find_account(ACCOUNT)
    assert (state.budget, state.spent, state.remaining_budget) == (Precision(100), Precision(30), Precision(70))
    assert state.measurements == 2
    assert (state.owner, state.curator, state.raise_delay) == (OWNER.address, CURATOR.address, 5)
    assert (state.policy_digest, state.data_commitment, state.unit) == (word(8), word(9), Unit.PRECISION)
    assert (state.version, state.base, state.paused, state.cubes) == (1, ZERO_PRECISION, False, ())


def test_accounts_count_precision_or_epsilon(books: Books):
    write(books, opened(word(2), unit=2), 4)
    assert books.find_account(word(2)).unit is Unit.EPSILON


def test_only_paid_answers_are_records(books: Books):
    expected = (Record(word(11), Precision(10)), Record(word(12), Precision(30)))
    assert books.list_records(ACCOUNT, word(3)) == expected
    assert books.list_records(ACCOUNT, word(4)) == books.list_records(word(2), word(3)) == ()
    assert (
        books.list_records(ACCOUNT, word(3), cube=1) == books.list_records(ACCOUNT, word(3), 0, (CellRun(0, 1),)) == ()
    )


def test_reservations_come_oldest_first_and_whole(books: Books):
    assert [made.id for made in books.list_reservations(ACCOUNT)] == [word(11), word(12), word(13)]
    blur = books.find_reservation(ACCOUNT, word(13))
    assert (blur.case, blur.target, blur.fresh_precision, blur.reused_id) == (
        Case.BLUR,
        Precision(20),
        ZERO_PRECISION,
        word(12),
    )
    assert (blur.block, blur.time, blur.category, blur.analyst) == (3, 1_003, 2, OWNER_ANALYST)
    assert (blur.answer_digest, blur.published_block, blur.is_finished) == (None, None, False)
    assert books.find_reservation(ACCOUNT, word(11)).reused_id is None
    assert [made.cost.units for made in books.list_reservations(ACCOUNT)] == [10, 20, 0]


def test_publication_is_added_to_its_reservation(books: Books):
    write(books, Event("Published", {"account": ACCOUNT, "id": word(12), "answer": word(77)}), 4)
    assert books.find_reservation(ACCOUNT, word(12)).answer_digest == word(77)
    assert books.find_reservation(ACCOUNT, word(12)).published_block == 4
    assert books.find_reservation(ACCOUNT, word(12)).block == 3
    assert books.find_reservation(ACCOUNT, word(12)).is_finished
    assert books.find_reservation(ACCOUNT, word(11)).answer_digest is None


def test_a_repeat_is_finished_and_names_its_record(books: Books):
    write(books, reserved(14, Case.REPEAT, 10, 0, 30, reused=1), 4)
    repeat = books.find_reservation(ACCOUNT, word(14))
    assert (repeat.is_finished, repeat.answer_digest, repeat.reused_id) == (True, None, word(11))


def test_of_repeats_with_one_id_the_newest_counts_and_it_is_one(books: Books):
    """The contract keeps no id of them: the same one may be logged again."""
    for block in (4, 5):
        write(books, reserved(14, Case.REPEAT, 10, 0, 30, reused=1), block)
    assert [made.id for made in books.list_reservations(ACCOUNT)] == [word(n) for n in (11, 12, 13, 14)]
    assert books.find_reservation(ACCOUNT, word(14)).case is Case.REPEAT


def test_what_is_paid_under_a_repeats_id_counts(books: Books):
    write(books, reserved(14, Case.REPEAT, 10, 0, 30, reused=1), 4)
    write(books, reserved(14, Case.FIRST, 5, 5, 35, query=word(4)), 5)
    paid = books.find_reservation(ACCOUNT, word(14))
    assert (paid.case, paid.cost, paid.block) == (Case.FIRST, Precision(5), 5)
    assert [made.id for made in books.list_reservations(ACCOUNT)] == [word(n) for n in (11, 12, 13, 14)]
    assert books.list_records(ACCOUNT, word(4)) == (Record(word(14), Precision(5)),)


def test_ids_are_an_accounts_own(books: Books):
    write(books, opened(word(2), budget=7), 4)
    write(books, reserved(11, Case.FIRST, 7, 7, 7, account=word(2)), 5)
    assert books.find_reservation(word(2), word(11)).target == Precision(7)
    assert books.find_reservation(ACCOUNT, word(11)).target == Precision(10)
    assert books.find_reservation(word(2), word(12)) is None
    write(books, Event("Published", {"account": word(2), "id": word(11), "answer": word(78)}), 6)
    assert books.find_reservation(ACCOUNT, word(11)).answer_digest is None


def test_a_refused_group_changes_nothing(books: Books):
    before = everything(books)
    write(books, Event("GroupRefused", {"account": ACCOUNT, "id": word(15), "reason": "ledger: paused"}), 4)
    assert everything(books) == before
    assert books.find_reservation(ACCOUNT, word(15)) is None


def test_what_is_charged_under_a_byte_adds_up(books: Books):
    write(books, reserved(14, Case.FIRST, 7, 7, 37, query=word(4), about=9), 4)
    assert [books.spent_on(ACCOUNT, about).units for about in (2, 9, 1)] == [30, 7, 0]


# -- cubes, views, versions ------------------------------------------------------------------------


def test_a_cube_costs_by_how_much_its_largest_cell_rose(books: Books):
    """The contract says what is spent; the books keep the difference, which may be nothing."""
    write(books, Event("CubeAdded", {"account": ACCOUNT, "cube": 1, "cells": 8}), 4)
    assert books.find_account(ACCOUNT).cubes == (8,)
    low, high = ((0, 4, WHOLE_WEIGHT),), ((4, 8, WHOLE_WEIGHT),)
    write(books, reserved(14, Case.FIRST, 10, 10, 40, cube=1, runs=low), 5)
    write(books, reserved(15, Case.FIRST, 10, 10, 40, cube=1, runs=high), 6)
    made = books.find_reservation(ACCOUNT, word(15))
    assert (made.cost, made.fresh_precision, made.cube, made.runs) == (
        ZERO_PRECISION,
        Precision(10),
        1,
        (CellRun(4, 8),),
    )
    assert books.find_account(ACCOUNT).measurements == 4
    assert books.list_records(ACCOUNT, word(3), 1, (CellRun(0, 4),)) == (Record(word(14), Precision(10)),)
    assert books.list_records(ACCOUNT, word(3), 1, (CellRun(4, 8),)) == (Record(word(15), Precision(10)),)
    assert books.list_records(ACCOUNT, word(3), 1) == ()


def test_a_view_has_a_limit_and_a_use(books: Books):
    assert books.get_view(ACCOUNT, ANALYST) == View()
    write(books, Event("LimitSet", {"account": ACCOUNT, "analyst": ANALYST, "limit": 50}), 4)
    write(books, reserved(14, Case.BLUR, 20, 0, 30, reused=2, analyst=ANALYST, used=20), 5)
    assert books.get_view(ACCOUNT, ANALYST) == View(Precision(50), Precision(20))
    write(books, Event("LimitSet", {"account": ACCOUNT, "analyst": ANALYST, "limit": 25}), 6)
    assert books.get_view(ACCOUNT, ANALYST) == View(Precision(25), Precision(20))
    assert books.get_view(ACCOUNT, OWNER_ANALYST) == books.get_view(word(2), ANALYST) == View()
    assert books.find_reservation(ACCOUNT, word(14)).used_after == Precision(20)


def test_a_new_version_keeps_the_spend_and_forgets_the_records(books: Books):
    plain = {"version": 2, "policy": word(18), "data": word(19), "base": 30}
    write(books, Event("VersionOpened", {"account": ACCOUNT, **plain}), 4)
    state = books.find_account(ACCOUNT)
    assert (state.version, state.base, state.spent, state.measurements) == (2, Precision(30), Precision(30), 2)
    assert (state.policy_digest, state.data_commitment) == (word(18), word(19))
    assert books.list_records(ACCOUNT, word(3)) == ()
    write(books, reserved(14, Case.FIRST, 5, 5, 35), 5)
    write(books, reserved(15, Case.REPEAT, 5, 0, 35, reused=1), 6)
    assert books.list_records(ACCOUNT, word(3)) == (Record(word(14), Precision(5)),)
    assert books.find_reservation(ACCOUNT, word(15)).reused_id == word(14), "a record of this version"
    assert [made.version for made in books.list_reservations(ACCOUNT)] == [1, 1, 1, 2, 2]


def test_changes_are_kept_and_told(books: Books):
    later = [
        Event("BudgetLowered", {"account": ACCOUNT, "budget": 90}),
        Event("RaiseProposed", {"account": ACCOUNT, "budget": 200, "ready": 5, "expires": 9}),
        Event("BudgetRaised", {"account": ACCOUNT, "budget": 200}),
        Event("OwnerProposed", {"account": ACCOUNT, "owner": NEXT_OWNER}),
        Event("OwnerChanged", {"account": ACCOUNT, "owner": NEXT_OWNER}),
        Event("CuratorProposed", {"account": ACCOUNT, "curator": NEXT_CURATOR}),
        Event("CuratorChanged", {"account": ACCOUNT, "curator": NEXT_CURATOR}),
        Event("Paused", {"account": ACCOUNT}),
        Event("Resumed", {"account": ACCOUNT}),
    ]
    seen = []
    for place, event in enumerate(later):
        write(books, event, 4 + place)
        state = books.find_account(ACCOUNT)
        seen.append((state.budget.units, state.owner == NEXT_OWNER, state.curator == NEXT_CURATOR, state.paused))
    assert [budget for budget, *_ in seen] == [90, 90, *[200] * 7]
    assert [owner for _, owner, _, _ in seen] == [False] * 4 + [True] * 5
    assert [curator for _, _, curator, _ in seen] == [False] * 6 + [True] * 3
    assert [paused for *_, paused in seen] == [False] * 7 + [True, False]
    changes = books.list_changes(ACCOUNT)
    assert [change.event for change in changes] == [opened(), *later]
    assert [change.block for change in changes] == [1, *range(4, 13)]
    assert books.find_account(ACCOUNT).spent == Precision(30)


def test_accounts_are_apart(books: Books):
    write(books, opened(word(2), budget=7), 4)
    write(books, reserved(21, Case.FIRST, 7, 7, 7, account=word(2)), 5)
    assert [state.account for state in books.list_accounts()] == [ACCOUNT, word(2)]
    assert books.find_account(ACCOUNT).spent == Precision(30)
    assert [made.id for made in books.list_reservations(word(2))] == [word(21)]
    assert [change.block for change in books.list_changes(word(2))] == [4]
    assert books.spent_on(word(2), 2) == Precision(7)


def test_unknown_names_have_no_entry(books: Books):
    before = everything(books)
    assert books.find_account(word(5)) is None
    assert books.find_reservation(ACCOUNT, word(5)) is None
    assert books.list_reservations(word(5)) == books.list_changes(word(5)) == books.list_records(word(5), word(3)) == ()
    assert books.get_view(word(5), ANALYST) == View() and books.spent_on(word(5), 1) == ZERO_PRECISION
    assert everything(books) == before


def everything(books: Books) -> Any:
    return (
        [(s, books.list_reservations(s.account), books.list_changes(s.account)) for s in books.list_accounts()],
        {place: kept for place, kept in books._records.items() if kept},
        dict(books._views),
        {place: units for place, units in books._spent_on.items() if units},
    )


# -- against the contract --------------------------------------------------------------------------


def assert_books_are_the_contracts(state: Replay) -> None:
    """Every number that both hold."""
    machine, contract, books = state.evm, state.contract, state.books
    for account in books.list_accounts():
        name = account.account
        assert machine.call_view(contract, "accounts", name) == (
            account.owner, account.unit.value, account.policy_digest, account.data_commitment, account.raise_delay
        )  # fmt: skip
        spent = (account.budget.units, account.spent.units, account.measurements)
        assert machine.call_view(contract, "money", name) == spent
        desk = (account.curator, account.version, len(account.cubes), account.paused)
        assert machine.call_view(contract, "desk", name) == desk
        for cube, cells in enumerate(account.cubes, 1):
            assert machine.call_view(contract, "cells_of", name, cube) == (cells,)
        made = books.list_reservations(name)
        for analyst in {reservation.analyst for reservation in made} - {OWNER_ANALYST}:
            view = books.get_view(name, analyst)
            assert machine.call_view(contract, "view_of", name, analyst) == (view.limit.units, view.used.units)
        for cube in range(1, len(account.cubes) + 1):
            assert machine.call_view(contract, "largest_cell", name, cube) == (
                books.largest_cell_charge(name, cube).units,
            )
        for about in range(4):
            assert machine.call_view(contract, "spent_on", name, about) == (books.spent_on(name, about).units,)
        for reservation in made:
            status = (
                0
                if reservation.case is Case.REPEAT
                else 2 * reservation.version + (reservation.answer_digest is not None)
            )
            assert machine.call_view(contract, "reservations", name, reservation.id) == (status,)
            records = books.list_records(name, reservation.query, reservation.cube, reservation.runs)
            runs = tuple((run.start, run.stop, run.weight) for run in reservation.runs)
            held = machine.call_view(contract, "record", name, reservation.query, reservation.cube, runs)
            assert held == (len(records), records[-1].precision.units if records else 0)
            assert [kept.precision for kept in records] == sorted({kept.precision for kept in records})


def test_books_of_a_whole_history_are_the_contracts():
    first, *rest = history()
    for kept in range(len(rest) + 1):
        assert_books_are_the_contracts(replayed([first, *rest[:kept]]))


def test_every_field_of_an_account_and_a_reservation_is_used_in_the_history():
    """So that the test above leaves none out."""
    books = replayed(history()).books
    states = books.list_accounts()
    made = [each for state in states for each in books.list_reservations(state.account)]
    for kind, found in ((states[0], states), (made[0], made)):
        for field in fields(kind):
            values = {getattr(each, field.name) for each in found}
            assert len(values) > 1 or field.name in ("raise_delay", "paused", "unit"), field.name


requests = st.lists(
    st.tuples(
        st.integers(1, 3),
        st.integers(0, 20),
        st.sampled_from([(0, ()), (1, ((0, 2, WHOLE_WEIGHT),)), (1, ((1, 3, WHOLE_WEIGHT // 2), (3, 4, 1)))]),
        st.sampled_from([OWNER_ANALYST, ANALYST]),
    ),
    max_size=15,
)


@given(requests)
@settings(max_examples=60, deadline=None)
def test_books_are_the_contracts_whatever_is_asked(asked: list[tuple[int, int, Any, bytes]]):
    contract, books = budget_ledger(), Books(budget_ledger())
    machine = Evm(contract, 5)
    machine.set_block(0, 1_000)
    address = machine.deploy(CURATOR.address, contract.initcode)

    def call(sender: str, function: str, *arguments: Value) -> None:
        for log in machine.execute(sender, address, contract.encode_call(function, *arguments)):
            books.enter_log(log, 1, 1_000)

    call(OWNER.address, "open_account", CURATOR.address, 1, 60, word(1), word(2), 0)
    account = books.list_accounts()[0].account
    call(OWNER.address, "add_cube", account, 4)
    call(OWNER.address, "set_limit", account, ANALYST, 40)
    for id, (query, wanted, (cube, runs), analyst) in enumerate(asked, 1):
        before = everything(books)
        runs = runs if wanted else ()
        claim = (word(id), word(query), analyst, 1, cube, wanted, 99, len(runs), True)
        try:
            call(CURATOR.address, "reserve", account, (claim,), runs)
        except LedgerRefused:
            assert everything(books) == before
    state = type("State", (), {"evm": machine, "contract": address, "books": books})()
    assert_books_are_the_contracts(state)


@given(requests, requests)
@settings(max_examples=60, deadline=None)
def test_prices_are_the_contracts(asked: list[tuple[int, int, Any, bytes]], group: list[tuple[int, int, Any, bytes]]):
    """What `costs` says of a group is what the contract charges for each of its parts."""
    contract, books = budget_ledger(), Books(budget_ledger())
    machine = Evm(contract, 5)
    machine.set_block(0, 1_000)
    address = machine.deploy(CURATOR.address, contract.initcode)

    def call(sender: str, function: str, *arguments: Value) -> None:
        for log in machine.execute(sender, address, contract.encode_call(function, *arguments)):
            books.enter_log(log, 1, 1_000)

    call(OWNER.address, "open_account", CURATOR.address, 1, 10**6, word(1), word(2), 0)
    account = books.list_accounts()[0].account
    call(OWNER.address, "add_cube", account, 4)
    parts = [part for part in asked + group if part[1]]
    claims = [
        Claim(account, word(id), word(query), OWNER_ANALYST, 1, Precision(wanted), Precision(10**6), cube,
              tuple(CellRun(*run) for run in runs))
        for id, (query, wanted, (cube, runs), _) in enumerate(parts, 1)
    ]  # fmt: skip
    while claims:
        together, claims = claims[:5], claims[5:]
        before = everything(books)
        prices = books.price_claims(together)
        assert everything(books) == before, "a quote changes nothing"
        call(CURATOR.address, "reserve", account, *_claim_rows([together]))
        made = [books.find_reservation(account, claim.id) for claim in together]
        assert [one.cost for one in made] == list(prices)
