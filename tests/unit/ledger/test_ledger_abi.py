"""Calls and events as bytes, against what every Ethereum tool knows."""

from __future__ import annotations

from typing import Any

import pytest
from eth_abi import decode as eth_decode
from eth_abi import encode as eth_encode
from hypothesis import given, settings
from hypothesis import strategies as st

from noisebank.ledger.abi import (
    MAX_LIST_ITEMS,
    AbiType,
    Contract,
    Signature,
    budget_ledger,
    decode_values,
    encode_values,
    load_contract,
)

ADDRESS = "0x9d8a62f656a8d1615c1294fd71e9cfb3e4855a4f"
WORD, NUMBER, FLAG, WHO, TEXT = (AbiType(text) for text in ("bytes32", "uint256", "bool", "address", "string"))
PAIRS = AbiType("(uint256,bool)[]", ("uint256", "bool"))
transfer = Signature("transfer", (("to", WHO), ("amount", NUMBER)), (False, False), (FLAG,))
moved = Signature("Transfer", (("from", WHO), ("to", WHO), ("amount", NUMBER)), (True, True, False), ())
listing = Signature("listing", (("name", TEXT), ("pairs", PAIRS), ("last", WORD)), (False, False, False), ())
TOKEN = Contract("token", b"", b"", {"transfer": transfer, "listing": listing}, {moved.digest: moved})
LEDGER = budget_ledger()

words = {
    "uint256": st.integers(0, 2**256 - 1),
    "bytes32": st.binary(min_size=32, max_size=32),
    "address": st.binary(min_size=20, max_size=20).map(lambda raw: "0x" + raw.hex()),
    "bool": st.booleans(),
    "string": st.text(st.characters(exclude_categories=["Cs"]), max_size=70),
}
kinds = st.one_of(
    st.sampled_from(sorted(words)).map(AbiType),
    st.lists(st.sampled_from(["uint256", "bytes32", "address", "bool"]), min_size=1, max_size=4).map(
        lambda fields: AbiType(f"({','.join(fields)})[]", tuple(fields))
    ),
)


def values_of(kind: AbiType) -> st.SearchStrategy[Any]:
    if kind.fields:
        return st.lists(st.tuples(*(words[field] for field in kind.fields)), max_size=4).map(tuple)
    return words[kind.name]


def in_words(data: bytes) -> list[bytes]:
    assert len(data) % 32 == 0
    return [data[place : place + 32] for place in range(0, len(data), 32)]


def number(value: int) -> bytes:
    return value.to_bytes(32, "big")


# -- against others -------------------------------------------------------------------------------


def test_selectors_and_topics_are_those_of_erc20():
    assert transfer.digest[:4].hex() == "a9059cbb"
    assert moved.digest.hex() == "ddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef"


def test_calldata_is_the_selector_and_words():
    calldata = TOKEN.encode_call("transfer", ADDRESS, 258)
    assert calldata.hex() == "a9059cbb" + "00" * 12 + ADDRESS[2:] + "00" * 30 + "0102"


def test_event_is_read_from_topics_and_data():
    topics = [moved.digest, bytes(12) + bytes.fromhex(ADDRESS[2:]), bytes(12) + b"\x11" * 20]
    name, arguments = TOKEN.decode_event(topics, number(7))
    assert name == "Transfer"
    assert arguments == {"from": ADDRESS, "to": "0x" + "11" * 20, "amount": 7}


def test_lists_and_strings_lie_behind_the_heads():
    """By hand, word by word, from the specification."""
    data = TOKEN.encode_call("listing", "abc", ((5, True), (6, False)), b"\x07" * 32)[4:]
    assert in_words(data) == [
        number(96),  # where the string begins
        number(160),  # where the list begins
        b"\x07" * 32,
        number(3),
        b"abc" + bytes(29),
        number(2),
        number(5),
        number(1),
        number(6),
        number(0),
    ]


@pytest.mark.parametrize(("text", "size"), [("", 1), ("a" * 31, 2), ("a" * 32, 2), ("a" * 33, 3), ("ä" * 16, 2)])
def test_strings_are_padded_to_whole_words(text: str, size: int):
    data = encode_values([TEXT], [text])
    assert len(in_words(data)) == 1 + size
    assert decode_values([TEXT], data) == (text,)
    assert data == eth_encode(["string"], [text])


