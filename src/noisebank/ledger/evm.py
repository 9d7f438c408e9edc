"""`Evm`: an embedded Ethereum virtual machine (pyrevm) that executes the contract's real bytecode."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from pyrevm import EVM, AccountInfo, BlockEnv, CfgEnv, Env

from noisebank.core.errors import LedgerRefused
from noisebank.ledger.abi import Contract, Value

ZERO_ADDRESS = "0x" + "00" * 20
REVERT_PATTERN = re.compile(r"output: 0x08c379a0([0-9a-f]*)")
Log = tuple[tuple[bytes, ...], bytes]
"""A log of the contract, not decoded: topics and data."""


@dataclass(frozen=True, slots=True)
class Event:
    """A decoded log of the contract."""

    name: str
    arguments: dict[str, Value]


class Evm:
    """An EVM and its state; views are those of `contract`. pyrevm checks neither signatures nor nonces: `chain_state`
    does."""

    def __init__(self, contract: Contract, chain_id: int) -> None:
        self.contract = contract
        self._evm = EVM(env=Env(cfg=CfgEnv(chain_id=chain_id)), spec_id="CANCUN")

    def set_block(self, number: int, time: int) -> None:
        """Sets the block in which the next calls execute."""
        self._evm.set_block_env(BlockEnv(number=number, timestamp=time))

    def deploy(self, sender: str, initcode: bytes, nonce: int | None = None) -> str:
        """Creates a contract; returns its address, which follows from the sender and the nonce of its transaction.

        pyrevm counts deployments only, Ethereum all transactions of a sender: so `nonce` is set before, if given.
        """
        if nonce is not None:
            self._evm.insert_account_info(sender, AccountInfo(nonce=nonce))
        return str(self._evm.deploy(sender, initcode)).lower()

    def execute(self, sender: str, to: str, data: bytes) -> tuple[Log, ...]:
        """Executes one call; returns its logs. `LedgerRefused` if it reverts: then nothing has changed."""
        try:
            self._evm.message_call(sender, to, data)
        except RuntimeError as error:
            raise LedgerRefused(_revert_reason(str(error))) from None
        logs = []
        result = self._evm.result
        for entry in result.logs if result is not None else ():
            topics, payload = entry.data
            logs.append((tuple(topics), payload))
        return tuple(logs)

    def simulate_call(self, sender: str, to: str, data: bytes) -> bytes:
        """Returns the output of a call and undoes its effects. `LedgerRefused` if it reverts."""
        before = self._evm.snapshot()
        try:
            return bytes(self._evm.message_call(sender, to, data))
        except RuntimeError as error:
            raise LedgerRefused(_revert_reason(str(error))) from None
        finally:
            self._evm.revert(before)

    def call_view(self, to: str, function: str, *arguments: Value) -> tuple[Value, ...]:
        """Returns the output values of a view function (a static call)."""
        output = self._evm.message_call(
            ZERO_ADDRESS, to, self.contract.encode_call(function, *arguments), is_static=True
        )
        return self.contract.decode_output(function, output)

    def get_code(self, address: str) -> bytes:
        """Returns the code at an address."""
        return bytes(self._evm.get_code(address) or b"").rstrip(b"\x00")


def decode_events(contract: Contract, logs: Iterable[Log]) -> tuple[Event, ...]:
    """Decodes logs."""
    return tuple(Event(*contract.decode_event(topics, payload)) for topics, payload in logs)


def _revert_reason(message: str) -> str:
    """Returns the contract's reason for a revert, or pyrevm's message if the contract gave none."""
    match = REVERT_PATTERN.search(message)
    if not match:
        return f"ledger: the call failed ({message[:80]})"
    raw = bytes.fromhex(match.group(1))
    length = int.from_bytes(raw[32:64], "big")
    return raw[64 : 64 + length].decode("utf-8", "replace")
