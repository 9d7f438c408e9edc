"""The real bytecode with everything that tests want to see of it."""

from __future__ import annotations

from typing import Any

from noisebank.digests import keccak
from noisebank.ledger.abi import Contract, Word, budget_ledger
from noisebank.ledger.machine import Machine

OWNER, CURATOR, STRANGER, HEIR, DEPUTY = PEOPLE = tuple("0x" + f"{digit}{digit}" * 20 for digit in "abcde")
SPENT, MEASUREMENTS = 3, 4
"""Places in the contract's Account."""


class Real:
    """The contract on a machine of its own."""

    def __init__(self, contract: Contract | None = None, chain_id: int = 5, deployer: str = STRANGER) -> None:
        self.contract = contract or budget_ledger()
        self.machine = Machine(self.contract, chain_id)
        self.machine._evm = self._ear = _Ear(self.machine._evm)
        self.now = 1_000
        self.machine.at(0, self.now)
        self.address = self.machine.deploy(deployer, self.contract.initcode)

    def call(self, sender: str, function: str, *arguments: Word) -> tuple[tuple[Word, ...], list[Any]]:
        """What a call returns and logs; `LedgerRefused` if it reverts."""
        events = self.machine.execute(sender, self.address, self.contract.call(function, *arguments))
        returned = self.contract.decode_output(function, self._ear.output)
        return returned, [(event.name, event.arguments) for event in events]

    def view(self, function: str, *arguments: Word) -> tuple[Word, ...]:
        return self.machine.view(self.address, function, *arguments)

    def at(self, now: int) -> None:
        self.now = now
        self.machine.at(1, now)

    def open(
        self, budget: int = 100, delay: int = 10, owner: str = OWNER, curator: str = CURATOR, salt: int = 7
    ) -> bytes:
        (account,), _ = self.call(owner, "open_account", curator, budget, word(salt), word(salt + 1), delay)
        assert isinstance(account, bytes)
        return account

    def reserve(
        self,
        account: bytes,
        id: int,
        query: int,
        wanted: int,
        limit: int = 2**96,
        sender: str = CURATOR,
        about: int = 1,
    ) -> tuple[Word, ...]:
        """(case, fresh, reused)"""
        return self.call(sender, "reserve", account, word(id), word(query), word(99), about, wanted, limit)[0]

    def set(self, account: bytes, place: int, value: int) -> None:
        """Writes a number of an account into storage behind the contract's back."""
        budget = self.view("accounts", account)[2]
        for slot in range(16):
            base = int.from_bytes(keccak(slot.to_bytes(32, "big"), account), "big")
            if self.machine._evm.storage(self.address, base + 2) == budget:
                self.machine._evm.insert_account_storage(self.address, base + place, value)
                assert self.view("accounts", account)[place] == value
                return
        raise AssertionError("accounts are not where they are expected in storage")


def word(number: int) -> bytes:
    return number.to_bytes(32, "big")


class _Ear:
    """Remembers what the last call returned."""

    def __init__(self, evm: Any) -> None:
        self._evm = evm
        self.output = b""

    def message_call(self, *arguments: Any, **options: Any) -> bytes:
        output = bytes(self._evm.message_call(*arguments, **options))
        if not options.get("is_static"):
            self.output = output
        return output

    def __getattr__(self, name: str) -> Any:
        return getattr(self._evm, name)