@given(st.data())
@settings(max_examples=300)
def test_encoding_is_that_of_eth_abi(data: st.DataObject):
    types = data.draw(st.lists(kinds, max_size=5))
    values = tuple(data.draw(values_of(kind)) for kind in types)
    texts = [kind.name for kind in types]
    raw = encode_values(types, values)
    assert raw == eth_encode(texts, values)
    assert decode_values(types, raw) == tuple(eth_decode(texts, raw)) == values


@pytest.mark.parametrize("function", sorted(LEDGER.functions))
@given(data=st.data())
@settings(max_examples=30)
def test_calls_read_back_and_are_those_of_eth_abi(function: str, data: st.DataObject):
    inputs = LEDGER.functions[function].inputs
    arguments = {name: data.draw(values_of(kind)) for name, kind in inputs}
    call = LEDGER.encode_call(function, *arguments.values())
    assert LEDGER.decode_call(call) == (function, arguments)
    assert call[4:] == eth_encode([kind.name for _, kind in inputs], list(arguments.values()))


@pytest.mark.parametrize("event", sorted(LEDGER.events.values(), key=lambda event: event.name), ids=lambda e: e.name)
@given(data=st.data())
@settings(max_examples=30)
def test_events_read_back(event: Signature, data: st.DataObject):
    arguments = {name: data.draw(values_of(kind)) for name, kind in event.inputs}
    hot = [name for (name, _), indexed in zip(event.inputs, event.indexed, strict=True) if indexed]
    by_name = dict(event.inputs)
    topics = [encode_values([by_name[name]], [arguments[name]]) for name in hot]
    rest = {name: value for name, value in arguments.items() if name not in hot}
    payload = eth_encode([by_name[name].name for name in rest], list(rest.values()))
    read = LEDGER.decode_event([event.digest, *topics], payload)
    assert read == (event.name, arguments)
    assert list(read[1]) == [name for name, _ in event.inputs], "in the order of the declaration"


def test_every_event_names_its_account_first():
    """Balances and books rely on it."""
    for event in LEDGER.events.values():
        assert event.inputs[0] == ("account", WORD) and event.indexed[0], event.name


# -- only one spelling ----------------------------------------------------------------------------


CLAIMED = (b"\x01" * 32, b"\x02" * 32, b"\x03" * 32, 4, 5, 6, 7, 1, True)
CALLS = {
    "reserve": LEDGER.encode_call("reserve", b"\x09" * 32, (CLAIMED, CLAIMED), ((0, 4, 2**32), (4, 5, 1))),
    "publish": LEDGER.encode_call("publish", b"\x09" * 32, ((b"\x01" * 32, b"\x02" * 32, True),)),
    "set_limit": LEDGER.encode_call("set_limit", b"\x09" * 32, b"\x08" * 32, 7),
    "propose_owner": LEDGER.encode_call("propose_owner", b"\x09" * 32, ADDRESS),
    "open_account": LEDGER.encode_call("open_account", ADDRESS, 1, 7, b"\x01" * 32, b"\x02" * 32, 0),
}


@pytest.mark.parametrize("function", CALLS)
def test_no_bytes_may_be_missing_or_left_over(function: str):
    call = CALLS[function]
    assert LEDGER.decode_call(call)[0] == function
    for other in (*(call[:-cut] for cut in range(1, len(call) - 3)), call + b"\0", call + bytes(32)):
        with pytest.raises(ValueError):
            LEDGER.decode_call(other)


@pytest.mark.parametrize("function", CALLS)
def test_a_changed_word_is_another_call_or_none(function: str):
    """Whatever can be read means what it says: it spells the same bytes again."""
    call, seen = CALLS[function], set()
    for place in range(4, len(call)):
        for flip in (1, 0x80, 0xFF):
            other = bytearray(call)
            other[place] ^= flip
            try:
                name, arguments = LEDGER.decode_call(bytes(other))
            except ValueError:
                continue
            assert LEDGER.encode_call(name, *arguments.values()) == bytes(other)
            assert arguments != LEDGER.decode_call(call)[1]
            assert repr(arguments) not in seen
            seen.add(repr(arguments))
    assert seen


