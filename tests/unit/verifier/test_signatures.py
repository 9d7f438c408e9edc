"""Signed calls against logs: every way in which a log can differ from what was signed, and every wrong sender."""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from typing import Any

import pytest

from ledger_history import ANALYST, HEIR, NEXT, history, word
from noisebank.core.errors import Tampered
from noisebank.ledger.abi import budget_ledger
from noisebank.ledger.block import Block, Genesis
from noisebank.ledger.evm import Event, decode_events
from noisebank.ledger.replay import Replay
from noisebank.ledger.signing import Key
from noisebank.verifier.recount import Recount
from noisebank.verifier.signatures import EVENT_BY_FUNCTION, check_call
from support.banks import CURATOR, OWNER

STRANGER = Key(b"\x77" * 32)
EVERYBODY = [key.address for key in (CURATOR, OWNER, NEXT, HEIR, STRANGER)]
DERIVED = {
    "Reserved": {"case", "fresh", "reused", "spent", "used"},
    "AccountOpened": {"account"},
    "CubeAdded": {"cube"},
    "VersionOpened": {"version", "base"},
    "RaiseProposed": {"ready", "expires"},
    "BudgetRaised": {"budget"},
    "OwnerChanged": {"owner"},
    "CuratorChanged": {"curator"},
    "GroupRefused": {"reason"},
}
"""What the contract adds to what was signed: for the recount to check."""
Case = tuple[str, str, bytes, tuple[Event, ...], Recount]


def calls() -> Iterator[Case]:
    """Function, sender, calldata and logs of each call of the history, with the recount just before it."""
    first, *rest = history()
    genesis, recount = Genesis.from_canonical_json(first), Recount()
    state = Replay(genesis)
    for number, line in enumerate(rest):
        block = Block.from_canonical_json(line, genesis.chain_id, number)
        for transaction, logs in zip(block.transactions, state.apply_block(block), strict=True):
            if not transaction.to:
                continue
            sender = transaction.recover_sender() if transaction.signature else genesis.sealer
            logged = decode_events(budget_ledger(), logs)
            function = budget_ledger().decode_call(transaction.data)[0]
            yield f"{number} {function}", sender, transaction.data, logged, deepcopy(recount)
            for event in logged:
                recount.add_event(event, lambda block=block: block.time)


CALLS = {name: rest for name, *rest in calls()}


def refused(sender: str, data: bytes, logged: Any, recount: Recount) -> bool:
    try:
        check_call(sender, data, tuple(logged), deepcopy(recount))
    except Tampered:
        return True
    return False


def test_every_function_that_changes_something_is_in_the_history():
    assert {name.split()[1] for name in CALLS} == {
        *EVENT_BY_FUNCTION, "reserve", "reserve_many", "publish", "publish_many"
    }  # fmt: skip


@pytest.mark.parametrize("name", CALLS)
def test_honest_calls_pass(name: str):
    sender, data, logged, recount = CALLS[name]
    assert not refused(sender, data, logged, recount)


@pytest.mark.parametrize("name", CALLS)
def test_a_call_by_anybody_else_is_refused(name: str):
    """open_account, too: its owner is the sender."""
    sender, data, logged, recount = CALLS[name]
    assert sender in EVERYBODY
    for other in EVERYBODY:
        assert refused(other, data, logged, recount) == (other != sender)


def other_value(value: Any) -> Any:
    if isinstance(value, int):
        return value + 1
    if isinstance(value, bytes):
        return value[:-1] + bytes([value[-1] ^ 1])
    if isinstance(value, tuple):
        return ((0, 1, 1), *value)
    assert isinstance(value, str)
    return "0x" + "77" * 20 if value.startswith("0x") else value + "."


