"""`Ledger`: the boundary between the bank and its contract, with the guarantees that every implementation gives.

Implementations: `embedded.EmbeddedLedger` (the contract runs in this process) and `rpc.ChainLedger` (it is on a chain).
Values that cross the boundary are in `protocol`.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from noisebank.core.errors import BadBank, LedgerRefused, NoisebankError, Tampered
from noisebank.core.records import CellRun, Record
from noisebank.ledger.abi import Value
from noisebank.ledger.books import Books
from noisebank.ledger.encoding import explain_refusal
from noisebank.ledger.evm import Event
from noisebank.ledger.protocol import (
    ID_IN_USE,
    AccountOpening,
    AccountState,
    Claim,
    Head,
    Reservation,
    Role,
    Seal,
    View,
)
from noisebank.ledger.signing import Key


class Ledger(ABC):
    """Where spends are decided and recorded.

    Every method that changes anything is durable on return. A refusal raises `Refused` and changes nothing. A failure
    in between raises `OutcomeUnknown`: look at the reservation later. An id can be reserved once per account, ever.
    """

    def __init__(self, keys: Mapping[Role, Key]) -> None:
        self._keys = dict(keys)
        self._ids_in_flight: set[tuple[bytes, bytes]] = set()
        self._lock = threading.Lock()

    is_shared = False
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

    def export_journal(self) -> Iterator[str]:
        """Returns the canonical journal, line by line; raises where the chain itself is the journal."""
        raise BadBank("this bank's ledger is on a chain: verify it there, with --rpc and --contract")

    @abstractmethod
    def _send_reserves(self, groups: Sequence[Sequence[Claim]]) -> list[NoisebankError | None]:
        """Has the contract decide atomic groups, each by itself, in order; returns the refusal of each, if any."""

    @abstractmethod
    def _send_publishes(self, account: bytes, groups: Sequence[Sequence[Seal]]) -> list[NoisebankError | None]:
        """Publishes groups of digests, each by itself; returns the refusal of each, if any."""

    @abstractmethod
    def close(self) -> None:
        """Releases files and connections. Nothing is lost."""

    @abstractmethod
    def _call_contract(self, role: Role, function: str, *arguments: Value) -> Event:
        """Makes one call, signed by the key of a role; returns the event that it logged."""

    # -- reading -------------------------------------------------------------------------------

    def get_account(self, account: bytes) -> AccountState:
        """Returns the state of an account; `BadBank` if there is none."""
        state = self.books.find_account(account)
        if state is None:
            raise BadBank(f"the ledger has no account {account.hex()[:12]}")
        return state

    def find_reservation(self, account: bytes, id: bytes) -> Reservation | None:
        """Returns a reservation; None if there is none. Ids are unique within an account only."""
        return self.books.find_reservation(account, id)

    def list_reservations(self, account: bytes) -> tuple[Reservation, ...]:
        """Returns all reservations of an account, oldest first."""
        return self.books.list_reservations(account)

    def list_records(
        self, account: bytes, query: bytes, cube: int = 0, runs: tuple[CellRun, ...] = ()
    ) -> tuple[Record, ...]:
        """Returns the paid answers to a query in this version of the table, by rising precision."""
        return self.books.list_records(account, query, cube, runs)

    def get_view(self, account: bytes, analyst: bytes) -> View:
        """Returns what an analyst may learn, and has learned so far."""
        return self.books.get_view(account, analyst)

    # -- the curator's calls -------------------------------------------------------------------

    def reserve(self, *group: Claim) -> tuple[Reservation, ...]:
        """Decides and charges an atomic group: all of it or nothing."""
        (outcome,) = self.reserve_many([group])
        if isinstance(outcome, NoisebankError):
            raise outcome
        return outcome

    def reserve_many(self, groups: Sequence[Sequence[Claim]]) -> list[tuple[Reservation, ...] | NoisebankError]:
        """Decides and charges atomic groups in their order, sent together; returns the reservations of each, or why
        the contract refused it. A group that is refused never affects another."""
        with self._hold_ids(groups) as refusals:
            open_groups = [group for group, refusal in zip(groups, refusals, strict=True) if refusal is None]
            decided = iter(self._send_reserves(open_groups) if open_groups else [])
            refusals = [next(decided) if refusal is None else refusal for refusal in refusals]
        return [
            tuple(self._require_reservation(claim.account, claim.id) for claim in group)
            if refusal is None
            else explain_refusal(refusal, group, self.books)
            for group, refusal in zip(groups, refusals, strict=True)
        ]

    def publish(self, account: bytes, *group: Seal) -> tuple[Reservation, ...]:
        """Publishes the digests of sealed answers, all or none. Once per reservation; never for a REPEAT."""
        (refusal,) = self._send_publishes(account, [group])
        if refusal is not None:
            raise refusal
        return tuple(self._require_reservation(account, seal.id) for seal in group)

    def publish_many(self, account: bytes, seals: Sequence[Seal]) -> list[NoisebankError | None]:
        """Publishes digests, each by itself, sent together; returns the refusal of each, if any."""
        return self._send_publishes(account, [(seal,) for seal in seals]) if seals else []

    # -- the owner's calls ---------------------------------------------------------------------

    def open_account(self, opening: AccountOpening) -> bytes:
        """Opens an account for the owner; returns its id."""
        event = self._call_contract(
            Role.OWNER, "open_account", self.key_address(Role.CURATOR), opening.unit.value, opening.budget.units,
            opening.policy_digest, opening.data_commitment, opening.raise_delay,
        )  # fmt: skip
        account = event.arguments["account"]
        assert isinstance(account, bytes)
        return account

    def call_as_owner(self, function: str, account: bytes, *arguments: Value) -> Event:
        """Makes any of the owner's calls; returns the event that it logged."""
        return self._call_contract(Role.OWNER, function, account, *arguments)

    def accept_role(self, role: Role, account: bytes) -> Event:
        """Accepts a proposed role, signed by the key that takes over."""
        return self._call_contract(role, f"accept_{role.value}", account)

    def lower_budget(self, account: bytes, units: int) -> None:
        """Lowers the budget at once, and cancels a pending raise."""
        self.call_as_owner("lower_budget", account, units)

    def propose_raise(self, account: bytes, units: int) -> Event:
        """Announces a raise; returns the event with the times at which it becomes ready and expires."""
        return self.call_as_owner("propose_raise", account, units)

    def finish_raise(self, account: bytes) -> None:
        """Puts an announced raise into effect."""
        self.call_as_owner("finish_raise", account)

    def pause_account(self, account: bytes) -> None:
        """Refuses all reservations from now on."""
        self.call_as_owner("pause", account)

    def resume_account(self, account: bytes) -> None:
        """Ends a pause."""
        self.call_as_owner("resume", account)

    def set_limit(self, account: bytes, analyst: bytes, units: int) -> None:
        """Sets how many units one analyst may learn."""
        self.call_as_owner("set_limit", account, analyst, units)

    def add_cube(self, account: bytes, cells: int) -> int:
        """Declares the next cube; returns its number."""
        number = self.call_as_owner("add_cube", account, cells).arguments["cube"]
        assert type(number) is int
        return number

    def open_version(self, account: bytes, policy: bytes, data: bytes) -> None:
        """Opens the next version of the table: what is spent stays spent, earlier answers are not reused, and
        reservations without an answer are burnt."""
        self.call_as_owner("open_version", account, policy, data)

    # -- keys and ids --------------------------------------------------------------------------

    def key_addresses(self) -> dict[Role, str]:
        """Returns the address of each role whose key is on this machine."""
        return {role: key.address for role, key in self._keys.items()}

    def use_key(self, role: Role, key: Key) -> None:
        """From now on this key signs for the role."""
        self._keys[role] = key

    @contextmanager
    def _hold_ids(self, groups: Sequence[Sequence[Claim]]) -> Iterator[list[NoisebankError | None]]:
        """Holds ids while they are being reserved; yields a refusal for each group whose ids are in use. The contract
        itself stores no id of a REPEAT."""
        held: set[tuple[bytes, bytes]] = set()
        refusals: list[NoisebankError | None] = []
        with self._lock:
            for group in groups:
                ids = {(claim.account, claim.id) for claim in group}
                used = (
                    len(ids) < len(group)
                    or ids & self._ids_in_flight
                    or any(self.books.find_reservation(*id) for id in ids)
                )
                refusals.append(LedgerRefused(ID_IN_USE) if used else None)
                if not used:
                    self._ids_in_flight |= ids
                    held |= ids
        try:
            yield refusals
        finally:
            with self._lock:
                self._ids_in_flight -= held

    def has_key(self, role: Role) -> bool:
        """Whether a role's key is on this machine."""
        return role in self._keys

    def key_address(self, role: Role) -> str:
        """Returns the address of a role's key; `BadBank` if the key is not on this machine."""
        return self._require_key(role).address

    def charged_accounts(self) -> frozenset[bytes]:
        """Returns the accounts that this gateway has charged on a chain, according to its own outbox."""
        return frozenset()

    def _require_key(self, role: Role) -> Key:
        if role not in self._keys:
            raise BadBank(
                f"this needs the {role.value}'s key, which is not on this machine; name it with --{role.value}-key"
            )
        return self._keys[role]

    def _require_reservation(self, account: bytes, id: bytes) -> Reservation:
        reservation = self.books.find_reservation(account, id)
        if reservation is None:
            raise Tampered("the ledger has lost a reservation that it has just made")
        return reservation
