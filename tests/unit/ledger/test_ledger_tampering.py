"""Whatever is changed in an exported journal, reading it again says so and names the block."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from copy import deepcopy
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from ledger_history import Checkpoint, history, replayed

from noisebank.digests import canonical, tagged
from noisebank.errors import Tampered
from noisebank.ledger.abi import budget_ledger
from noisebank.ledger.block import Block, Executed, Genesis
from noisebank.ledger.machine import Event
from noisebank.ledger.signing import Key, Transaction
from support import CURATOR, OWNER

LINES = history()
BLOCKS = len(LINES) - 1
LAST = BLOCKS - 1
THIEF = Key(b"\x77" * 32)
Path = tuple[str | int, ...]


def refusal(lines: list[str]) -> Tampered:
    with pytest.raises(Tampered) as found:
        replayed(lines)
    return found.value


def changed(number: int, line: str) -> list[str]:
    """The journal with another line for a block; -1 is the first line."""
    return [*LINES[: number + 1], line, *LINES[number + 2 :]]


def plain(number: int) -> Any:
    return json.loads(LINES[number + 1])


def spelled(value: Any) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def resealed(block: dict[str, Any], key: Key = CURATOR) -> str:
    body = {name: value for name, value in block.items() if name != "signature"}
    return canonical({**body, "signature": key.sign(tagged("block 1", body)).hex()})


def relinked(blocks: list[dict[str, Any]], key: Key = CURATOR) -> list[str]:
    """Blocks numbered, linked and sealed anew: all that the sealer alone can do to a history."""
    genesis = Genesis.read(LINES[0])
    lines, parent = [LINES[0]], genesis.digest.hex()
    for number, block in enumerate(blocks):
        lines.append(resealed({**block, "number": number, "parent": parent}, key))
        parent = tagged("block 1", {k: v for k, v in json.loads(lines[-1]).items() if k != "signature"}).hex()
    return lines


# -- every leaf -----------------------------------------------------------------------------------


def nodes(value: Any, path: Path = ()) -> Iterator[Path]:
    yield path
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, part in inner:
        yield from nodes(part, (*path, name))


def at(value: Any, path: Path) -> Any:
    for step in path:
        value = value[step]
    return value


def put(value: Any, path: Path, new: Any) -> Any:
    if not path:
        return new
    copy = deepcopy(value)
    at(copy, path[:-1])[path[-1]] = new
    return copy


def other_values(value: Any) -> Iterator[Any]:
    """Several wrong values in the place of a right one."""
    yield from (None, [], {}, True, "", -1)
    if isinstance(value, int):
        yield from (value + 1, value - 1, 2 * value + 1, value ^ (1 << 40), 2**64, 2**256, str(value), [value])
        yield from (float(value), float("inf"), float("nan"), bool(value))
    elif isinstance(value, str):
        flipped = {"0": "1", "f": "e"}
        yield from (value[:-1], value[:-2], value[1:], value + "0", value + "00", " " + value, value + " ")
        yield from (value.upper(), "zz" * 32, "0x" + value, value.removeprefix("0x"), "\ud800", 0, [value])
        if value:
            yield flipped.get(value[0], "0") + value[1:]
            yield value[:-1] + flipped.get(value[-1], "0")
            middle = len(value) // 2
            yield value[:middle] + flipped.get(value[middle], "0") + value[middle + 1 :]
    elif isinstance(value, list):
        yield from (value[1:], value[:-1], [*value, *value[-1:]], value[::-1], [*value, None])
    elif isinstance(value, dict):
        yield {**value, "more": 1}
        for name in value:
            rest = {other: part for other, part in value.items() if other != name}
            yield rest
            yield {**rest, f"{name}s": value[name]}


def mutations(number: int) -> Iterator[tuple[Path, Any]]:
    original = plain(number)
    before = spelled(original)
    for path in nodes(original):
        for new in other_values(at(original, path)):
            mutant = put(original, path, new)
            if spelled(mutant) != before:
                yield path, mutant


@pytest.mark.parametrize("number", range(BLOCKS))
def test_any_change_of_any_field_is_named(number: int):
    there = Checkpoint(LINES[: number + 1])
    for path, mutant in mutations(number):
        found = there.refusal(spelled(mutant))
        assert found is not None and found.block == number, path
    assert there.refusal(LINES[number + 1]) is None


def test_any_change_of_the_first_line_is_seen():
    for path, mutant in mutations(-1):
        assert refusal(changed(-1, spelled(mutant))).block in (None, 0), path


@pytest.mark.parametrize("number", range(BLOCKS))
def test_any_other_spelling_of_a_line_is_named(number: int):
    line = LINES[number + 1]
    block = json.loads(line)
    twice = line[:-1] + f',"number":{block["number"]}}}'
    for other in (
        line + " ", "\ufeff" + line, line + "\r", json.dumps(block), json.dumps(block, separators=(",", ":")),
        line.replace('"number"', '"\\u006eumber"'), line[:-1], line + line, twice, "", "[]", "null", "{}", "1" * 5000,
        "[" * 100_000, line.replace('"nonce":', '"nonce":0'),
    ):  # fmt: skip
        if other != line:
            assert refusal(changed(number, other)).block == number


# -- what the sealer can do without the other keys ------------------------------------------------


@pytest.mark.parametrize("number", range(1, BLOCKS))
def test_sealer_cannot_change_what_a_transaction_did(number: int):
    there = Checkpoint(LINES[: number + 1])
    for path, mutant in mutations(number):
        if path[:1] not in [("transactions",), ("balances",)]:
            continue
        try:
            line = resealed(mutant)
        except TypeError:
            continue  # a float: nothing to seal
        found = there.refusal(line)
        assert found is not None and found.block == number, path
    assert there.refusal(LINES[number + 1]) is None


@pytest.mark.parametrize("time", [-1, 2**256, True, None, "1000", [], {}])
def test_sealer_cannot_write_an_impossible_time(time: object):
    block = {**plain(LAST), "time": time}
    assert refusal(changed(LAST, resealed(block))).block == LAST


def test_sealer_cannot_go_back_in_time():
    block = plain(LAST)
    assert refusal(changed(LAST, resealed({**block, "time": plain(LAST - 1)["time"] - 1}))).block == LAST


def test_sealer_cannot_finish_a_raise_early_by_moving_time():
    number = next(n for n in range(BLOCKS) if '"BudgetRaised"' in LINES[n + 1])
    blocks = [plain(n) for n in range(BLOCKS)]
    for block in blocks[number:]:
        block["time"] = blocks[number - 1]["time"]
    assert refusal(relinked(blocks)).block == number


@pytest.mark.parametrize("field", ["number", "parent"])
def test_sealer_cannot_leave_a_gap(field: str):
    block = plain(LAST)
    other = {**block, field: block["number"] + 1 if field == "number" else "00" * 32}
    assert refusal(changed(LAST, resealed(other))).block == LAST


def test_sealer_cannot_write_an_empty_block():
    empty = {**plain(LAST), "transactions": [], "balances": []}
    assert refusal(changed(LAST, resealed(empty))).block == LAST


@pytest.mark.parametrize("number", range(LAST - 1))
def test_sealer_cannot_drop_a_block_that_its_author_built_on(number: int):
    """Nonces and the contract's own state give it away, though everything is sealed anew."""
    blocks = [plain(n) for n in range(BLOCKS) if n != number]
    assert refusal(relinked(blocks)).block >= number