@given(st.data())
@settings(max_examples=200)
def test_random_bytes_are_one_call_or_a_value_error(data: st.DataObject):
    signature = data.draw(st.sampled_from(sorted(LEDGER.functions.values(), key=lambda each: each.name)))
    small = st.integers(0, 700).map(number)
    tail = b"".join(data.draw(st.lists(small | st.binary(min_size=32, max_size=32), max_size=20)))
    calldata = signature.digest[:4] + tail + data.draw(st.binary(max_size=3))
    try:
        name, arguments = LEDGER.decode_call(calldata)
    except ValueError:
        return
    assert LEDGER.encode_call(name, *arguments.values()) == calldata


def other_layouts() -> dict[str, bytes]:
    """Calldata that a lenient reader takes for the same `listing("abc", ((5, True),), 7...)`."""
    head, last = listing.digest[:4], b"\x07" * 32
    text, pairs = number(3) + b"abc" + bytes(29), number(1) + number(5) + number(1)
    front = head + number(96) + number(160) + last
    return {
        "tails the other way round": head + number(96 + 96) + number(96) + last + pairs + text,
        "a gap between the tails": head + number(96) + number(96 + 96) + last + text + bytes(32) + pairs,
        "a gap before the tails": head + number(128) + number(192) + last + bytes(32) + text + pairs,
        "letters after the string's end": front + number(3) + b"abcd" + bytes(28) + pairs,
        "a bool of 2": front + text + number(1) + number(5) + number(2),
        "a bool with more bits": front + text + number(1) + number(5) + number(257),
        "a byte too many": front + text + pairs + b"\0",
        "an offset beyond the end": head + number(96) + number(2**255) + last + text + pairs,
        "a list that is too long": front + text + number(2**255) + number(5) + number(1),
        "bytes that are no text": front + number(3) + b"\xff\xfe\xfd" + bytes(29) + pairs,
    }


def test_the_layout_that_the_others_differ_from_is_read():
    text, pairs = number(3) + b"abc" + bytes(29), number(1) + number(5) + number(1)
    calldata = listing.digest[:4] + number(96) + number(160) + b"\x07" * 32 + text + pairs
    assert TOKEN.decode_call(calldata) == ("listing", {"name": "abc", "pairs": ((5, True),), "last": b"\x07" * 32})


@pytest.mark.parametrize("layout", other_layouts())
def test_other_layouts_of_the_same_values_are_refused(layout: str):
    with pytest.raises(ValueError):
        TOKEN.decode_call(other_layouts()[layout])


def test_shared_tails_are_refused():
    """Two lists that are one and the same words: half the calldata for the same values."""
    call = CALLS["reserve"]
    empty = LEDGER.encode_call("reserve", b"\x09" * 32, (), ())
    shared = call[:4] + b"\x09" * 32 + number(96) + number(96) + number(0)
    assert len(shared) == len(empty) - 32
    with pytest.raises(ValueError, match="canonical"):
        LEDGER.decode_call(shared)


def test_an_address_has_no_bytes_in_front():
    call = bytearray(TOKEN.encode_call("transfer", ADDRESS, 1))
    call[4] = 1
    with pytest.raises(ValueError, match="canonical"):
        TOKEN.decode_call(bytes(call))


def test_a_list_that_claims_to_be_endless_costs_nothing():
    for length in (MAX_LIST_ITEMS + 1, 2**64, 2**256 - 1):
        with pytest.raises(ValueError, match="too long"):
            decode_values([PAIRS], number(32) + number(length))
    with pytest.raises(ValueError, match="32 bytes"):
        decode_values([PAIRS], number(32) + number(MAX_LIST_ITEMS))


# -- refusals -------------------------------------------------------------------------------------


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
        TOKEN.encode_call("transfer", *arguments)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "arguments",
    [
        (b"abc", (), bytes(32)),
        (5, (), bytes(32)),
        ("abc", None, bytes(32)),
        ("abc", "", bytes(32)),
        ("abc", [(1, True)], bytes(32)),
        ("abc", ((1, 1),), bytes(32)),
        ("abc", ((True, True),), bytes(32)),
        ("abc", (("1", True),), bytes(32)),
    ],
)
def test_wrong_strings_and_lists_are_refused(arguments: tuple[object, ...]):
    with pytest.raises(TypeError):
        TOKEN.encode_call("listing", *arguments)  # type: ignore[arg-type]


