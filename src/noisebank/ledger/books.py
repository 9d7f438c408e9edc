"""The books: accounts, reservations, records and views, kept from the contract's logs alone."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from typing import Any

from noisebank.ledger.abi import Contract
from noisebank.ledger.machine import Event, Log
from noisebank.ledger.protocol import AccountState, Reservation, Run, Unit, View
from noisebank.records import Case, Record
from noisebank.units import NOTHING, Precision

RecordKey = tuple[bytes, int, int, bytes, tuple[Run, ...]]
"""Account, version, cube, query, runs: what the contract keeps records of."""


@dataclass(frozen=True, slots=True)
class Change:
    """Something that happened to an account besides reserving and publishing."""

    block: int
    time: int
    event: Event


class Books:
    """Grows with every log; answers every question that the bank or a page has."""

    def __init__(self, contract: Contract) -> None:
        self._contract = contract
        self._accounts: dict[bytes, AccountState] = {}
        self._reservations: dict[bytes, Reservation] = {}
        self._by_account: dict[bytes, list[bytes]] = defaultdict(list)
        self._records: dict[RecordKey, list[Record]] = defaultdict(list)
        self._views: dict[tuple[bytes, bytes], View] = {}
        self._spent_on: dict[tuple[bytes, int], Precision] = defaultdict(lambda: NOTHING)
        self._changes: dict[bytes, list[Change]] = defaultdict(list)

    def write(self, log: Log, block: int, time: int) -> None:
        """Enters one log."""
        name, arguments = self._decoded(log)
        account = arguments["account"]  # every event's first word
        if name == "Reserved":
            self._reserved(account, arguments, block, time)
        elif name == "Published":
            id = arguments["id"]
            self._reservations[id] = replace(self._reservations[id], answer=arguments["answer"], published_in=block)
        elif name != "GroupRefused":  # which changed nothing
            self._changes[account].append(Change(block, time, Event(name, arguments)))
            self._accounts[account] = self._changed(account, name, arguments)

    def accounts(self) -> tuple[AccountState, ...]:
        """All accounts, oldest first."""
        return tuple(self._accounts.values())

    def account(self, account: bytes) -> AccountState | None:
        """One account."""
        return self._accounts.get(account)

    def changes(self, account: bytes) -> tuple[Change, ...]:
        """Opening, budget, limit, version and role changes, oldest first."""
        return tuple(self._changes.get(account, ()))

    def reservation(self, id: bytes) -> Reservation | None:
        """One reservation."""
        return self._reservations.get(id)

    def reservations(self, account: bytes) -> tuple[Reservation, ...]:
        """All reservations of an account, oldest first."""
        return tuple(self._reservations[id] for id in tuple(self._by_account.get(account, ())))

    def records(self, account: bytes, query: bytes, cube: int = 0, runs: tuple[Run, ...] = ()) -> tuple[Record, ...]:
        """Paid answers of a query in the present version, by rising precision."""
        state = self._accounts.get(account)
        return tuple(self._records.get((account, state.version if state else 1, cube, query, runs), ()))

    def view(self, account: bytes, analyst: bytes) -> View:
        """What an analyst may learn, and has learned."""
        return self._views.get((account, analyst), View())

    def spent_on(self, account: bytes, about: int) -> Precision:
        """What was charged under one public byte."""
        return self._spent_on[account, about]

    def _decoded(self, log: Log) -> tuple[str, dict[str, Any]]:
        return self._contract.decode_event(*log)

    def _reserved(self, account: bytes, arguments: dict[str, Any], block: int, time: int) -> None:
        state = self._accounts[account]
        id, analyst = arguments["id"], arguments["analyst"]
        runs = tuple(Run(*run) for run in arguments["runs"])
        fresh, spent, wanted = arguments["fresh"], Precision(arguments["spent"]), Precision(arguments["wanted"])
        records = self._records[account, state.version, arguments["cube"], arguments["query"], runs]
        reused = arguments["reused"]
        used = Precision(arguments["used"])
        reservation = Reservation(
            account=account,
            id=id,
            query=arguments["query"],
            analyst=analyst,
            about=arguments["about"],
            case=Case(arguments["case"]),
            wanted=wanted,
            fresh=Precision(fresh),
            reused=records[reused - 1].id if reused else None,
            spent=spent,
            block=block,
            time=time,
            cost=spent - state.spent,
            used=used,
            cube=arguments["cube"],
            runs=runs,
            version=state.version,
        )
        if id not in self._reservations:  # the contract keeps no id of a REPEAT: the first one counts
            self._reservations[id] = reservation
            self._by_account[account].append(id)
        if fresh:
            records.append(Record(id, wanted))
            self._spent_on[account, arguments["about"]] += spent - state.spent
            self._accounts[account] = replace(state, spent=spent, measurements=state.measurements + 1)
        if any(analyst):
            self._views[account, analyst] = replace(self.view(account, analyst), used=used)

    def _changed(self, account: bytes, name: str, arguments: dict[str, Any]) -> AccountState:
        if name == "AccountOpened":
            return AccountState(
                account=account,
                owner=arguments["owner"],
                curator=arguments["curator"],
                budget=Precision(arguments["budget"]),
                spent=NOTHING,
                measurements=0,
                policy=arguments["policy"],
                data=arguments["data"],
                raise_delay=arguments["raise_delay"],
                unit=Unit(arguments["unit"]),
            )
        state = self._accounts[account]
        if name in ("BudgetLowered", "BudgetRaised"):
            return replace(state, budget=Precision(arguments["budget"]))
        if name == "OwnerChanged":
            return replace(state, owner=arguments["owner"])
        if name == "CuratorChanged":
            return replace(state, curator=arguments["curator"])
        if name == "CubeAdded":
            return replace(state, cubes=(*state.cubes, arguments["cells"]))
        if name == "VersionOpened":
            opened = {part: arguments[part] for part in ("version", "policy", "data")}
            return replace(state, base=Precision(arguments["base"]), **opened)
        if name in ("Paused", "Resumed"):
            return replace(state, paused=name == "Paused")
        if name == "LimitSet":
            view = self.view(account, arguments["analyst"])
            self._views[account, arguments["analyst"]] = replace(view, limit=Precision(arguments["limit"]))
        return state
