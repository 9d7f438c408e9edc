"""ABI encoding and decoding of contract calls, outputs and events.

Only what our contracts use: words of 32 bytes, lists of structs of words, and short strings. A
general library does the same about thirty times slower, and replaying a journal is mostly this.
"""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from importlib.resources import files
from typing import Any

from noisebank.core.digests import keccak

ADDRESS = re.compile(r"0x[0-9a-fA-F]{40}")
MOST_ITEMS = 2**16
"""Most items in one list; calldata that claims more is malformed."""
Word = int | bytes | str | bool
"""uint256, bytes32, address (0x...) and bool."""
Value = Word | tuple[tuple[Word, ...], ...]
"""A word, a string, or a list of structs."""
_READ: dict[str, Callable[[bytes], Word]] = {
    "bytes32": lambda word: word,
    "address": lambda word: "0x" + word[12:].hex(),
    "bool": lambda word: word[-1] == 1,
    "uint256": int.from_bytes,  # big-endian unless said otherwise, since Python 3.11
}


@dataclass(frozen=True, slots=True)
class Kind:
    """The ABI type of an argument. `fields` are the word types of a list's structs, else empty."""

    text: str
    fields: tuple[str, ...] = ()
    dynamic: bool = field(init=False)
    """Whether the head holds only an offset into the tail."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "dynamic", bool(self.fields) or self.text == "string")


@dataclass(frozen=True)
class Signature:
    """A function or an event: names and types of its arguments, in order."""

    name: str
    inputs: tuple[tuple[str, Kind], ...]
    indexed: tuple[bool, ...]
    outputs: tuple[Kind, ...]

    @cached_property
    def kinds(self) -> tuple[Kind, ...]:
        """Types of the arguments."""
        return tuple(kind for _, kind in self.inputs)

    @cached_property
    def plain(self) -> tuple[Kind, ...]:
        """Types of the event arguments that are in the log's data (not indexed)."""
        return tuple(kind for (_, kind), indexed in zip(self.inputs, self.indexed, strict=True) if not indexed)

    @cached_property
    def hot(self) -> tuple[Callable[[bytes], Word], ...]:
        """Decoders of the event arguments that are in the log's topics (indexed); always the first arguments."""
        return tuple(_READ[kind.text] for (_, kind), indexed in zip(self.inputs, self.indexed, strict=True) if indexed)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Names of the arguments."""
        return tuple(name for name, _ in self.inputs)

    @cached_property
    def digest(self) -> bytes:
        """keccak of the canonical signature: an event's topic; its first four bytes are a function's selector."""
        return keccak(f"{self.name}({','.join(kind.text for _, kind in self.inputs)})".encode())


@dataclass(frozen=True)
class Contract:
    """A compiled contract: its bytecode and its ABI."""

    name: str
    initcode: bytes
    runtime: bytes
    functions: Mapping[str, Signature]
    events: Mapping[bytes, Signature]

    @cached_property
    def _selectors(self) -> dict[bytes, Signature]:
        return {signature.digest[:4]: signature for signature in self.functions.values()}

    def call(self, function: str, *arguments: Value) -> bytes:
        """Returns the calldata of a function call."""
        signature = self.functions[function]
        if len(arguments) != len(signature.inputs):
            raise TypeError(f"{function} takes {len(signature.inputs)} arguments, got {len(arguments)}")
        return signature.digest[:4] + encoded(signature.kinds, arguments)

    def decode_call(self, calldata: bytes) -> tuple[str, dict[str, Value]]:
        """Returns the function's name and arguments. ValueError if the contract has no such function, or if the
        calldata is not in canonical form."""
        signature = self._selectors.get(calldata[:4])
        if signature is None:
            raise ValueError("no such function")
        values = decoded(signature.kinds, calldata[4:])
        if encoded(signature.kinds, values) != calldata[4:]:
            raise ValueError(f"{signature.name}: the calldata is not in canonical form")
        return signature.name, dict(zip(signature.names, values, strict=True))

    def decode_output(self, function: str, output: bytes) -> tuple[Value, ...]:
        """Returns the values that a call returned."""
        return decoded(self.functions[function].outputs, output)

    def decode_event(self, topics: Sequence[bytes], data: bytes) -> tuple[str, dict[str, Value]]:
        """Returns an event's name and its arguments, in the order of its declaration."""
        signature, values = self.event_values(topics, data)
        return signature.name, dict(zip(signature.names, values, strict=True))

    def event_values(self, topics: Sequence[bytes], data: bytes) -> tuple[Signature, tuple[Value, ...]]:
        """Returns an event's signature and bare values: for callers that know the order and read millions of logs."""
        signature = self.events[topics[0]]
        indexed = [decode(topic) for decode, topic in zip(signature.hot, topics[1:], strict=True)]
        return signature, (*indexed, *decoded(signature.plain, data))


@cache
def budget_ledger() -> Contract:
    """The compiled `contracts/budget_ledger.vy`; a test recompiles it."""
    return load_contract(json.loads(files("noisebank.ledger").joinpath("budget_ledger.json").read_text()))


@cache
def anchors() -> Contract:
    """The compiled `contracts/anchors.vy`."""
    return load_contract(json.loads(files("noisebank.ledger").joinpath("anchors.json").read_text()))


@cache
def model_registry() -> Contract:
    """The compiled `contracts/model_registry.vy`."""
    return load_contract(json.loads(files("noisebank.ledger").joinpath("model_registry.json").read_text()))


