"""`Ledger`: the boundary between the bank and its contract, with the guarantees that every implementation gives.

Implementations: `embedded.EmbeddedLedger` (the contract runs in this process) and `rpc.ChainLedger` (it is on a chain).
Values that cross the boundary are in `protocol`.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from noisebank.core.errors import BadBank, LedgerRefused, Tampered
from noisebank.core.records import CellRun, Record
from noisebank.ledger.abi import Value
from noisebank.ledger.books import Books
from noisebank.ledger.evm import Event
from noisebank.ledger.protocol import AccountState, Claim, Head, Opening, Reservation, Role, Seal, View
from noisebank.ledger.signing import Key


class Chain(ABC):
    """Where spends are decided and recorded.

    Every method that changes anything is durable on return. A refusal raises `Refused` and changes nothing. A failure
    in between raises `OutcomeUnknown`: look at the reservation later. An id can be reserved once per account, ever.
    """

    def __init__(self, keys: Mapping[Role, Key]) -> None:
        self._keys = dict(keys)
        self._reserving: set[tuple[bytes, bytes]] = set()
        self._access = threading.Lock()

    shared = False
    """Whether others may write to it, so that books have to be refreshed."""

    # -- what an implementation provides -------------------------------------------------------

    @property
    @abstractmethod
    def books(self) -> Books:
        """Accounts, reservations, records, views and changes."""

    @property
    @abstractmethod
    def contract(self) -> str:
        """The contract's address."""

    @property
    @abstractmethod
    def chain_id(self) -> int:
        """The chain's id."""

    @abstractmethod
    def block_digest(self, number: int) -> bytes:
        """Returns the digest of a block, for receipts."""

    @abstractmethod
    def refresh(self, patience: float | None = None) -> None:
        """Reads what others have written, up to now. Waits up to `patience` seconds for a node that is behind."""

    @abstractmethod
    def head(self) -> Head:
        """Returns the newest final block."""

    @abstractmethod
    def reserve(self, *group: Claim) -> tuple[Reservation, ...]:
        """Decides and charges an atomic group: all of it or nothing."""

    @abstractmethod
    def publish(self, account: bytes, *group: Seal) -> tuple[Reservation, ...]:
        """Publishes the digests of sealed answers, all or none. Once per reservation; never for a REPEAT."""

    @abstractmethod
    def close(self) -> None:
        """Releases files and connections. Nothing is lost."""

    @abstractmethod
    def _transact(self, role: Role, function: str, *arguments: Value) -> Event:
        """Makes one call, signed by the key of a role; returns the event that it logged."""

    # -- reading -------------------------------------------------------------------------------

    def account(self, account: bytes) -> AccountState:
        """Returns the state of an account; `BadBank` if there is none."""
        state = self.books.account(account)
        if state is None:
            raise BadBank(f"the ledger has no account {account.hex()[:12]}")
        return state

    def reservation(self, account: bytes, id: bytes) -> Reservation | None:
        """Returns a reservation; None if there is none. Ids are unique within an account only."""
        return self.books.reservation(account, id)

    def reservations(self, account: bytes) -> tuple[Reservation, ...]:
        """Returns all reservations of an account, oldest first."""
        return self.books.reservations(account)

    def records(
        self, account: bytes, query: bytes, cube: int = 0, runs: tuple[CellRun, ...] = ()
    ) -> tuple[Record, ...]:
        """Returns the paid answers to a query in this version of the table, by rising precision."""
        return self.books.records(account, query, cube, runs)

    def view(self, account: bytes, analyst: bytes) -> View:
        """Returns what an analyst may learn, and has learned so far."""
        return self.books.view(account, analyst)

    # -- the owner's calls ---------------------------------------------------------------------

    def open_account(self, opening: Opening) -> bytes:
        """Opens an account for the owner; returns its id."""
        event = self._transact(
            Role.OWNER, "open_account", self.address(Role.CURATOR), opening.unit.value, opening.budget.units,
            opening.policy, opening.data, opening.raise_delay,
        )  # fmt: skip
        account = event.arguments["account"]
        assert isinstance(account, bytes)
        return account

    def manage(self, function: str, account: bytes, *arguments: Value) -> Event:
        """Makes any of the owner's calls; returns the event that it logged."""
        return self._transact(Role.OWNER, function, account, *arguments)

    def accept(self, role: Role, account: bytes) -> Event:
        """Accepts a proposed role, signed by the key that takes over."""
        return self._transact(role, f"accept_{role.value}", account)

    def lower_budget(self, account: bytes, units: int) -> None:
        """Lowers the budget at once, and cancels a pending raise."""
        self.manage("lower_budget", account, units)

    def propose_raise(self, account: bytes, units: int) -> Event:
        """Announces a raise; returns the event with the times at which it becomes ready and expires."""
        return self.manage("propose_raise", account, units)

    def finish_raise(self, account: bytes) -> None:
        """Puts an announced raise into effect."""
        self.manage("finish_raise", account)

    def pause(self, account: bytes) -> None:
        """Refuses all reservations from now on."""
        self.manage("pause", account)

    def resume(self, account: bytes) -> None:
        """Ends a pause."""
        self.manage("resume", account)

    def set_limit(self, account: bytes, analyst: bytes, units: int) -> None:
        """Sets how many units one analyst may learn."""
        self.manage("set_limit", account, analyst, units)

    def add_cube(self, account: bytes, cells: int) -> int:
        """Declares the next cube; returns its number."""
        number = self.manage("add_cube", account, cells).arguments["cube"]
        assert type(number) is int
        return number

    def open_version(self, account: bytes, policy: bytes, data: bytes) -> None:
        """Opens the next version of the table: what is spent stays spent, earlier answers are not reused, and
        reservations without an answer are burnt."""
        self.manage("open_version", account, policy, data)

    # -- keys and ids --------------------------------------------------------------------------

    def addresses(self) -> dict[Role, str]:
        """Returns the address of each role whose key is on this machine."""
        return {role: key.address for role, key in self._keys.items()}

    def use_key(self, role: Role, key: Key) -> None:
        """From now on this key signs for the role."""
        self._keys[role] = key

    @contextmanager
    def _only_once(self, group: Sequence[Claim]) -> Iterator[None]:
        """Holds ids while they are being reserved; refuses ids in use. The contract itself stores no id of a REPEAT."""
        ids = {(claim.account, claim.id) for claim in group}
        with self._access:
            if len(ids) < len(group) or ids & self._reserving or any(self.books.reservation(*id) for id in ids):
                raise LedgerRefused("ledger: id already used")
            self._reserving |= ids
        try:
            yield
        finally:
            with self._access:
                self._reserving -= ids

    def has_key(self, role: Role) -> bool:
        """Whether a role's key is on this machine."""
        return role in self._keys

    def address(self, role: Role) -> str:
        """Returns the address of a role's key; `BadBank` if the key is not on this machine."""
        return self._key(role).address

    def charged_accounts(self) -> frozenset[bytes]:
        """Returns the accounts that this gateway has charged on a chain, according to its own outbox."""
        return frozenset()

    def _key(self, role: Role) -> Key:
        if role not in self._keys:
            raise BadBank(
                f"this needs the {role.value}'s key, which is not on this machine; name it with --{role.value}-key"
            )
        return self._keys[role]

    def _known(self, account: bytes, id: bytes) -> Reservation:
        reservation = self.books.reservation(account, id)
        if reservation is None:
            raise Tampered("the ledger has lost a reservation that it has just made")
        return reservation
