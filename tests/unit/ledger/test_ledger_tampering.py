"""Whatever is changed in an exported journal, reading it again says so and names the block."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Sequence
from copy import deepcopy
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ledger_history import HEIR, NEXT, Checkpoint, block_with, history, replayed, told, word
from noisebank.core.digests import keccak, to_canonical_json
from noisebank.core.errors import Tampered
from noisebank.ledger.abi import Value, budget_ledger
from noisebank.ledger.block import Block, Genesis, results_digest
from noisebank.ledger.evm import Log
from noisebank.ledger.replay import Replay
from noisebank.ledger.signing import Key, Transaction
from noisebank.verifier.verification import verify
from support.banks import CURATOR, OWNER

LINES = list(history())
BLOCKS = len(LINES) - 1
LAST = BLOCKS - 1
GENESIS = Genesis.from_canonical_json(LINES[0])
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


def block_at(number: int) -> Block:
    return Block.from_canonical_json(LINES[number + 1], GENESIS.chain_id, number)


def spelled(value: Any) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def digest_of(body: dict[str, Any]) -> bytes:
    return keccak(b"noisebank block 2\n", to_canonical_json(body).encode())


def resealed(line: dict[str, Any], key: Key = CURATOR) -> str:
    return to_canonical_json({"block": line["block"], "signature": key.sign(digest_of(line["block"])).hex()})


def with_block(line: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {**line, "block": {**line["block"], **fields}}


def relinked(lines: list[dict[str, Any]], key: Key = CURATOR) -> list[str]:
    """Blocks numbered, linked and sealed anew, and nothing else."""
    found, parent = [LINES[0]], GENESIS.digest.hex()
    for number, line in enumerate(lines):
        found.append(resealed(with_block(line, number=number, parent=parent), key))
        parent = digest_of(json.loads(found[-1])["block"]).hex()
    return found


def rewritten(blocks: Sequence[tuple[int, Sequence[Transaction]]]) -> list[str]:
    """The sealer's best: its own calls renumbered, everything executed, linked and sealed anew.

    `Tampered` where the contract or somebody else's signature does not play along.
    """
    state, lines = Replay(GENESIS), [LINES[0]]
    for number, (time, transactions) in enumerate(blocks):
        state.begin_block(number, time)
        done: list[Transaction] = []
        results: list[tuple[Log, ...]] = []
        for transaction in transactions:
            own = not transaction.signature
            done.append(replace(transaction, nonce=state.next_nonce(CURATOR.address)) if own else transaction)
            results.append(state.execute_transaction(done[-1]))
        balances = state.read_balances(results)
        block = Block(number, state.head.digest, time, tuple(done), results_digest(results), balances).seal_with(
            CURATOR
        )
        state.finish_block(block, results)
        lines.append(block.to_canonical_json())
    replayed(lines)
    return lines


def as_it_was() -> list[tuple[int, Sequence[Transaction]]]:
    return [(block_at(number).time, block_at(number).transactions) for number in range(BLOCKS)]


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


def places(value: str) -> list[int]:
    """Where to change a text: in the middle, and in calldata at both ends of each word."""
    found = [len(value) // 2]
    if len(value) < 5_000:
        found += [place for end in range(72, len(value) + 1, 64) for place in (end - 64, end - 1)]
    return found


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
            for place in places(value):
                yield value[:place] + flipped.get(value[place], "0") + value[place + 1 :]
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
    tree = json.loads(line)
    twice = line.replace('"number":', f'"number":{number},"number":')
    for other in (
        line + " ",
        "\ufeff" + line,
        line + "\r",
        json.dumps(tree),
        json.dumps(tree["block"]),
        to_canonical_json(tree["block"]),
        line.replace('"number"', '"\\u006eumber"'),
        line[:-1],
        line + line,
        twice,
        "",
        "[]",
        "null",
        "{}",
        "1" * 5000,
        "[" * 100_000,
        line.replace('"number":', '"number":0'),
        line.replace('"number":', '"number": '),
        line.replace('"block"', '"Block"'),
        line.replace('"signature":"', '"signature":"00'),
        line.replace('"signature":"', '"signature": "'),
        '{"block":' + line + line[line.index(',"signature"') :],
        to_canonical_json({"signature": tree["signature"], "block": tree["block"], "note": ""}),
    ):
        assert other != line
        assert refusal(changed(number, other)).block == number


# -- what the sealer can do without the other keys ------------------------------------------------


def sealers_own_call(number: int, path: Path, mutant: Any) -> bool:
    """Whether all that changed is the calldata of a call that the sealer itself sent."""
    if path[:2] != ("block", "transactions") or path[3:] != (2,):
        return False
    (*_, before), (*_, after) = (tree["block"]["transactions"][path[2]] for tree in (plain(number), mutant))
    return not before and not after


def readable(data: str) -> bool:
    try:
        budget_ledger().decode_call(bytes.fromhex(data))
    except ValueError:
        return False
    return True


@pytest.mark.parametrize("number", range(1, BLOCKS))
def test_sealer_cannot_change_what_a_transaction_did(number: int):
    """It may change what its own calls say beyond what is logged: its limits, what was refused anyway, the spelling.

    The results are the same then. Another spelling is refused by the verifier.
    """
    there = Checkpoint(LINES[: number + 1])
    for path, mutant in mutations(number):
        if path[:2] not in [("block", "transactions"), ("block", "balances"), ("block", "results")]:
            continue
        try:
            line = resealed(mutant)
        except TypeError:
            continue  # a float: nothing to seal
        found = there.refusal(line)
        if found is not None:
            assert found.block == number, path
            continue
        assert sealers_own_call(number, path, mutant), path
        there = Checkpoint(LINES[: number + 1])
        if not readable(at(mutant, path)):
            report = verify([*LINES[: number + 1], line])
            assert (report.passed, report.block) == (False, number)
    assert there.refusal(LINES[number + 1]) is None


@pytest.mark.parametrize("time", [-1, 2**256, True, None, "1000", [], {}])
def test_sealer_cannot_write_an_impossible_time(time: object):
    assert refusal(changed(LAST, resealed(with_block(plain(LAST), time=time)))).block == LAST


def test_sealer_cannot_go_back_in_time():
    early = with_block(plain(LAST), time=block_at(LAST - 1).time - 1)
    assert refusal(changed(LAST, resealed(early))).block == LAST


def test_sealer_cannot_finish_a_raise_early_by_moving_time():
    number = block_with(LINES, "BudgetRaised")
    lines = [plain(n) for n in range(BLOCKS)]
    before = lines[block_with(LINES, "RaiseProposed")]["block"]["time"] + 1
    moved = [*lines[:number], *(with_block(line, time=before) for line in lines[number:])]
    for between in range(block_with(LINES, "RaiseProposed") + 1, number):
        moved[between] = with_block(moved[between], time=before)
    found = refusal(relinked(moved))
    assert found.block == number and "raise not ready" in found.what
    early = [(min(time, before) if n >= number - 2 else time, done) for n, (time, done) in enumerate(as_it_was())]
    with pytest.raises(Tampered, match="raise not ready"):
        rewritten(early)


@pytest.mark.parametrize("field", ["number", "parent"])
def test_sealer_cannot_leave_a_gap(field: str):
    other = with_block(plain(LAST), **{field: LAST + 1 if field == "number" else "00" * 32})
    assert refusal(changed(LAST, resealed(other))).block == LAST


def test_sealer_cannot_write_an_empty_block():
    for results in (results_digest([]).hex(), results_digest([()]).hex(), ""):
        empty = with_block(plain(LAST), transactions=[], balances=[], results=results)
        found = refusal(changed(LAST, resealed(empty)))
        assert found.block == LAST and "is empty" in found.what


@pytest.mark.parametrize("number", range(LAST - 1))
def test_sealer_cannot_drop_a_block_that_its_author_built_on(number: int):
    """Nonces and the contract's own state give it away, though everything is sealed anew."""
    lines = [plain(n) for n in range(BLOCKS) if n != number]
    assert refusal(relinked(lines)).block >= number