def load_contract(artefact: Mapping[str, Any]) -> Contract:
    """Builds a contract from its compiled artefact."""
    functions, events = {}, {}
    for entry in artefact["abi"]:
        signature = _signature(entry)
        if entry["type"] == "function":
            functions[signature.name] = signature
        elif entry["type"] == "event":
            events[signature.digest] = signature
    return Contract(
        name=artefact["name"],
        initcode=bytes.fromhex(artefact["initcode"]),
        runtime=bytes.fromhex(artefact["runtime"]),
        functions=functions,
        events=events,
    )


def encoded(kinds: Sequence[Kind], values: Sequence[Value]) -> bytes:
    """Encodes values in the specification's only canonical layout: all heads, then all tails."""
    heads, tails, offset = [], [], 32 * len(kinds)
    for kind, value in zip(kinds, values, strict=True):
        if kind.dynamic:
            tail = _tail(kind, value)
            heads.append(offset.to_bytes(32, "big"))
            tails.append(tail)
            offset += len(tail)
        else:
            heads.append(_WRITE[kind.text](value))
    return b"".join(heads + tails)


def decoded(kinds: Sequence[Kind], data: bytes) -> tuple[Value, ...]:
    """Returns the values in `data`. ValueError if it is too short."""
    return tuple(
        [
            _untail(kind, data, int.from_bytes(word, "big")) if kind.dynamic else _READ[kind.text](word)
            for kind, word in zip(kinds, _words(data, 0, len(kinds)), strict=True)
        ]
    )


def _tail(kind: Kind, value: Value) -> bytes:
    if kind.text == "string":
        if not isinstance(value, str):
            raise TypeError(f"{value!r} is no string")
        raw = value.encode()
        return len(raw).to_bytes(32, "big") + raw + bytes(-len(raw) % 32)
    if not isinstance(value, tuple):
        raise TypeError(f"{value!r} is no list")
    words = [len(value).to_bytes(32, "big")]
    encoders = [_WRITE[field] for field in kind.fields]
    for item in value:
        words += [encode(word) for encode, word in zip(encoders, item, strict=True)]
    return b"".join(words)


def _untail(kind: Kind, data: bytes, offset: int) -> Value:
    length = _number(data, offset)
    start = offset + 32
    if kind.text == "string":
        if start + length > len(data):
            raise ValueError("a string is cut off")
        return bytes(data[start : start + length]).decode("utf-8", "replace")
    if length > MOST_ITEMS:
        raise ValueError("a list is too long")
    return tuple(_structs(kind.fields, data, start, length))


def _structs(fields: tuple[str, ...], data: bytes, start: int, length: int) -> Iterator[tuple[Word, ...]]:
    decoders, size = [_READ[kind] for kind in fields], 32 * len(fields)
    for offset in range(start, start + length * size, size):
        words = _words(data, offset, len(fields))
        yield tuple([decode(word) for decode, word in zip(decoders, words, strict=True)])


def _signature(entry: dict[str, Any]) -> Signature:
    indexed = tuple(bool(argument.get("indexed")) for argument in entry.get("inputs", ()))
    if list(indexed) != sorted(indexed, reverse=True):
        raise ValueError(f"{entry['name']}: indexed arguments come first, or logs would have to be sorted")
    return Signature(
        name=entry.get("name", ""),
        inputs=tuple((argument["name"], _kind(argument)) for argument in entry.get("inputs", ())),
        indexed=indexed,
        outputs=tuple(_kind(part) for output in entry.get("outputs", ()) for part in _parts(output)),
    )


def _parts(output: dict[str, Any]) -> list[dict[str, Any]]:
    """Returns the fields of a returned struct, which the ABI encodes as if they were separate outputs."""
    return list(output["components"]) if output["type"] == "tuple" else [output]


def _kind(argument: dict[str, Any]) -> Kind:
    if argument["type"] == "tuple[]":
        fields = tuple(field["type"] for field in argument["components"])
        return Kind(f"({','.join(fields)})[]", fields)
    return Kind(argument["type"])


def _number_word(value: object) -> bytes:
    if type(value) is not int:
        raise TypeError(f"{value!r} is no uint256")
    return value.to_bytes(32, "big")


def _bytes_word(value: object) -> bytes:
    if not isinstance(value, bytes) or len(value) != 32:
        raise TypeError(f"{value!r} is no bytes32")
    return value


def _address_word(value: object) -> bytes:
    if not isinstance(value, str) or not ADDRESS.fullmatch(value):
        raise TypeError(f"{value!r} is no address")
    return bytes(12) + bytes.fromhex(value.removeprefix("0x"))


def _bool_word(value: object) -> bytes:
    if not isinstance(value, bool):
        raise TypeError(f"{value!r} is no bool")
    return int(value).to_bytes(32, "big")


_WRITE: dict[str, Callable[[object], bytes]] = {
    "bytes32": _bytes_word,
    "address": _address_word,
    "bool": _bool_word,
    "uint256": _number_word,
}


def _number(data: bytes, offset: int) -> int:
    return int.from_bytes(_words(data, offset, 1)[0], "big")


def _words(data: bytes, offset: int, count: int) -> tuple[bytes, ...]:
    try:
        return _layout(count).unpack_from(data, offset)
    except (struct.error, OverflowError):  # an offset that no memory has
        raise ValueError("a word has 32 bytes") from None


@cache
def _layout(words: int) -> struct.Struct:
    return struct.Struct("32s" * words)