@pytest.mark.parametrize("item", [(), (1,), (1, True, 2)])
def test_structs_have_all_their_fields(item: tuple[object, ...]):
    with pytest.raises(ValueError):
        TOKEN.encode_call("listing", "abc", (item,), bytes(32))  # type: ignore[arg-type]


@pytest.mark.parametrize("value", [-1, 2**256])
def test_numbers_that_are_no_words_are_refused(value: int):
    with pytest.raises(OverflowError):
        TOKEN.encode_call("transfer", ADDRESS, value)
    with pytest.raises(OverflowError):
        TOKEN.encode_call("listing", "", ((value, True),), bytes(32))


@pytest.mark.parametrize("wrong", [b"", bytes(31), bytes(33), "00" * 32])
def test_digests_have_32_bytes(wrong: object):
    with pytest.raises(TypeError):
        LEDGER.encode_call("set_limit", bytes(32), wrong, 1)  # type: ignore[arg-type]


def test_unknown_function_is_refused():
    with pytest.raises(KeyError):
        TOKEN.encode_call("mint", 1)
    for calldata in (b"", b"\xa9\x05\x9c", b"\0\0\0\0" + bytes(64)):
        with pytest.raises(ValueError, match="no such function"):
            TOKEN.decode_call(calldata)


@pytest.mark.parametrize(("length", "why"), [(0, "32 bytes"), (63, "32 bytes"), (65, "canonical"), (96, "canonical")])
def test_calldata_of_the_wrong_length_is_refused(length: int, why: str):
    with pytest.raises(ValueError, match=why):
        TOKEN.decode_call(transfer.digest[:4] + bytes(length))


SHORT = {
    "nothing": b"",
    "half an offset": bytes(31),
    "no length": number(32),
    "no items": number(32) + number(1),
    "half an item": number(32) + number(32) + bytes(31),
    "an offset to nowhere": number(64),
}


@pytest.mark.parametrize("kind", [PAIRS, TEXT], ids=["list", "string"])
@pytest.mark.parametrize("data", SHORT)
def test_short_data_is_refused(kind: AbiType, data: str):
    with pytest.raises(ValueError):
        decode_values([kind], SHORT[data])


def test_short_output_is_refused():
    with pytest.raises(ValueError, match="32 bytes"):
        TOKEN.decode_output("transfer", bytes(31))


# -- artefacts ------------------------------------------------------------------------------------


def test_outputs_of_structs_and_tuples_are_flat():
    assert LEDGER.functions["money"].outputs == (NUMBER, NUMBER, NUMBER)
    assert LEDGER.functions["desk"].outputs == (WHO, NUMBER, NUMBER, FLAG)
    assert LEDGER.functions["record"].outputs == (NUMBER, NUMBER)
    assert LEDGER.decode_output("view_of", number(5) + number(6)) == (5, 6)
    assert LEDGER.decode_output("desk", bytes(12) + b"\x11" * 20 + number(2) + number(0) + number(1)) == (
        "0x" + "11" * 20, 2, 0, True
    )  # fmt: skip


def test_indexed_arguments_come_first():
    entry = {"type": "event", "name": "Odd", "inputs": [{"name": "a", "type": "uint256"}]}
    entry["inputs"].append({"name": "b", "type": "uint256", "indexed": True})
    with pytest.raises(ValueError, match="indexed arguments come first"):
        load_contract({"name": "odd", "initcode": "", "runtime": "", "abi": [entry]})


def test_an_artefact_becomes_functions_and_events():
    claims = {"name": "claims", "type": "tuple[]", "components": [{"type": "bytes32"}, {"type": "bool"}]}
    token = load_contract(
        {
            "name": "token",
            "initcode": "6001",
            "runtime": "60",
            "abi": [
                {"type": "function", "name": "take", "inputs": [claims], "outputs": []},
                {"type": "event", "name": "Taken", "inputs": [{"name": "by", "type": "address", "indexed": True}]},
                {"type": "constructor", "inputs": []},
            ],
        }
    )
    assert token.functions["take"].inputs == (("claims", AbiType("(bytes32,bool)[]", ("bytes32", "bool"))),)
    assert [event.name for event in token.events.values()] == ["Taken"]
    assert (token.initcode, token.runtime) == (b"\x60\x01", b"\x60")
    raw = eth_encode(["(bytes32,bool)[]"], [[(b"\x01" * 32, True)]])
    assert token.encode_call("take", ((b"\x01" * 32, True),))[4:] == raw