OTHERS_BLOCKS = [
    number for number in range(LAST - 1) if any(transaction.signature for transaction in block_at(number).transactions)
]
"""Blocks of the owners and of the second curator, but for their last words."""


@pytest.mark.parametrize("number", OTHERS_BLOCKS)
def test_sealer_cannot_drop_what_others_signed_though_it_executes_all_anew(number: int):
    with pytest.raises(Tampered):
        rewritten([block for place, block in enumerate(as_it_was()) if place != number])


@pytest.mark.parametrize("number", OTHERS_BLOCKS)
def test_sealer_cannot_send_in_its_own_name_what_others_signed(number: int):
    """Without the signature the sender is the sealer, who is entitled to nothing of this."""
    blocks = as_it_was()
    time, transactions = blocks[number]
    blocks[number] = (time, [replace(transaction, signature=b"") for transaction in transactions])
    if told(LINES)[number][0].name == "AccountOpened":  # anybody may open one; it is another account then
        assert rewritten_owner(blocks, number) == CURATOR.address
    else:
        with pytest.raises(
            Tampered, match=r"refuses a transaction of .*: ledger: not (the owner|the curator|proposed)"
        ):
            rewritten(blocks)


def rewritten_owner(blocks: Sequence[tuple[int, Sequence[Transaction]]], number: int) -> str:
    return replayed(rewritten(blocks[: number + 1])).books.list_accounts()[-1].owner


