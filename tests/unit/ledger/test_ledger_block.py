"""Blocks: one spelling, one digest, one sealer."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from noisebank.core.digests import keccak, to_canonical_json
from noisebank.core.errors import Tampered
from noisebank.ledger.block import FORMAT, Block, Genesis, results_digest
from noisebank.ledger.evm import Log
from noisebank.ledger.signing import Transaction
from support.banks import CURATOR, OWNER

TO = "0x" + "35" * 20
word = st.binary(min_size=32, max_size=32)
number = st.integers(0, 2**64 - 1)
amount = st.integers(0, 2**256 - 1)
address = st.binary(min_size=20, max_size=20).map(lambda raw: "0x" + raw.hex())
transactions = st.builds(
    Transaction,
    st.just(5),
    number,
    st.just("") | address,
    st.binary(max_size=40),
    st.just(b"") | st.binary(min_size=65, max_size=65),
)
blocks = st.builds(
    Block,
    number=number,
    parent=word,
    time=number,
    transactions=st.lists(transactions, max_size=3).map(tuple),
    results=word,
    balances=st.lists(st.tuples(word, amount, amount), max_size=3).map(tuple),
    signature=st.binary(min_size=65, max_size=65),
)
logs = st.tuples(st.lists(word, min_size=1, max_size=3).map(tuple), st.binary(max_size=70))
results = st.lists(st.lists(logs, max_size=3).map(tuple), max_size=4)
OWNERS = Transaction(5, 0, TO, b"\x02").sign_with(OWNER)
BLOCK = Block(3, b"\x01" * 32, 1_000, (OWNERS,), b"\x05" * 32, ((b"\x06" * 32, 9, 8),)).seal_with(CURATOR)


def sealed_line(body: Any, signature: str | None = None) -> str:
    """A line as the format has it, whatever the body; the seal is BLOCK's."""
    signature = BLOCK.signature.hex() if signature is None else signature
    return f'{{"block":{to_canonical_json(body)},"signature":"{signature}"}}'


def body() -> dict[str, Any]:
    found = json.loads(BLOCK.to_canonical_json())["block"]
    assert isinstance(found, dict)
    return found


@given(blocks)
@settings(deadline=None)
def test_block_reads_back_from_its_line(block: Block):
    assert Block.from_canonical_json(block.to_canonical_json(), 5, block.number) == block
    assert "\n" not in block.to_canonical_json() and block.to_canonical_json().isascii()


@given(blocks, blocks)
@settings(deadline=None, max_examples=50)
def test_digest_tells_blocks_apart_and_ignores_the_seal(one: Block, other: Block):
    unsealed = replace(one, signature=b""), replace(other, signature=b"")
    assert (one.digest == other.digest) == (unsealed[0] == unsealed[1])
    assert replace(one, signature=b"").digest == one.digest


def test_digest_is_of_a_tagged_canonical_text():
    assert json.loads(BLOCK.to_canonical_json()) == {"block": body(), "signature": BLOCK.signature.hex()}
    assert BLOCK.digest == keccak(b"noisebank block 2\n" + to_canonical_json(body()).encode())
    assert BLOCK.to_canonical_json() == sealed_line(body())


def test_seal_names_its_sealer():
    assert BLOCK.recover_sealer() == CURATOR.address
    assert replace(BLOCK, time=1_001).recover_sealer() != CURATOR.address
    with pytest.raises(Tampered):
        replace(BLOCK, signature=b"").recover_sealer()


def test_line_is_stable():
    """Old journals must read for ever: this text may only change with a new format."""
    transactions = (Transaction(5, 1, TO, b"\x02", b"\x03" * 65), Transaction(5, 7, "", b"\x04"))
    block = Block(3, b"\x01" * 32, 1_000, transactions, b"\x05" * 32, ((b"\x07" * 32, 8, 9),), b"\x0a" * 65)
    assert block.to_canonical_json() == (
        '{"block":{"balances":[["' + "07" * 32 + '",8,9]],"number":3,"parent":"' + "01" * 32 + '","results":"'
        + "05" * 32 + '","time":1000,"transactions":[[1,"' + TO + '","02","' + "03" * 65 + '"],[7,"","04",""]]}'
        + ',"signature":"' + "0a" * 65 + '"}'
    )  # fmt: skip
    assert block.digest.hex() == "fb1acd2d936ed4ebb88374f2f9b9a1280f2336d61194315b9e11108a860c9cec"


