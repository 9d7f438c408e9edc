"""Blocks of the embedded chain and their one canonical spelling, a line of JSON each."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace
from typing import Any

from noisebank.digests import canonical, tagged
from noisebank.errors import Tampered
from noisebank.ledger.abi import Word
from noisebank.ledger.machine import Event
from noisebank.ledger.signing import Key, Transaction, recover

FORMAT = "noisebank journal 1"
ADDRESS_OR_NONE = re.compile(r"(0x[0-9a-f]{40})?")
MALFORMED = (TypeError, ValueError, KeyError, AttributeError, OverflowError, RecursionError)
"""Whatever reading a line can raise: all of it is tampering, and none of it may end a verifier."""


@dataclass(frozen=True, slots=True)
class Genesis:
    """The first line: which chain this is and whose key seals its blocks."""

    chain_id: int
    sealer: str
    created: int

    @property
    def digest(self) -> bytes:
        """The parent of block 0."""
        return tagged("genesis 1", self._plain())

    def line(self) -> str:
        """The canonical spelling."""
        return canonical(self._plain())

    def _plain(self) -> dict[str, Any]:
        return {"format": FORMAT, "chain_id": self.chain_id, "sealer": self.sealer, "created": self.created}

    @classmethod
    def read(cls, line: str) -> Genesis:
        """Reads its own spelling and no other."""
        plain = _parsed(line, {"format", "chain_id", "sealer", "created"}, None)
        try:
            genesis = cls(_number(plain["chain_id"]), str(plain["sealer"]), _number(plain["created"]))
            spelled = genesis.line()
        except MALFORMED:
            raise Tampered("the first line is malformed") from None
        if spelled != line:
            raise Tampered(f"the first line does not begin a {FORMAT!r}")
        return genesis


@dataclass(frozen=True, slots=True)
class Executed:
    """A transaction together with what the contract logged."""

    transaction: Transaction
    events: tuple[Event, ...]


@dataclass(frozen=True, slots=True)
class Block:
    """One group commit."""

    number: int
    parent: bytes
    time: int
    executed: tuple[Executed, ...]
    balances: tuple[tuple[bytes, int, int], ...]
    """(account, budget, spent) after the block, for each account that it touched."""
    signature: bytes = b""

    @property
    def digest(self) -> bytes:
        """Of everything but the signature; the next block's parent."""
        return tagged("block 1", self._plain())

    def sealed(self, key: Key) -> Block:
        """The same block, signed."""
        return replace(self, signature=key.sign(self.digest))

    def sealer(self) -> str:
        """Who signed it."""
        return recover(self.digest, self.signature)

    def line(self) -> str:
        """The canonical spelling, signature included."""
        return canonical({**self._plain(), "signature": self.signature.hex()})

    def _plain(self) -> dict[str, Any]:
        return {
            "number": self.number,
            "parent": self.parent.hex(),
            "time": self.time,
            "transactions": [_plain_transaction(done) for done in self.executed],
            "balances": [[account.hex(), budget, spent] for account, budget, spent in self.balances],
        }

    @classmethod
    def read(cls, line: str, chain_id: int, expected: int) -> Block:
        """Reads its own spelling and no other; `expected` names the block in errors."""
        plain = _parsed(line, {"number", "parent", "time", "transactions", "balances", "signature"}, expected)
        try:
            block = cls(
                number=_number(plain["number"]),
                parent=bytes.fromhex(plain["parent"]),
                time=_number(plain["time"]),
                executed=tuple(_read_transaction(entry, chain_id) for entry in plain["transactions"]),
                balances=tuple((bytes.fromhex(account), int(b), int(s)) for account, b, s in plain["balances"]),
                signature=bytes.fromhex(plain["signature"]),
            )
            spelled = block.line()
        except MALFORMED:
            raise Tampered("the block is malformed", expected) from None
        if spelled != line:
            raise Tampered("the block is not in canonical form", expected)
        return block


def _plain_transaction(done: Executed) -> dict[str, Any]:
    transaction = done.transaction
    return {
        "nonce": transaction.nonce,
        "to": transaction.to,
        "data": transaction.data.hex(),
        "signature": transaction.signature.hex(),
        "events": [
            [event.name, {name: _text(value) for name, value in event.arguments.items()}] for event in done.events
        ],
    }


def _read_transaction(entry: dict[str, Any], chain_id: int) -> Executed:
    if set(entry) != {"nonce", "to", "data", "signature", "events"}:
        raise ValueError("unknown fields")
    if not ADDRESS_OR_NONE.fullmatch(entry["to"]):
        raise ValueError("no address")
    data, signature = bytes.fromhex(entry["data"]), bytes.fromhex(entry["signature"])
    transaction = Transaction(chain_id, _number(entry["nonce"]), entry["to"], data, signature)
    events = tuple(
        Event(str(name), {argument: _value(value) for argument, value in arguments.items()})
        for name, arguments in entry["events"]
    )
    return Executed(transaction, events)


def _text(value: Word) -> int | str:
    """Words as JSON: integers as they are, 32 bytes without 0x, addresses with it."""
    if isinstance(value, bytes):
        return value.hex()
    return value


def _value(value: object) -> Word:
    if type(value) is int:
        return value
    if isinstance(value, str):
        return value if value.startswith("0x") else bytes.fromhex(value)
    raise ValueError("no word of an event")  # True would equal 1


def _number(value: object) -> int:
    """Numbers, times, nonces and chain ids fit 64 bits, or the machine could not take them."""
    if type(value) is not int or not 0 <= value < 2**64:
        raise ValueError("no number of 64 bits")
    return value


def _parsed(line: str, keys: set[str], block: int | None) -> dict[str, Any]:
    try:
        plain = json.loads(line)
    except (ValueError, RecursionError):
        raise Tampered("the line is not JSON", block) from None
    if not isinstance(plain, dict) or set(plain) != keys:
        raise Tampered("the line has unknown or missing fields", block)
    return plain
