"""Calls and events of the contract as bytes, both ways. All its types are static: 32-byte words."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from noisebank.digests import keccak

ADDRESS = re.compile(r"0x[0-9a-fA-F]{40}")
Word = int | bytes | str | bool
"""uint256, bytes32, address (0x...) and bool."""


@dataclass(frozen=True, slots=True)
class Signature:
    """A function or an event: names and types of its arguments in order."""

    name: str
    inputs: tuple[tuple[str, str], ...]
    indexed: tuple[bool, ...]
    outputs: tuple[str, ...]

    @property
    def digest(self) -> bytes:
        """keccak of the canonical signature: the event topic; its first four bytes the selector."""
        return keccak(f"{self.name}({','.join(kind for _, kind in self.inputs)})".encode())


@dataclass(frozen=True)
class Contract:
    """A compiled contract: bytecode and how to talk to it."""

    name: str
    initcode: bytes
    runtime: bytes
    functions: Mapping[str, Signature]
    events: Mapping[bytes, Signature]

    def call(self, function: str, *arguments: Word) -> bytes:
        """Calldata."""
        signature = self.functions[function]
        if len(arguments) != len(signature.inputs):
            raise TypeError(f"{function} takes {len(signature.inputs)} arguments, got {len(arguments)}")
        words = (_word(kind, value) for (_, kind), value in zip(signature.inputs, arguments, strict=True))
        return signature.digest[:4] + b"".join(words)

    def decode_call(self, calldata: bytes) -> tuple[str, dict[str, Word]]:
        """The function's name and arguments; ValueError if it is none of this contract's."""
        for signature in self.functions.values():
            if signature.digest[:4] == calldata[:4]:
                if len(calldata) != 4 + 32 * len(signature.inputs):
                    raise ValueError(f"{signature.name}: wrong length of calldata")
                kinds = [kind for _, kind in signature.inputs]
                values = _unwords(kinds, calldata[4:])
                return signature.name, dict(zip((name for name, _ in signature.inputs), values, strict=True))
        raise ValueError("no such function")

    def decode_output(self, function: str, output: bytes) -> tuple[Word, ...]:
        """What a call returned."""
        return _unwords(self.functions[function].outputs, output)

    def decode_event(self, topics: list[bytes], data: bytes) -> tuple[str, dict[str, Word]]:
        """An event's name and arguments."""
        signature = self.events[topics[0]]
        named: dict[str, Word] = {}
        later = iter(topics[1:])
        offset = 0
        for (name, kind), indexed in zip(signature.inputs, signature.indexed, strict=True):
            if indexed:
                named[name] = _unword(kind, next(later))
            else:
                named[name] = _unword(kind, data[offset : offset + 32])
                offset += 32
        return signature.name, named


@cache
def budget_ledger() -> Contract:
    """The compiled `contracts/budget_ledger.vy`; a test recompiles it."""
    artefact = json.loads(files("noisebank.ledger").joinpath("budget_ledger.json").read_text())
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


def _signature(entry: dict[str, Any]) -> Signature:
    outputs: list[str] = []
    for output in entry.get("outputs", ()):
        parts = output.get("components", [output])
        outputs.extend(part["type"] for part in parts)
    return Signature(
        name=entry.get("name", ""),
        inputs=tuple((argument["name"], argument["type"]) for argument in entry.get("inputs", ())),
        indexed=tuple(bool(argument.get("indexed")) for argument in entry.get("inputs", ())),
        outputs=tuple(outputs),
    )


def _word(kind: str, value: Word) -> bytes:
    if kind == "uint256" and type(value) is int:
        return value.to_bytes(32, "big")
    if kind == "bytes32" and isinstance(value, bytes) and len(value) == 32:
        return value
    if kind == "address" and isinstance(value, str) and ADDRESS.fullmatch(value):
        return bytes(12) + bytes.fromhex(value.removeprefix("0x"))
    if kind == "bool" and isinstance(value, bool):
        return int(value).to_bytes(32, "big")
    raise TypeError(f"{value!r} is no {kind}")


def _unword(kind: str, word: bytes) -> Word:
    if len(word) != 32:
        raise ValueError("a word has 32 bytes")
    if kind == "bytes32":
        return word
    if kind == "address":
        return "0x" + word[12:].hex()
    if kind == "bool":
        return word[-1] == 1
    return int.from_bytes(word, "big")


def _unwords(kinds: tuple[str, ...] | list[str], data: bytes) -> tuple[Word, ...]:
    return tuple(_unword(kind, data[32 * i : 32 * i + 32]) for i, kind in enumerate(kinds))
