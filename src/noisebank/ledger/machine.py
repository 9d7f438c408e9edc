"""The EVM that executes the contract's real bytecode, embedded (pyrevm)."""

from __future__ import annotations

import re
from dataclasses import dataclass

from pyrevm import EVM, BlockEnv, CfgEnv, Env

from noisebank.errors import LedgerRefused
from noisebank.ledger.abi import Contract, Word

NOBODY = "0x" + "00" * 20
REVERTED = re.compile(r"output: 0x08c379a0([0-9a-f]*)")


@dataclass(frozen=True, slots=True)
class Event:
    """Something that the contract logged."""

    name: str
    arguments: dict[str, Word]


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

    def execute(self, sender: str, to: str, data: bytes) -> tuple[Event, ...]:
        """Runs one call and keeps its effects. `LedgerRefused` if it reverts: then nothing changed."""
        try:
            self._evm.message_call(sender, to, data)
        except RuntimeError as error:
            raise LedgerRefused(_reason(str(error))) from None
        result = self._evm.result
        return tuple(self._event(entry) for entry in result.logs) if result else ()

    def view(self, to: str, function: str, *arguments: Word) -> tuple[Word, ...]:
        """Asks the contract without changing anything."""
        output = self._evm.message_call(NOBODY, to, self.contract.call(function, *arguments), is_static=True)
        return self.contract.decode_output(function, output)

    def code(self, address: str) -> bytes:
        """The code at an address."""
        return bytes(self._evm.get_code(address) or b"").rstrip(b"\x00")

    def _event(self, entry: object) -> Event:
        topics, data = entry.data  # type: ignore[attr-defined]
        name, arguments = self.contract.decode_event([bytes(topic) for topic in topics], bytes(data))
        return Event(name, arguments)


def _reason(message: str) -> str:
    """The contract's own words in a revert, or why there are none."""
    found = REVERTED.search(message)
    if not found:
        return f"ledger: the call failed ({message[:80]})"
    raw = bytes.fromhex(found.group(1))
    length = int.from_bytes(raw[32:64], "big")
    return raw[64 : 64 + length].decode("utf-8", "replace")
