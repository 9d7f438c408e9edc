"""Calls and events as bytes, against what every Ethereum tool knows."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from noisebank.ledger.abi import Contract, Signature, budget_ledger

ADDRESS = "0x9d8a62f656a8d1615c1294fd71e9cfb3e4855a4f"
transfer = Signature("transfer", (("to", "address"), ("amount", "uint256")), (False, False), ("bool",))
moved = Signature(
    "Transfer", (("from", "address"), ("to", "address"), ("amount", "uint256")), (True, True, False), ()
)  # fmt: skip
TOKEN = Contract("token", b"", b"", {"transfer": transfer}, {moved.digest: moved})

words = {
    "uint256": st.integers(0, 2**256 - 1),
    "bytes32": st.binary(min_size=32, max_size=32),
    "address": st.binary(min_size=20, max_size=20).map(lambda raw: "0x" + raw.hex()),
    "bool": st.booleans(),
}


def test_selectors_and_topics_are_those_of_erc20():
    assert transfer.digest[:4].hex() == "a9059cbb"
    assert moved.digest.hex() == "ddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef"


def test_calldata_is_the_selector_and_words():
    calldata = TOKEN.call("transfer", ADDRESS, 258)
    assert calldata.hex() == "a9059cbb" + "00" * 12 + ADDRESS[2:] + "00" * 30 + "0102"


def test_event_is_read_from_topics_and_data():
    topics = [moved.digest, bytes(12) + bytes.fromhex(ADDRESS[2:]), bytes(12) + b"\x11" * 20]
    name, arguments = TOKEN.decode_event(topics, (7).to_bytes(32, "big"))
    assert name == "Transfer"
    assert arguments == {"from": ADDRESS, "to": "0x" + "11" * 20, "amount": 7}


@pytest.mark.parametrize("function", sorted(budget_ledger().functions))
@given(data=st.data())
def test_calls_read_back(function: str, data: st.DataObject):
    contract = budget_ledger()
    inputs = contract.functions[function].inputs
    arguments = {name: data.draw(words[kind]) for name, kind in inputs}
    assert contract.decode_call(contract.call(function, *arguments.values())) == (function, arguments)


@pytest.mark.parametrize("event", sorted(budget_ledger().events.values(), key=lambda event: event.name))
@given(data=st.data())
def test_events_read_back(event: Signature, data: st.DataObject):
    arguments = {name: data.draw(words[kind]) for name, kind in event.inputs}
    echo = Signature("echo", event.inputs, event.indexed, ())
    encoder = replace(budget_ledger(), functions={"echo": echo})
    encoded = encoder.call("echo", *arguments.values())[4:]
    parts = [encoded[place : place + 32] for place in range(0, len(encoded), 32)]
    topics = [part for part, indexed in zip(parts, event.indexed, strict=True) if indexed]
    rest = b"".join(part for part, indexed in zip(parts, event.indexed, strict=True) if not indexed)
    assert budget_ledger().decode_event([event.digest, *topics], rest) == (event.name, arguments)


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        (ADDRESS,),
        (ADDRESS, 1, 2),
        (ADDRESS, "1"),
        (ADDRESS, True),
        (ADDRESS, 1.0),
        (ADDRESS, bytes(32)),
        (bytes(20), 1),
        (int(ADDRESS, 16), 1),
        (ADDRESS[:-2], 1),
        (ADDRESS + "00", 1),
        (ADDRESS[2:], 1),
        ("0x" + "zz" * 20, 1),
        ("", 1),
    ],
)
def test_wrong_arguments_are_refused(arguments: tuple[object, ...]):
    with pytest.raises(TypeError):
        TOKEN.call("transfer", *arguments)  # type: ignore[arg-type]


@pytest.mark.parametrize("number", [-1, 2**256])
def test_numbers_that_are_no_words_are_refused(number: int):
    with pytest.raises(OverflowError):
        TOKEN.call("transfer", ADDRESS, number)


@pytest.mark.parametrize("wrong", [b"", bytes(31), bytes(33), "00" * 32])
def test_digests_have_32_bytes(wrong: object):
    with pytest.raises(TypeError):
        budget_ledger().call("publish", bytes(32), bytes(32), wrong)  # type: ignore[arg-type]


def test_unknown_function_is_refused():
    with pytest.raises(KeyError):
        TOKEN.call("mint", 1)
    for calldata in (b"", b"\xa9\x05\x9c", b"\0\0\0\0" + bytes(64)):
        with pytest.raises(ValueError, match="no such function"):
            TOKEN.decode_call(calldata)


@pytest.mark.parametrize("length", [0, 63, 65, 96])
def test_calldata_of_the_wrong_length_is_refused(length: int):
    with pytest.raises(ValueError, match="wrong length"):
        TOKEN.decode_call(transfer.digest[:4] + bytes(length))


def test_short_output_is_refused():
    with pytest.raises(ValueError, match="32 bytes"):
        TOKEN.decode_output("transfer", bytes(31))


def test_outputs_of_structs_and_tuples_are_flat():
    contract = budget_ledger()
    assert contract.functions["reserve"].outputs == ("uint256", "uint256", "bytes32")
    assert contract.functions["accounts"].outputs[:4] == ("address", "address", "uint256", "uint256")
    assert contract.decode_output("records", (5).to_bytes(32, "big") + b"\x01" * 32) == (5, b"\x01" * 32)