@pytest.mark.parametrize("name", CALLS)
def test_a_log_that_says_something_else_is_refused(name: str):
    """Each field that was signed, in each log."""
    sender, data, logged, recount = CALLS[name]
    for place, event in enumerate(logged):
        for field, value in event.arguments.items():
            changed = Event(event.name, {**event.arguments, field: other_value(value)})
            caught = refused(sender, data, [*logged[:place], changed, *logged[place + 1 :]], recount)
            assert caught == (field not in DERIVED.get(event.name, set())), (event.name, field)


@pytest.mark.parametrize("name", CALLS)
def test_a_log_more_or_less_or_moved_is_refused(name: str):
    sender, data, logged, recount = CALLS[name]
    for place in range(len(logged)):
        assert refused(sender, data, [*logged[:place], *logged[place + 1 :]], recount)
        assert refused(sender, data, [*logged[: place + 1], *logged[place:]], recount)
        if place and logged[place] != logged[place - 1]:
            swapped = [*logged[: place - 1], logged[place], logged[place - 1], *logged[place + 1 :]]
            assert refused(sender, data, swapped, recount)
    assert refused(sender, data, [], recount)


@pytest.mark.parametrize("name", CALLS)
def test_a_log_of_another_kind_is_refused(name: str):
    sender, data, logged, recount = CALLS[name]
    names = {event.name for event in budget_ledger().events.values()}
    for place, event in enumerate(logged):
        for other in names - {event.name}:
            changed = Event(other, event.arguments)
            assert refused(sender, data, [*logged[:place], changed, *logged[place + 1 :]], recount) or (
                other == "GroupRefused" and "_many" in name
            ), other


@pytest.mark.parametrize("name", [name for name in CALLS if "_many" in name])
def test_a_group_is_logged_as_a_whole_or_refused_as_a_whole(name: str):
    """Half a group, or a refusal in the name of its second part."""
    sender, data, logged, recount = CALLS[name]
    at = next(place for place, event in enumerate(logged) if event.name == "GroupRefused")
    first, second = logged[0], logged[1]  # one group of two
    account = first.arguments["account"]
    for id, right in ((first.arguments["id"], True), (second.arguments["id"], False), (word(5), False)):
        refusal = Event("GroupRefused", {"account": account, "id": id, "reason": "ledger: paused"})
        assert refused(sender, data, [refusal, *logged[2:]], recount) != right
        assert refused(sender, data, [refusal, second, *logged[2:]], recount)
        assert refused(sender, data, [first, refusal, *logged[2:]], recount)
    assert refused(sender, data, [*logged[:at], *logged[at + 1 :]], recount), "a refusal that is not told"


@pytest.mark.parametrize("name", [name for name in CALLS if name.split()[1] in ("reserve", "publish")])
def test_a_single_group_is_never_refused_in_a_journal(name: str):
    sender, data, logged, recount = CALLS[name]
    arguments = {**logged[0].arguments, "reason": "ledger: paused"}
    assert refused(sender, data, [Event("GroupRefused", arguments)], recount)


def reserve_data(*claims: Any, runs: Any = (), function: str = "reserve") -> bytes:
    return budget_ledger().encode_call(function, account_of(), claims, runs)


def account_of() -> bytes:
    _, data, *_ = CALLS[next(name for name in CALLS if "reserve" in name)]
    account = budget_ledger().decode_call(data)[1]["account"]
    assert isinstance(account, bytes)
    return account


def reserved(spent: int, **others: Any) -> Event:
    plain = {
        "account": account_of(), "id": word(1), "query": word(2), "analyst": ANALYST, "about": 1, "cube": 0, "case": 1,
        "wanted": 10, "fresh": 10, "reused": 0, "spent": spent, "used": 10, "runs": (),
    }  # fmt: skip
    return Event("Reserved", {**plain, **others})


def before_reserving() -> Recount:
    """The recount before anything was spent."""
    return CALLS[next(name for name in CALLS if name.endswith(" reserve"))][3]


