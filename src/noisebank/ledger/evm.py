"""The EVM that executes the contract's real bytecode, embedded (pyrevm)."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from pyrevm import EVM, BlockEnv, CfgEnv, Env

from noisebank.core.errors import LedgerRefused
from noisebank.ledger.abi import Contract, Value

NOBODY = "0x" + "00" * 20
REVERTED = re.compile(r"output: 0x08c379a0([0-9a-f]*)")
Log = tuple[tuple[bytes, ...], bytes]
"""What the contract logged, undecoded: topics and data."""


@dataclass(frozen=True, slots=True)
class Event:
    """Something that the contract logged."""

    name: str
    arguments: dict[str, Value]


class Machine:
    """One contract and its state. pyrevm checks neither signatures nor nonces: `replay` does."""

    def __init__(self, contract: Contract, chain_id: int) -> None:
        self.contract = contract
        self._evm = EVM(env=Env(cfg=CfgEnv(chain_id=chain_id)), spec_id="CANCUN")

    def at(self, number: int, time: int) -> None:
        """Sets the block in which the next calls execute."""
        self._evm.set_block_env(BlockEnv(number=number, timestamp=time))

    def deploy(self, sender: str, initcode: bytes) -> str:
        """Creates the contract; returns its address."""
        return str(self._evm.deploy(sender, initcode)).lower()

    def execute(self, sender: str, to: str, data: bytes) -> tuple[Log, ...]:
        """Runs one call and keeps its effects. `LedgerRefused` if it reverts: then nothing changed."""
        try:
            self._evm.message_call(sender, to, data)
        except RuntimeError as error:
            raise LedgerRefused(_reason(str(error))) from None
        found = []
        result = self._evm.result
        for entry in result.logs if result is not None else ():
            topics, payload = entry.data
            found.append((tuple(topics), payload))
        return tuple(found)

    def peek(self, sender: str, to: str, data: bytes) -> bytes:
        """What a call would return; nothing of it stays. `LedgerRefused` if it would revert."""
        before = self._evm.snapshot()
        try:
            return bytes(self._evm.message_call(sender, to, data))
        except RuntimeError as error:
            raise LedgerRefused(_reason(str(error))) from None
        finally:
            self._evm.revert(before)

    def view(self, to: str, function: str, *arguments: Value) -> tuple[Value, ...]:
        """Asks the contract without changing anything."""
        output = self._evm.message_call(NOBODY, to, self.contract.call(function, *arguments), is_static=True)
        return self.contract.decode_output(function, output)

    def code(self, address: str) -> bytes:
        """The code at an address."""
        return bytes(self._evm.get_code(address) or b"").rstrip(b"\x00")


def events(contract: Contract, logs: Iterable[Log]) -> tuple[Event, ...]:
    """Logs in words."""
    return tuple(Event(*contract.decode_event(topics, payload)) for topics, payload in logs)


def _reason(message: str) -> str:
    """The contract's own words in a revert, or why there are none."""
    found = REVERTED.search(message)
    if not found:
        return f"ledger: the call failed ({message[:80]})"
    raw = bytes.fromhex(found.group(1))
    length = int.from_bytes(raw[32:64], "big")
    return raw[64 : 64 + length].decode("utf-8", "replace")
