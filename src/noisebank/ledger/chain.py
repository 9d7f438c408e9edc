"""What every chain has in common: it keeps books, and holds the keys of some roles."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from noisebank.core.errors import BadBank, LedgerRefused, Tampered
from noisebank.core.records import Record
from noisebank.ledger.abi import Value
from noisebank.ledger.books import Books
from noisebank.ledger.evm import Event
from noisebank.ledger.protocol import AccountState, Claim, Head, Opening, Reservation, Role, Run, Seal, View
from noisebank.ledger.signing import Key


class Chain(ABC):
    """A `Ledger`, embedded or behind a node. Whatever changes something is durable on return."""

    def __init__(self, keys: Mapping[Role, Key]) -> None:
        self._keys = dict(keys)
        self._reserving: set[tuple[bytes, bytes]] = set()
        self._access = threading.Lock()

    shared = False
    """Whether others may write to it, so that books have to be refreshed."""

    # -- what a chain must do ------------------------------------------------------------------

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
        """This chain's id."""

    @abstractmethod
    def block_digest(self, number: int) -> bytes:
        """The digest of a block, for receipts."""

    @abstractmethod
    def refresh(self, patience: float | None = None) -> None:
        """Reads what others have written, up to now. A node that is behind is waited for."""

    @abstractmethod
    def head(self) -> Head:
        """The newest block that counts."""

    @abstractmethod
    def reserve(self, *group: Claim) -> tuple[Reservation, ...]:
        """Decides and charges an atomic group."""

    @abstractmethod
    def publish(self, account: bytes, *group: Seal) -> tuple[Reservation, ...]:
        """Pins the digests of sealed answers, all or none."""

    @abstractmethod
    def close(self) -> None:
        """Lets go of everything. Nothing is lost."""

    @abstractmethod
    def _transact(self, role: Role, function: str, *arguments: Value) -> Event:
        """One call by the key of a role, and what it logged."""

    # -- reading -------------------------------------------------------------------------------

    def account(self, account: bytes) -> AccountState:
        """The account's state."""
        state = self.books.account(account)
        if state is None:
            raise BadBank(f"the ledger has no account {account.hex()[:12]}")
        return state

    def reservation(self, account: bytes, id: bytes) -> Reservation | None:
        """A reservation of an account."""
        return self.books.reservation(account, id)

    def reservations(self, account: bytes) -> tuple[Reservation, ...]:
        """All reservations of an account, oldest first."""
        return self.books.reservations(account)

    def records(self, account: bytes, query: bytes, cube: int = 0, runs: tuple[Run, ...] = ()) -> tuple[Record, ...]:
        """The paid answers to a query in this version of the table, by rising precision."""
        return self.books.records(account, query, cube, runs)

    def view(self, account: bytes, analyst: bytes) -> View:
        """What an analyst may learn, and has learned."""
        return self.books.view(account, analyst)

    # -- the owner's business ------------------------------------------------------------------

    def open_account(self, opening: Opening) -> bytes:
        """Opens an account of the owner's; returns its id."""
        event = self._transact(
            Role.OWNER, "open_account", self._key(Role.CURATOR).address, opening.unit.value, opening.budget.units,
            opening.policy, opening.data, opening.raise_delay,
        )  # fmt: skip
        account = event.arguments["account"]
        assert isinstance(account, bytes)
        return account

    def manage(self, function: str, account: bytes, *arguments: Value) -> Event:
        """Any of the owner's calls; returns what was logged."""
        return self._transact(Role.OWNER, function, account, *arguments)

    def accept(self, role: Role, account: bytes) -> Event:
        """The second half of a hand-over, signed by the key that takes over."""
        return self._transact(role, f"accept_{role.value}", account)

    def lower_budget(self, account: bytes, units: int) -> None:
        """Lowers the budget at once, and cancels a pending raise."""
        self.manage("lower_budget", account, units)

    def propose_raise(self, account: bytes, units: int) -> Event:
        """Announces a raise; returns when it will be ready and when it expires."""
        return self.manage("propose_raise", account, units)

    def finish_raise(self, account: bytes) -> None:
        """Puts an announced raise into effect."""
        self.manage("finish_raise", account)

    def pause(self, account: bytes) -> None:
        """Stops all reserving."""
        self.manage("pause", account)

    def resume(self, account: bytes) -> None:
        """Ends a pause."""
        self.manage("resume", account)

    def set_limit(self, account: bytes, analyst: bytes, units: int) -> None:
        """How much one analyst may learn."""
        self.manage("set_limit", account, analyst, units)

    def add_cube(self, account: bytes, cells: int) -> int:
        """Declares the next cube; returns its number."""
        number = self.manage("add_cube", account, cells).arguments["cube"]
        assert type(number) is int
        return number

    def open_version(self, account: bytes, policy: bytes, data: bytes) -> None:
        """The table changed: what is spent stays spent, nothing is reused, open reservations are burnt."""
        self.manage("open_version", account, policy, data)

    # -- parts ---------------------------------------------------------------------------------

    def addresses(self) -> dict[Role, str]:
        """Who signs here, for each role whose key is here."""
        return {role: key.address for role, key in self._keys.items()}

    def use_key(self, role: Role, key: Key) -> None:
        """From now on this key signs for the role."""
        self._keys[role] = key

    @contextmanager
    def _only_once(self, group: Sequence[Claim]) -> Iterator[None]:
        """Refuses ids that are used already, or being used: the contract keeps none of a REPEAT's."""
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
        """The address of a role's key, which must be here."""
        return self._key(role).address

    def charged_accounts(self) -> frozenset[bytes]:
        """Accounts that this gateway has charged on a chain, by its own outbox."""
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