@pytest.mark.parametrize("function", ["reserve", "reserve_many"])
def test_more_than_was_agreed_cannot_be_charged(function: str):
    """The limit is signed, and only here is it held against what was charged."""
    claims = [
        (word(1), word(2), ANALYST, 1, 0, 10, 10, 0, False),
        (word(3), word(4), ANALYST, 1, 0, 10, 7, 0, True),
    ]
    data, recount = reserve_data(*claims, function=function), before_reserving()
    second = {"id": word(3), "query": word(4)}
    for first_after, second_after, fair in ((10, 17, True), (10, 18, False), (11, 17, False), (3, 10, True)):
        logged = [reserved(first_after), reserved(second_after, **second)]
        assert refused(CURATOR.address, data, logged, recount) != fair


RUNS = ((0, 2, 2**32), (3, 4, 7))


def test_runs_belong_to_the_claims_in_order():
    claims = [
        (word(1), word(2), ANALYST, 1, 1, 10, 10, 1, False),
        (word(3), word(4), ANALYST, 1, 1, 10, 10, 1, True),
    ]
    data, recount = reserve_data(*claims, runs=RUNS), before_reserving()
    second = {"id": word(3), "query": word(4), "cube": 1}
    right = [reserved(1, cube=1, runs=RUNS[:1]), reserved(2, **second, runs=RUNS[1:])]
    assert not refused(CURATOR.address, data, right, recount)
    for one, other in ((RUNS[1:], RUNS[:1]), (RUNS, ()), ((), RUNS), (RUNS[:1], ()), (RUNS[:1], RUNS)):
        wrong = [reserved(1, cube=1, runs=one), reserved(2, **second, runs=other)]
        assert refused(CURATOR.address, data, wrong, recount)


@pytest.mark.parametrize("count", [1, 3, 2**16, 2**255])
def test_a_call_that_counts_its_runs_wrongly_is_refused(count: int):
    """No contract takes it; whoever reads it must not fall over."""
    data = reserve_data((word(1), word(2), ANALYST, 1, 1, 10, 10, count, True), runs=RUNS)
    assert refused(CURATOR.address, data, [reserved(1, cube=1, runs=RUNS)], before_reserving())
    assert refused(CURATOR.address, data, [reserved(1, cube=1, runs=RUNS[:1])], before_reserving())


def test_a_group_without_an_end_is_refused():
    claims = (word(1), word(2), ANALYST, 1, 0, 10, 10, 0, False)
    data = reserve_data(claims, function="reserve_many")
    assert refused(CURATOR.address, data, [reserved(10)], before_reserving())


@pytest.mark.parametrize("data", [b"", b"\0\0\0\0", bytes(200), CALLS[next(iter(CALLS))][1] + b"\0"])
def test_calldata_that_cannot_be_read_is_refused(data: bytes):
    assert refused(CURATOR.address, data, [], before_reserving())


@pytest.mark.parametrize("function", ["money", "desk", "accounts", "MAX_BUDGET"])
def test_calls_that_only_ask_have_no_place_in_a_journal(function: str):
    arguments = () if function == "MAX_BUDGET" else (account_of(),)
    assert refused(CURATOR.address, budget_ledger().encode_call(function, *arguments), [], before_reserving())


@pytest.mark.parametrize("function", ["reserve", "publish", "pause", "accept_owner"])
def test_calls_for_an_unknown_account_are_refused(function: str):
    lists = {"reserve": ((), ()), "publish": ((),)}.get(function, ())
    data = budget_ledger().encode_call(function, word(404), *lists)
    for sender in (*EVERYBODY, "0x" + "00" * 20):
        assert refused(sender, data, [], before_reserving())


def test_nobody_accepts_what_nobody_proposed():
    """The empty address is nobody, also where it stands for "no proposal"."""
    recount = before_reserving()
    for function, name, field in (
        ("accept_owner", "OwnerChanged", "owner"),
        ("accept_curator", "CuratorChanged", "curator"),
    ):
        data = budget_ledger().encode_call(function, account_of())
        for sender in EVERYBODY:
            event = Event(name, {"account": account_of(), field: sender})
            assert refused(sender, data, [event], recount)