def test_owners_transaction_without_its_signature_is_refused_as_it_stands():
    for number in OTHERS_BLOCKS:
        tree = plain(number)
        for place, transaction in enumerate(tree["block"]["transactions"]):
            if transaction[3]:
                stripped = put(tree, ("block", "transactions", place, 3), "")
                assert refusal(changed(number, resealed(stripped))).block == number


@pytest.mark.parametrize("number", range(BLOCKS))
def test_sealer_cannot_replay_a_transaction(number: int):
    lines = [plain(n) for n in range(BLOCKS)]
    again = with_block(lines[number], time=lines[-1]["block"]["time"])
    assert refusal(relinked([*lines, again])).block == BLOCKS


def test_transactions_of_one_block_cannot_be_dropped_doubled_or_reordered():
    number = next(n for n in range(BLOCKS) if len(block_at(n).transactions) == 3)
    tree = plain(number)
    a, b, c = tree["block"]["transactions"]
    for other in ([a, b], [a, c], [b, c], [a], [a, b, c, c], [a, a, b, c], [b, a, c], [c, b, a], [a, c, b]):
        assert refusal(changed(number, resealed(with_block(tree, transactions=other)))).block == number
    # Renumbered, too, as only the sealer's own can be: then the results are others.
    for order in ([a, b], [b, c], [a, b, c, a]):
        renumbered = [[a[0] + place, *each[1:]] for place, each in enumerate(order)]
        found = refusal(changed(number, resealed(with_block(tree, transactions=renumbered))))
        assert found.block == number


# -- logs and balances that differ ----------------------------------------------------------------


def other_results(results: Sequence[Sequence[Log]]) -> Iterator[list[list[Log]]]:
    """One bit of each word that was logged; a log more, a log less, two swapped, one in the next call's place."""
    for call, logs in enumerate(results):
        for place, (topics, data) in enumerate(logs):
            for other in (
                *(((*topics[:n], _flipped(topics[n], 31), *topics[n + 1 :]), data) for n in range(len(topics))),
                *((topics, _flipped(data, end)) for end in range(31, len(data), 32)),
            ):
                yield _replaced(results, call, [*logs[:place], other, *logs[place + 1 :]])
            yield _replaced(results, call, [*logs[:place], *logs[place + 1 :]])
            yield _replaced(results, call, [*logs[: place + 1], *logs[place:]])
        yield _replaced(results, call, list(logs)[::-1])
        if call:
            yield [*map(list, results[: call - 1]), [*results[call - 1], *logs], [], *map(list, results[call + 1 :])]


def _flipped(raw: bytes, place: int) -> bytes:
    return raw[:place] + bytes([raw[place] ^ 1]) + raw[place + 1 :]


def _replaced(results: Sequence[Sequence[Log]], call: int, logs: list[Log]) -> list[list[Log]]:
    return [*map(list, results[:call]), logs, *map(list, results[call + 1 :])]


@pytest.mark.parametrize("number", range(1, BLOCKS))
def test_a_log_that_differs_is_named(number: int):
    there, block = Checkpoint(LINES[: number + 1]), block_at(number)
    results = replayed(LINES[: number + 1]).apply_block(block)
    tried = 0
    for other in other_results(results):
        digest = results_digest(tuple(logs) for logs in other)
        if other == [list(logs) for logs in results]:
            assert digest == block.results
            continue
        found = there.refusal(replace(block, results=digest).seal_with(CURATOR).to_canonical_json())
        assert found is not None and (found.block, "result" in found.what) == (number, True)
        tried += 1
    assert tried > 2
    assert there.refusal(LINES[number + 1]) is None


