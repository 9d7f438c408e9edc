"""The real bytecode with everything that tests want to see of it."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from pyrevm import AccountInfo

from support.internals import (
    Contract,
    Evm,
    LedgerRefused,
    Value,
    Word,
    _revert_reason,
    budget_ledger,
    decode_events,
    keccak,
    load_contract,
)

OWNER, CURATOR, STRANGER, HEIR, DEPUTY = PEOPLE = tuple("0x" + f"{digit}{digit}" * 20 for digit in "abcde")
THE_OWNER = bytes(32)
"""The analyst without books of his own."""
WHOLE = 2**32
"""The weight of a run that is charged what is fresh."""
PLENTY = 2**96 - 1
"""A limit that never binds."""
ARTEFACT = "NOISEBANK_CONTRACT_ARTEFACT"
"""Names another artefact to test, such as a mutant's."""

Row = tuple[Word, ...]
Logged = tuple[str, dict[str, Value]]


@cache
def contract_under_test() -> Contract:
    """The contract that the package ships, unless the environment names another."""
    path = os.environ.get(ARTEFACT)
    return load_contract(json.loads(Path(path).read_text())) if path else budget_ledger()


class Real:
    """The contract on a machine of its own."""

    def __init__(
        self,
        contract: Contract | None = None,
        chain_id: int = 5,
        deployer: str = STRANGER,
        address: str | None = None,
        now: int = 1_000,
    ) -> None:
        """With an `address` the runtime code is put there, as if it had been deployed."""
        self.contract = contract or contract_under_test()
        self.machine = Evm(self.contract, chain_id)
        self.machine._evm = self._ear = _Ear(self.machine._evm)
        self.chain_id = chain_id
        self.now = now
        self.machine.set_block(0, self.now)
        if address is None:
            self.address = self.machine.deploy(deployer, self.contract.initcode)
        else:
            self.address = address
            self._ear.insert_account_info(address, AccountInfo(code=self.contract.runtime))

    # -- what every chain can do ------------------------------------------------------------------

    def call(self, sender: str, function: str, *arguments: Value) -> tuple[tuple[Value, ...], list[Logged]]:
        """What a call returns and logs; `LedgerRefused` if it reverts."""
        logs = self.machine.execute(sender, self.address, self.contract.encode_call(function, *arguments))
        returned = self.contract.decode_output(function, self._ear.output)
        return returned, [(event.name, event.arguments) for event in decode_events(self.contract, logs)]

    def with_gas(self, gas: int) -> Real:
        """The same, and the next call has this much gas."""
        self._ear.gas = gas
        return self

    def view(self, function: str, *arguments: Value) -> tuple[Value, ...]:
        """What a view answers; `LedgerRefused` if it reverts."""
        try:
            return self.machine.call_view(self.address, function, *arguments)
        except RuntimeError as error:
            raise LedgerRefused(_revert_reason(str(error))) from None

    def at(self, now: int) -> None:
        """Sets the time of the next calls."""
        self.now = now
        self.machine.set_block(1, now)

    def stored(self, slot: int) -> int:
        return int(self._ear.storage(self.address, slot))

    def store(self, slot: int, value: int) -> None:
        """Behind the contract's back."""
        self._ear.insert_account_storage(self.address, slot, value)

    # -- shorter ways to say it -------------------------------------------------------------------

    def open(
        self,
        budget: int = 100,
        delay: int = 10,
        owner: str = OWNER,
        curator: str = CURATOR,
        salt: int = 7,
        unit: int = 1,
        cubes: Sequence[int] = (),
    ) -> bytes:
        """An account with these cubes."""
        (account,), _ = self.call(owner, "open_account", curator, unit, budget, word(salt), word(salt + 1), delay)
        assert isinstance(account, bytes)
        for cells in cubes:
            self.call(owner, "add_cube", account, cells)
        return account

    def reserve(
        self,
        account: bytes,
        id: int,
        query: int,
        wanted: int,
        limit: int = PLENTY,
        sender: str = CURATOR,
        about: int = 1,
        analyst: bytes = THE_OWNER,
        cube: int = 0,
        runs: Sequence[Row] = (),
    ) -> tuple[Value, ...]:
        """A group of one claim: (case, fresh, reused)"""
        part = claim(id, query, wanted, limit, about, analyst, cube, len(runs))
        ((_, made),) = self.call(sender, "reserve", account, (part,), tuple(runs))[1]
        return made["case"], made["fresh"], made["reused"]

    def publish(self, account: bytes, id: int, answer: int = 9, sender: str = CURATOR) -> None:
        self.call(sender, "publish", account, (seal(id, answer),))

    def write_money(self, account: bytes, **changes: int) -> None:
        """Changes budget, spent or measurements in storage, behind the contract's back."""
        money = dict(zip(("budget", "spent", "measurements"), self.view("money", account), strict=True)) | changes
        self.store(_slot(places(self.contract)[0], account), _money_word(**money))  # type: ignore[arg-type]
        assert self.view("money", account) == tuple(money.values())

    def write_version(self, account: bytes, version: int) -> None:
        """Changes the version of the table in storage, behind the contract's back."""
        curator, _, *others = self.view("desk", account)
        self.store(_slot(places(self.contract)[1], account), _desk_word(curator, version, *others))
        assert self.view("desk", account) == (curator, version, *others)


def places(contract: Contract) -> tuple[int, int]:
    """Where the contract keeps its maps from accounts to money and to desks."""
    if contract.runtime not in _PLACES:
        real = Real(contract)
        account = real.open(budget=12345)
        words = (_money_word(*real.view("money", account)), _desk_word(*real.view("desk", account)))
        found = [next(n for n in range(64) if real.stored(_slot(n, account)) == word) for word in words]
        _PLACES[contract.runtime] = (found[0], found[1])
    return _PLACES[contract.runtime]


_PLACES: dict[bytes, tuple[int, int]] = {}


def _slot(place: int, account: bytes) -> int:
    return int.from_bytes(keccak(word(place), account), "big")


def _money_word(budget: Any, spent: Any, measurements: Any) -> int:
    return int(budget | spent << 96 | measurements << 192)


def _desk_word(curator: Any, version: Any, cubes: Any, paused: Any) -> int:
    return int(int(curator, 16) | version << 160 | cubes << 192 | paused << 224)


def claim(
    id: int,
    query: int,
    wanted: int,
    limit: int = PLENTY,
    about: int = 1,
    analyst: bytes = THE_OWNER,
    cube: int = 0,
    runs: int = 0,
    last: bool = True,
) -> Row:
    """The contract's Claim; `runs` counts its runs."""
    return (word(id), word(query), analyst, about, cube, wanted, limit, runs, last)


def seal(id: int, answer: int = 9, last: bool = True) -> Row:
    """The contract's Seal."""
    return (word(id), word(answer), last)


def word(number: int) -> bytes:
    return number.to_bytes(32, "big")


class _Ear:
    """Remembers what the last call returned."""

    def __init__(self, evm: Any) -> None:
        self._evm = evm
        self.output = b""
        self.gas: int | None = None
        """Of the next call; None: plenty."""

    def message_call(self, *arguments: Any, **options: Any) -> bytes:
        if self.gas is not None:
            options["gas"], self.gas = self.gas, None
        output = bytes(self._evm.message_call(*arguments, **options))
        if not options.get("is_static"):
            self.output = output
        return output

    def __getattr__(self, name: str) -> Any:
        return getattr(self._evm, name)
