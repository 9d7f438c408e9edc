"""The books: accounts, reservations and records, kept from the contract's events alone."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace

from noisebank.ledger.abi import Word
from noisebank.ledger.machine import Event
from noisebank.ledger.protocol import AccountState, Reservation
from noisebank.records import Case, Record
from noisebank.units import NOTHING, Precision


@dataclass(frozen=True, slots=True)
class Change:
    """Something that happened to an account besides reserving and publishing."""

    block: int
    time: int
    event: Event


class Books:
    """Grows with every event; answers every question that the bank or a page has."""

    def __init__(self) -> None:
        self._accounts: dict[bytes, AccountState] = {}
        self._reservations: dict[bytes, Reservation] = {}
        self._by_account: dict[bytes, list[bytes]] = defaultdict(list)
        self._records: dict[tuple[bytes, bytes], list[Record]] = defaultdict(list)
        self._changes: dict[bytes, list[Change]] = defaultdict(list)

    def write(self, event: Event, block: int, time: int) -> None:
        """Enters one event."""
        account = _bytes(event.arguments["account"])
        if event.name == "Reserved":
            self._reserved(account, event.arguments, block, time)
        elif event.name == "Published":
            id = _bytes(event.arguments["id"])
            answer = _bytes(event.arguments["answer"])
            self._reservations[id] = replace(self._reservations[id], answer=answer, published_in=block)
        else:
            self._changes[account].append(Change(block, time, event))
            self._changed(account, event)

    def accounts(self) -> tuple[AccountState, ...]:
        """All accounts, oldest first."""
        return tuple(self._accounts.values())

    def account(self, account: bytes) -> AccountState | None:
        """One account."""
        return self._accounts.get(account)

    def changes(self, account: bytes) -> tuple[Change, ...]:
        """Opening, budget and role changes, oldest first."""
        return tuple(self._changes.get(account, ()))

    def reservation(self, id: bytes) -> Reservation | None:
        """One reservation."""
        return self._reservations.get(id)

    def reservations(self, account: bytes) -> tuple[Reservation, ...]:
        """All reservations of an account, oldest first."""
        return tuple(self._reservations[id] for id in tuple(self._by_account.get(account, ())))

    def records(self, account: bytes, query: bytes) -> tuple[Record, ...]:
        """Paid answers of a query, by rising precision."""
        return tuple(self._records.get((account, query), ()))

    def _reserved(self, account: bytes, arguments: dict[str, Word], block: int, time: int) -> None:
        reused = _bytes(arguments["reused"])
        reservation = Reservation(
            account=account,
            id=_bytes(arguments["id"]),
            query=_bytes(arguments["query"]),
            analyst=_bytes(arguments["analyst"]),
            about=_integer(arguments["about"]),
            case=Case(_integer(arguments["case"])),
            wanted=Precision(_integer(arguments["wanted"])),
            fresh=Precision(_integer(arguments["fresh"])),
            reused=reused if any(reused) else None,
            spent=Precision(_integer(arguments["spent"])),
            block=block,
            time=time,
        )
        self._reservations[reservation.id] = reservation
        self._by_account[account].append(reservation.id)
        if reservation.fresh:
            self._records[account, reservation.query].append(Record(reservation.id, reservation.wanted))
            state = self._accounts[account]
            self._accounts[account] = replace(state, spent=reservation.spent, measurements=state.measurements + 1)

    def _changed(self, account: bytes, event: Event) -> None:
        arguments = event.arguments
        if event.name == "AccountOpened":
            self._accounts[account] = AccountState(
                account=account,
                owner=str(arguments["owner"]),
                curator=str(arguments["curator"]),
                budget=Precision(_integer(arguments["budget"])),
                spent=NOTHING,
                measurements=0,
                policy=_bytes(arguments["policy"]),
                data=_bytes(arguments["data"]),
                raise_delay=_integer(arguments["raise_delay"]),
            )
        elif event.name in ("BudgetLowered", "BudgetRaised"):
            budget = Precision(_integer(arguments["budget"]))
            self._accounts[account] = replace(self._accounts[account], budget=budget)
        elif event.name == "OwnerChanged":
            self._accounts[account] = replace(self._accounts[account], owner=str(arguments["owner"]))
        elif event.name == "CuratorChanged":
            self._accounts[account] = replace(self._accounts[account], curator=str(arguments["curator"]))


def _bytes(word: Word) -> bytes:
    assert isinstance(word, bytes)
    return word


def _integer(word: Word) -> int:
    assert type(word) is int
    return word