@pytest.mark.parametrize("number", range(1, BLOCKS))
def test_balances_that_differ_are_named(number: int):
    tree = plain(number)
    rows = tree["block"]["balances"]
    assert rows, "every block touches an account"
    other = replayed(LINES).books.list_accounts()[-1].account.hex()
    forged = [[], rows * 2, [*rows, [other, 50, 0]], [*rows, ["00" * 32, 0, 0]]]
    for place, (account, budget, spent) in enumerate(rows):
        for row in ([account, budget + 1, spent], [account, budget, spent + 1], [other[::-1], budget, spent]):
            forged.append([*rows[:place], row, *rows[place + 1 :]])
        if spent:
            forged.append([*rows[:place], [account, budget, spent - 1], *rows[place + 1 :]])
    there = Checkpoint(LINES[: number + 1])
    for balances in forged:
        if balances != rows:
            found = there.refusal(resealed(with_block(tree, balances=balances)))
            assert found is not None and found.block == number


# -- forged calls ---------------------------------------------------------------------------------


def forged(call: str, *arguments: Value, key: Key, by_seal: bool = False, **logged: Any) -> list[str]:
    """The journal and one more block in which `key` calls the contract; the results are made up."""
    state = replayed(LINES)
    data = budget_ledger().encode_call(call, *arguments)
    transaction = Transaction(state.genesis.chain_id, state.next_nonce(key.address), state.contract, data)
    account = arguments[0]
    assert isinstance(account, bytes)
    results = results_digest([(((word(1), account), word(10**20)),)])
    sent = transaction if by_seal else transaction.sign_with(key)
    block = Block(BLOCKS, state.head.digest, state.time, (sent,), results, ((account, 10**20, 0),))
    return [*LINES, block.seal_with(CURATOR).to_canonical_json()]


OWNERS_CALLS: dict[str, tuple[Value, ...]] = {
    "propose_raise": (10**20,),
    "finish_raise": (),
    "lower_budget": (500,),
    "pause": (),
    "resume": (),
    "set_limit": (word(99), 10**9),
    "add_cube": (8,),
    "open_version": (word(1), word(2)),
    "propose_owner": (THIEF.address,),
    "propose_curator": (THIEF.address,),
}


@pytest.mark.parametrize("call", OWNERS_CALLS)
@pytest.mark.parametrize("who", ["sealer", "sealer, signed", "curator", "former owner", "stranger"])
def test_owners_calls_by_anybody_but_the_owner_are_refused(call: str, who: str):
    key = {"curator": NEXT, "former owner": OWNER, "stranger": THIEF}.get(who, CURATOR)
    account = replayed(LINES).books.list_accounts()[0].account
    found = refusal(forged(call, account, *OWNERS_CALLS[call], key=key, by_seal=who == "sealer"))
    assert found.block == BLOCKS
    assert "not the owner" in found.what and key.address in found.what


@pytest.mark.parametrize("call", ["accept_owner", "accept_curator"])
@pytest.mark.parametrize("key", [CURATOR, NEXT, OWNER, HEIR, THIEF])
def test_nobody_takes_over_who_was_not_proposed(call: str, key: Key):
    account = replayed(LINES).books.list_accounts()[0].account
    found = refusal(forged(call, account, key=key, by_seal=key is CURATOR))
    assert found.block == BLOCKS and "not proposed" in found.what


CLAIM = (word(900), word(900), bytes(32), 1, 0, 5, 5, 0, True)


@pytest.mark.parametrize("key", [CURATOR, OWNER, HEIR, THIEF])
@pytest.mark.parametrize("call", ["reserve", "reserve_many", "publish", "publish_many"])
def test_curators_calls_by_anybody_else_are_refused(call: str, key: Key):
    """The first curator, too, who still seals: the account has another one now."""
    account = replayed(LINES).books.list_accounts()[0].account
    arguments: tuple[Value, ...] = ((CLAIM,), ()) if call.startswith("reserve") else (((word(61), word(1), True),),)
    found = refusal(forged(call, account, *arguments, key=key, by_seal=key is CURATOR))
    assert found.block == BLOCKS and "not the curator" in found.what


