"""Blocks: one spelling, one digest, one sealer."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from noisebank.digests import canonical, keccak
from noisebank.errors import Tampered
from noisebank.ledger.block import FORMAT, Block, Executed, Genesis
from noisebank.ledger.machine import Event
from noisebank.ledger.signing import Transaction
from support import CURATOR, OWNER

TO = "0x" + "35" * 20
word = st.binary(min_size=32, max_size=32)
number = st.integers(0, 2**64 - 1)
amount = st.integers(0, 2**256 - 1)
address = st.binary(min_size=20, max_size=20).map(lambda raw: "0x" + raw.hex())
events = st.builds(
    Event, st.text(max_size=9), st.dictionaries(st.text(max_size=5), word | amount | address, max_size=4)
)
transactions = st.builds(
    Transaction, st.just(5), number, st.just("") | address, st.binary(max_size=40), st.binary(min_size=65, max_size=65)
)
blocks = st.builds(
    Block,
    number=number,
    parent=word,
    time=number,
    executed=st.lists(st.builds(Executed, transactions, st.lists(events, max_size=2).map(tuple)), max_size=3).map(
        tuple
    ),
    balances=st.lists(st.tuples(word, amount, amount), max_size=3).map(tuple),
    signature=st.binary(min_size=65, max_size=65),
)
BLOCK = Block(3, b"\x01" * 32, 1_000, (Executed(Transaction(5, 0, TO, b"\x02").signed(OWNER), ()),), ()).sealed(CURATOR)


@given(blocks)
@settings(deadline=None)
def test_block_reads_back_from_its_line(block: Block):
    assert Block.read(block.line(), 5, block.number) == block
    assert "\n" not in block.line() and block.line().isascii()


@given(blocks, blocks)
@settings(deadline=None, max_examples=50)
def test_digest_tells_blocks_apart_and_ignores_the_seal(one: Block, other: Block):
    unsealed = replace(one, signature=b""), replace(other, signature=b"")
    assert (one.digest == other.digest) == (unsealed[0] == unsealed[1])
    assert replace(one, signature=b"").digest == one.digest


def test_digest_is_of_a_tagged_canonical_text():
    body = {name: value for name, value in json.loads(BLOCK.line()).items() if name != "signature"}
    assert BLOCK.digest == keccak(b"noisebank block 1\n" + canonical(body).encode())


def test_seal_names_its_sealer():
    assert BLOCK.sealer() == CURATOR.address
    assert replace(BLOCK, time=1_001).sealer() != CURATOR.address
    with pytest.raises(Tampered):
        replace(BLOCK, signature=b"").sealer()


def test_line_is_stable():
    """Old journals must read for ever: this text may only change with a new format."""
    unsigned = Executed(
        Transaction(5, 1, TO, b"\x02", b"\x03" * 65), (Event("E", {"a": b"\x04" * 32, "b": 6, "c": TO}),)
    )
    block = Block(3, b"\x01" * 32, 1_000, (unsigned,), ((b"\x07" * 32, 8, 9),), b"\x0a" * 65)
    assert block.line() == (
        '{"balances":[["' + "07" * 32 + '",8,9]],"number":3,"parent":"' + "01" * 32 + '","signature":"' + "0a" * 65
        + '","time":1000,"transactions":[{"data":"02","events":[["E",{"a":"' + "04" * 32 + '","b":6,"c":"' + TO
        + '"}]],"nonce":1,"signature":"' + "03" * 65 + '","to":"' + TO + '"}]}'
    )  # fmt: skip
    assert block.digest.hex() == "9c755624d6fa9f97b13a528e7cf5f06f742ac62407e46bffde1d1ddee5604f4e"


@pytest.mark.parametrize(
    ("field", "wrong"),
    [
        ("number", -1), ("number", 2**64), ("number", "3"), ("number", True), ("number", None), ("time", -1),
        ("time", 2**64), ("parent", 1), ("parent", "0"), ("parent", "zz"), ("parent", "AB" * 32),
        ("parent", "01 " * 32), ("transactions", None),
        ("transactions", [1]), ("transactions", [[]]), ("transactions", {"a": 1}),
        ("transactions", [["nonce", "to", "data", "signature", "events"]]), ("balances", [["00", 1]]),
        ("balances", [["00", 1, True]]), ("balances", [["00", "1", 2]]), ("balances", 5), ("signature", 5),
    ],
)  # fmt: skip
def test_malformed_block_is_tampered(field: str, wrong: object):
    line = canonical({**json.loads(BLOCK.line()), field: wrong})
    with pytest.raises(Tampered) as refusal:
        Block.read(line, 5, 3)
    assert refusal.value.block == 3


@pytest.mark.parametrize(
    ("field", "wrong"),
    [
        ("nonce", -1), ("nonce", 2**64), ("nonce", True), ("nonce", "0"), ("to", "0x"), ("to", TO[:-1]), ("to", None),
        ("to", TO.upper()), ("to", TO + "\n"), ("to", "zz"), ("data", "0"), ("data", None), ("signature", "0x00"),
        ("events", None), ("events", [["E"]]), ("events", [["E", []]]), ("events", [["E", {"a": True}]]),
        ("events", [["E", {"a": None}]]), ("events", [["E", {"a": [1]}]]), ("events", [["E", {"a": "zz"}]]),
        ("events", [[1, {}]]),
    ],
)  # fmt: skip
def test_malformed_transaction_is_tampered(field: str, wrong: object):
    plain = json.loads(BLOCK.line())
    plain["transactions"][0][field] = wrong
    with pytest.raises(Tampered) as refusal:
        Block.read(canonical(plain), 5, 3)
    assert refusal.value.block == 3


@given(chain_id=number, sealer=address, created=number)
def test_first_line_reads_back(chain_id: int, sealer: str, created: int):
    genesis = Genesis(chain_id, sealer, created)
    assert Genesis.read(genesis.line()) == genesis
    assert json.loads(genesis.line())["format"] == FORMAT


@pytest.mark.parametrize(
    "line",
    [
        "", "{}", "[]", "null", "x", '{"chain_id":1}',
        *('{"chain_id":' + wrong + ',"created":1,"format":"noisebank journal 1","sealer":"0x00"}'
          for wrong in
          ["Infinity", "-Infinity", "NaN", "-1", "1.0", "1e3", "true", "null", '"1"', "[]", " 1", str(2**64)]),
        *('{"chain_id":1,"created":' + wrong + ',"format":"noisebank journal 1","sealer":"0x00"}'
          for wrong in ["Infinity", "-1", "1.0", "null", str(2**64)]),
        '{"chain_id":1,"created":1,"format":"noisebank journal 2","sealer":"0x00"}',
        '{"chain_id":1,"created":1,"format":"noisebank journal 1","sealer":5}',
        '{"chain_id":1,"created":1,"format":"noisebank journal 1","sealer":"0x00","more":1}',
        '{"created":1,"chain_id":1,"format":"noisebank journal 1","sealer":"0x00"}',
    ],
)  # fmt: skip
def test_other_first_lines_are_tampered(line: str):
    with pytest.raises(Tampered):
        Genesis.read(line)