@pytest.mark.parametrize(
    ("field", "wrong"),
    [
        ("number", -1), ("number", 2**64), ("number", "3"), ("number", True), ("number", None), ("time", -1),
        ("time", 2**64), ("time", "1000"), ("parent", 1), ("parent", "0"), ("parent", "zz"), ("parent", "AB" * 32),
        ("parent", "01 " * 32), ("results", 1), ("results", None), ("results", "0"), ("results", "AB" * 32),
        ("results", []), ("transactions", None), ("transactions", [1]), ("transactions", [[]]),
        ("transactions", {"a": 1}), ("transactions", [["nonce", "to", "data", "signature"]]),
        ("transactions", [[0, "", "", "", ""]]), ("transactions", [[0, "", ""]]),
        ("transactions", [{"nonce": 0, "to": "", "data": "", "signature": ""}]), ("balances", [["00", 1]]),
        ("balances", [["00", 1, 2, 3]]), ("balances", [["00", 1, True]]), ("balances", [["00", "1", 2]]),
        ("balances", [["AB", 1, 2]]), ("balances", 5),
    ],
)  # fmt: skip
def test_malformed_block_is_tampered(field: str, wrong: object):
    with pytest.raises(Tampered) as refusal:
        Block.from_canonical_json(sealed_line({**body(), field: wrong}), 5, 3)
    assert refusal.value.block == 3


@pytest.mark.parametrize(
    ("place", "wrong"),
    [
        (0, -1), (0, 2**64), (0, True), (0, "0"), (0, None), (0, []), (1, "0x"), (1, TO[:-1]), (1, None),
        (1, TO.upper()), (1, TO + "\n"), (1, "zz"), (1, 5), (2, "0"), (2, None), (2, 5), (2, "0 0"), (2, "AB"),
        (2, "0x02"), (3, "0x00"), (3, None), (3, "0"), (3, []), (3, "AB" * 65), (3, " "),
    ],
)  # fmt: skip
def test_malformed_transaction_is_tampered(place: int, wrong: object):
    plain = body()
    plain["transactions"][0][place] = wrong
    with pytest.raises(Tampered) as refusal:
        Block.from_canonical_json(sealed_line(plain), 5, 3)
    assert refusal.value.block == 3


@pytest.mark.parametrize(
    "line",
    [
        "", "{}", "[]", "null", to_canonical_json({"block": {}}), to_canonical_json({"signature": ""}),
        to_canonical_json({"block": {}, "signature": ""}), sealed_line(None), sealed_line([]), sealed_line("x"),
        sealed_line({**body(), "more": 1}), sealed_line({k: v for k, v in body().items() if k != "results"}),
        sealed_line(body(), "0"), sealed_line(body(), "zz"), sealed_line(body(), "AB" * 65), sealed_line(body()) + " ",
        sealed_line(body()) + "\n", " " + sealed_line(body()), sealed_line(body())[:-1], json.dumps(body()),
        to_canonical_json(body()), json.dumps({"block": body(), "signature": "00" * 65}),
        sealed_line(body()).replace('"block":', '"block": '),
        sealed_line(body()).replace(',"signature"', ', "signature"'),
        sealed_line(body()).replace('"number":3', '"number":3,"number":3'),
        sealed_line(body()).replace('"number":3', '"number":3.0'), sealed_line(body()).replace(":3,", ": 3,"),
        '{"signature":"' + "00" * 65 + '","block":' + to_canonical_json(body()) + "}",
    ],
)  # fmt: skip
def test_other_lines_are_tampered(line: str):
    with pytest.raises(Tampered) as refusal:
        Block.from_canonical_json(line, 5, 3)
    assert refusal.value.block == 3