def test_the_owner_can_do_what_the_others_were_refused():
    """So that the tests above test the sender, and nothing else."""
    state = replayed(LINES)
    account = state.books.list_accounts()[0].account
    state.begin_block(BLOCKS, state.time)
    for call in ("propose_raise", "lower_budget", "pause", "resume", "set_limit", "add_cube", "open_version"):
        data = budget_ledger().encode_call(call, account, *OWNERS_CALLS[call])
        nonce = state.next_nonce(HEIR.address)
        assert state.execute_transaction(
            Transaction(state.genesis.chain_id, nonce, state.contract, data).sign_with(HEIR)
        )
    data = budget_ledger().encode_call("reserve", account, (CLAIM,), ())
    nonce = state.next_nonce(NEXT.address)
    assert state.execute_transaction(Transaction(state.genesis.chain_id, nonce, state.contract, data).sign_with(NEXT))


def test_owners_old_raise_cannot_be_used_again():
    old = plain(block_with(LINES, "RaiseProposed"))["block"]["transactions"]
    state = replayed(LINES)
    block = with_block(plain(LAST), number=BLOCKS, parent=state.head.digest.hex(), transactions=old)
    found = refusal([*LINES, resealed(block)])
    assert found.block == BLOCKS
    assert "nonce" in found.what


def test_owners_signature_for_another_chain_is_worth_nothing():
    state = replayed(LINES)
    account = state.books.list_accounts()[0].account
    data = budget_ledger().encode_call("propose_raise", account, 10**20)
    foreign = Transaction(state.genesis.chain_id + 1, state.next_nonce(HEIR.address), state.contract, data).sign_with(
        HEIR
    )
    here = Transaction(state.genesis.chain_id, foreign.nonce, foreign.to, foreign.data, foreign.signature)
    block = Block(BLOCKS, state.head.digest, state.time, (here,), results_digest([()]), ())
    assert refusal([*LINES, block.seal_with(CURATOR).to_canonical_json()]).block == BLOCKS


def test_former_curator_cannot_seal_with_the_new_ones_key():
    """Sealing stays with the first curator's key."""
    found = refusal(changed(LAST, resealed(plain(LAST), NEXT)))
    assert found.block == LAST and "not signed by the key that seals" in found.what


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
    if line == LINES[number + 1] or path == ("block", "time"):
        return
    seal = seal and number >= 1 and isinstance(mutant, dict) and "block" in mutant and path != ("signature",)
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
    deep = "[" * depth + "]" * depth
    if number < 0:
        refusal(changed(number, spelled(put(original, ("sealer",), "HERE")).replace('"HERE"', deep)))
        return
    for path in ((), ("results",), ("transactions", 0), ("transactions", 0, 1), ("transactions", 0, 2), ("balances",)):
        marked = spelled(put(original, ("block", *path), "HERE"))
        assert refusal(changed(number, marked.replace('"HERE"', deep))).block == number


# -- what cannot be seen from the journal alone ----------------------------------------------------


@pytest.mark.parametrize("kept", range(BLOCKS + 1))
def test_cut_tail_cannot_be_seen_without_a_pinned_head(kept: int):
    state = replayed(LINES[: kept + 1])
    assert state.head.number == kept - 1
    if kept < BLOCKS:
        assert state.head != replayed(LINES).head


def test_history_signed_anew_by_the_curator_cannot_be_seen_without_a_pinned_head():
    """The first curator forgets one of its charges, pretends that all was later, and seals everything anew."""
    number = 8
    (forgotten,) = told(LINES)[number][:1]
    assert forgotten.name == "Reserved" and forgotten.arguments["fresh"]
    later = [(time + 7, done) for place, (time, done) in enumerate(as_it_was()) if place not in (number, number + 1)]
    state, true = replayed(rewritten(later)), replayed(LINES)
    account = true.books.list_accounts()[0].account
    assert state.books.find_account(account).spent < true.books.find_account(account).spent
    assert state.head != true.head


def test_a_curator_who_takes_back_its_own_call_changes_all_that_follows():
    """The same without executing anew: then it is seen from the journal alone."""
    lines = [plain(n) for n in range(BLOCKS) if n not in (8, 9)]
    assert refusal(relinked(lines)).block == 8


def test_owners_last_word_can_be_dropped_by_a_sealer_who_signs_all_anew():
    dropped = relinked([plain(n) for n in range(BLOCKS) if n != LAST - 1])
    assert [event.name for event in told(LINES)[LAST - 1]] == ["LimitSet"]
    assert replayed(dropped).head != replayed(LINES).head


def test_untouched_journal_passes():
    state = replayed(LINES)
    assert state.head.number == LAST
    assert relinked([plain(n) for n in range(BLOCKS)]) == LINES
    assert rewritten(as_it_was()) == LINES