@pytest.mark.parametrize("number", range(BLOCKS))
def test_sealer_cannot_replay_a_transaction(number: int):
    blocks = [plain(n) for n in range(BLOCKS)]
    assert refusal(relinked([*blocks, {**blocks[number], "time": blocks[-1]["time"]}])).block == BLOCKS


def forged(call: str, *arguments: Any, key: Key = CURATOR, nonce: int | None = None) -> list[str]:
    """The journal and one more block in which `key` signs a call of the contract."""
    state = replayed(LINES)
    used = state.nonce(key.address) if nonce is None else nonce
    data = budget_ledger().call(call, *arguments)
    transaction = Transaction(state.genesis.chain_id, used, state.contract, data).signed(key)
    account = arguments[0]
    event = Event("BudgetRaised" if call == "finish_raise" else "RaiseProposed", {"account": account, "budget": 10**20})
    block = Block(BLOCKS, state.head.digest, state.time, (Executed(transaction, (event,)),), ((account, 10**20, 0),))
    return [*LINES, block.sealed(CURATOR).line()]


@pytest.mark.parametrize("call", ["propose_raise", "finish_raise"])
@pytest.mark.parametrize("key", [CURATOR, THIEF])
def test_raise_signed_by_anybody_but_the_owner_is_refused(call: str, key: Key):
    account = replayed(LINES).books.accounts()[0].account
    found = refusal(forged(call, account, *([10**20] if call == "propose_raise" else []), key=key))
    assert found.block == BLOCKS
    assert "not the owner" in found.what


def test_owners_old_raise_cannot_be_used_again():
    old = next(
        done
        for n in range(BLOCKS)
        for done in plain(n)["transactions"]
        if done["events"] and done["events"][0][0] == "RaiseProposed"
    )
    state = replayed(LINES)
    block = {**plain(LAST), "number": BLOCKS, "parent": state.head.digest.hex(), "transactions": [old]}
    found = refusal([*LINES, resealed(block)])
    assert found.block == BLOCKS
    assert "nonce" in found.what


def test_owners_signature_for_another_chain_is_worth_nothing():
    state = replayed(LINES)
    account = state.books.accounts()[0].account
    data = budget_ledger().call("propose_raise", account, 10**20)
    foreign = Transaction(state.genesis.chain_id + 1, state.nonce(OWNER.address), state.contract, data).signed(OWNER)
    here = Transaction(state.genesis.chain_id, foreign.nonce, foreign.to, foreign.data, foreign.signature)
    block = Block(BLOCKS, state.head.digest, state.time, (Executed(here, ()),), ())
    assert refusal([*LINES, block.sealed(CURATOR).line()]).block == BLOCKS