def test_a_block_without_a_seal_reads_and_has_no_sealer():
    block = Block.from_canonical_json(sealed_line(body(), ""), 5, 3)
    with pytest.raises(Tampered, match="malformed"):
        block.recover_sealer()


# -- results ---------------------------------------------------------------------------------------


@given(results, results)
@settings(max_examples=200)
def test_results_digest_tells_results_apart(one: list[tuple[Log, ...]], other: list[tuple[Log, ...]]):
    assert (results_digest(one) == results_digest(other)) == (one == other)


@given(results.filter(lambda found: any(found)), st.data())
@settings(max_examples=200)
def test_results_digest_covers_every_bit_and_boundary(found: list[tuple[Log, ...]], data: st.DataObject):
    """A bit, a length, a topic moved into the data, a log moved to the next transaction."""
    place = data.draw(st.sampled_from([n for n, logged in enumerate(found) if logged]))
    topics, payload = found[place][0]
    rest = found[place][1:]
    others: list[list[tuple[Log, ...]]] = [
        [*found[:place], ((topics[:-1], topics[-1] + payload), *rest), *found[place + 1 :]],
        [*found[:place], ((topics, payload + b"\0"), *rest), *found[place + 1 :]],
        [*found[:place], ((topics, payload), (topics, payload), *rest), *found[place + 1 :]],
        [*found[:place], rest, *found[place + 1 :]],
        [*found[:place], ((topics, payload),), rest, *found[place + 1 :]],
        [*found, ()],
    ]
    if payload:
        bit = data.draw(st.integers(0, len(payload) * 8 - 1))
        flipped = bytearray(payload)
        flipped[bit // 8] ^= 1 << bit % 8
        others.append([*found[:place], ((topics, bytes(flipped)), *rest), *found[place + 1 :]])
    digest = results_digest(found)
    assert all(results_digest(other) != digest for other in others if other != found)


def test_results_digest_is_stable():
    """Like the line: part of the format."""
    assert results_digest([]) == keccak(b"noisebank results\n")
    spelled = bytes([0, 0, 0, 1, 2, 0, 0, 0, 3]) + b"\x01" * 32 + b"\x02" * 32 + b"abc" + bytes(4)
    found = results_digest([(((b"\x01" * 32, b"\x02" * 32), b"abc"),), ()])
    assert found == keccak(b"noisebank results\n", spelled)


# -- the first line --------------------------------------------------------------------------------


@given(chain_id=number, sealer=address, created=number)
def test_first_line_reads_back(chain_id: int, sealer: str, created: int):
    genesis = Genesis(chain_id, sealer, created)
    assert Genesis.from_canonical_json(genesis.to_canonical_json()) == genesis
    assert json.loads(genesis.to_canonical_json())["format"] == FORMAT


@pytest.mark.parametrize(
    "line",
    [
        "", "{}", "[]", "null", "x", '{"chain_id":1}',
        *('{"chain_id":' + wrong + ',"created":1,"format":"noisebank journal 2","sealer":"0x00"}'
          for wrong in
          ["Infinity", "-Infinity", "NaN", "-1", "1.0", "1e3", "true", "null", '"1"', "[]", " 1", str(2**64)]),
        *('{"chain_id":1,"created":' + wrong + ',"format":"noisebank journal 2","sealer":"0x00"}'
          for wrong in ["Infinity", "-1", "1.0", "null", str(2**64)]),
        '{"chain_id":1,"created":1,"format":"noisebank journal 1","sealer":"0x00"}',
        '{"chain_id":1,"created":1,"format":"noisebank journal 2","sealer":5}',
        '{"chain_id":1,"created":1,"format":"noisebank journal 2","sealer":"0x00","more":1}',
        '{"created":1,"chain_id":1,"format":"noisebank journal 2","sealer":"0x00"}',
    ],
)  # fmt: skip
def test_other_first_lines_are_tampered(line: str):
    with pytest.raises(Tampered):
        Genesis.from_canonical_json(line)