@pytest.mark.parametrize("number", range(BLOCKS))
def test_block_sealed_by_another_key_is_named(number: int):
    assert refusal(changed(number, resealed(plain(number), THIEF))).block == number


def test_history_sealed_by_another_key_is_refused_at_once():
    assert refusal(relinked([plain(n) for n in range(BLOCKS)], THIEF)).block == 0


# -- whole blocks ---------------------------------------------------------------------------------


@pytest.mark.parametrize("number", range(BLOCKS))
def test_block_dropped_or_doubled_or_moved_is_named(number: int):
    if number < LAST:
        assert refusal([*LINES[: number + 1], *LINES[number + 2 :]]).block == number
        swapped = list(LINES)
        swapped[number + 1], swapped[number + 2] = swapped[number + 2], swapped[number + 1]
        assert refusal(swapped).block == number
    assert refusal([*LINES[: number + 2], *LINES[number + 1 :]]).block == number + 1
    assert refusal([*LINES, LINES[number + 1]]).block == BLOCKS


@given(st.permutations(range(BLOCKS)))
@settings(max_examples=30, deadline=None)
def test_any_other_order_is_named_at_its_first_difference(order: list[int]):
    if order != list(range(BLOCKS)):
        first = next(place for place, number in enumerate(order) if place != number)
        assert refusal([LINES[0], *(LINES[number + 1] for number in order)]).block == first


def test_missing_or_second_first_line_is_seen():
    refusal(LINES[1:])
    assert refusal([LINES[0], *LINES]).block == 0


def test_blocks_of_another_bank_are_refused():
    other = history(salt=9)
    assert refusal([LINES[0], *other[1:]]).block == 0
    assert refusal([*LINES[:5], *other[5:]]).block == 4


# -- any JSON anywhere ----------------------------------------------------------------------------

anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=70) | st.integers(-(2**300), 2**300),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=9), inner, max_size=4),
    max_leaves=8,
)


@given(number=st.integers(-1, LAST), pick=st.randoms(use_true_random=False), new=anything, seal=st.booleans())
@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_anything_anywhere_is_tampering(number: int, pick: random.Random, new: Any, seal: bool):
    original = plain(number)
    path = pick.choice(list(nodes(original)))
    mutant = put(original, path, new)
    line = spelled(mutant)
    if line == LINES[number + 1] or path == ("time",):
        return
    seal = seal and number >= 1 and isinstance(mutant, dict) and path != ("signature",)
    if seal:
        try:
            line = resealed(mutant)
        except TypeError:
            seal = False
    blocks = {number, number + 1} if seal else {number} if number >= 0 else {None, 0}
    assert refusal(changed(number, line)).block in blocks


@pytest.mark.parametrize("depth", [100, 500, 900, 950, 980, 990, 5_000])
@pytest.mark.parametrize("number", [-1, LAST])
def test_deeply_nested_values_are_tampering(number: int, depth: int):
    original = plain(number)
    marked = spelled(put(original, ("sealer",) if number < 0 else ("transactions", 0, "to"), "HERE"))
    refusal(changed(number, marked.replace('"HERE"', "[" * depth + "]" * depth)))
    if number >= 0:
        events = ("transactions", 0, "events", 0, 1, "account")
        marked = spelled(put(original, events, "HERE"))
        assert refusal(changed(number, marked.replace('"HERE"', "[" * depth + "]" * depth))).block == number


# -- what cannot be seen from the journal alone ----------------------------------------------------


@pytest.mark.parametrize("kept", range(BLOCKS + 1))
def test_cut_tail_cannot_be_seen_without_a_pinned_head(kept: int):
    state = replayed(LINES[: kept + 1])
    assert state.head.number == kept - 1
    if kept < BLOCKS:
        assert state.head != replayed(LINES).head


def test_history_signed_anew_by_the_curator_cannot_be_seen_without_a_pinned_head():
    """The curator forgets its last charge, pretends that all was later, and seals everything anew."""
    blocks = [{**plain(n), "time": plain(n)["time"] + 7} for n in range(LAST)]
    for block in blocks:
        for done in block["transactions"]:
            for _, arguments in done["events"]:
                if "ready" in arguments:
                    arguments["ready"] += 7
                    arguments["expires"] += 7
    state = replayed(relinked(blocks))
    true = replayed(LINES)
    account = true.books.accounts()[0].account
    assert state.books.account(account).spent < true.books.account(account).spent
    assert state.head != true.head


def test_owners_last_word_can_be_dropped_by_a_curator_who_signs_all_anew():
    dropped = relinked([plain(n) for n in range(BLOCKS) if n != LAST - 1])
    assert '"OwnerProposed"' in LINES[LAST]
    assert replayed(dropped).head != replayed(LINES).head


def test_untouched_journal_passes():
    state = replayed(LINES)
    assert state.head.number == LAST
    assert relinked([plain(n) for n in range(BLOCKS)]) == LINES
