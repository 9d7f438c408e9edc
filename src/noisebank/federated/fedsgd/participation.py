"""Participations of devices on the ledger: per task an account of pure epsilon, per device a cell of its cube.

A group's participation charges the cells of its devices, in one transaction, before any of their reports is drawn. The
account's budget is one participation, and a cube's spend is its largest cell: so a device that was charged cannot be
charged again, whoever asks. The contract enforces that, not this module. This module makes sure that a cell always
stands for the same device: a task is bound to the table that it began with (`bind_table`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from noisebank.bank.folder import BankParts
from noisebank.bank.own_accounts import find_own_opening, opener_entry
from noisebank.core.digests import derive_salt, digest_tagged, keccak, make_commitment
from noisebank.core.entropy import simulation_rng
from noisebank.core.errors import (
    AlreadyTookPart,
    BadRequest,
    BudgetExhausted,
    KeyReused,
    TableChanged,
    Tampered,
)
from noisebank.core.records import CellRun
from noisebank.federated.fedsgd.task import Task
from noisebank.ledger.protocol import OWNER_ANALYST, AccountOpening, AccountState, Claim, Reservation, Unit
from noisebank.vault.settlement import settle_one
from noisebank.vault.vault import Request, SealedAnswer

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

LEARNING_CATEGORY = 65
"""The public category byte of a group's participation."""
CUBE = 1
RAISE_DELAY = 86_400
OPENING_TURN = keccak(b"noisebank learning tasks")
"""The lock for opening tasks: two gateways must not open the same one twice."""
TABLE_REQUESTER, TABLE_KEY = "learning table", "table"
"""Requester and key under which the vault stores the fingerprint of a task's table."""


@dataclass(frozen=True, slots=True)
class TaskRecord:
    """What the vault stores for a task."""

    task: Task
    secret: bytes


class LearningAccount:
    """One task's participations. Safe for many threads, and for all gateways of a shared bank."""

    def __init__(self, id: bytes, record: TaskRecord, rooms: BankParts) -> None:
        self.id, self.task, self._secret, self._rooms = id, record.task, record.secret, rooms

    @property
    def state(self) -> AccountState:
        """Budget and spend, in epsilon; spend is that of the device that spent most."""
        return self._rooms.ledger.get_account(self.id)

    def device_order(self) -> NDArray[np.int64]:
        """Returns the device (row of a simulated table) of each cell: a fixed permutation that nobody chose."""
        seed = int.from_bytes(derive_salt(self._secret, "order", b""), "big")
        return np.asarray(simulation_rng(seed).permutation(self.task.devices))

    def bind_table(self, digest: bytes) -> None:
        """Bind the task to a table, once: afterwards every other one is `TableChanged`. Nothing is charged.

        Cells stand for rows, so the same people in another order would be other devices: some would report twice, and
        the ledger would not show it. The digest covers the rows in their order; the vault stores it salted. The order
        in which rows are asked is part of it: it comes from numpy's generator, which a later version may change.
        """
        order = np.ascontiguousarray(self.device_order(), dtype=">i8").tobytes()
        salt = derive_salt(self._secret, TABLE_KEY, b"")
        fingerprint = make_commitment(salt, keccak(digest, keccak(order))).hex()
        vault = self._rooms.vault
        with _take_turn(self._rooms, self.id):
            if vault.find_request_by_key(self.id, TABLE_REQUESTER, TABLE_KEY) is None and self.charged_ranges():
                raise TableChanged(
                    f"{self.task.name} began before tables were fingerprinted, so nobody can tell whether this is its "
                    "table. Start another task, under another name, with people who did not take part"
                )
            id = digest_tagged("learning table 1", {"account": self.id.hex(), "table": fingerprint})
            try:
                vault.save_request(Request(id, self.id, TABLE_REQUESTER, TABLE_KEY, {"table": fingerprint}))
            except KeyReused:
                raise TableChanged(
                    f"{self.task.name} goes on with the table that it began with, unchanged and in the same order: "
                    "with another one people would report twice. Nothing was charged"
                ) from None

    def charge_devices(self, start: int, stop: int) -> Reservation:
        """Charge the devices start .. stop - 1, once: a repeated call for the same group returns the same reservation.

        Durable on return. `AlreadyTookPart` if any of them was charged in another group; nothing is charged then.
        """
        if not 0 <= start < stop <= self.task.devices:
            raise BadRequest("devices", f"{start} .. {stop}", f"must lie in 0 .. {self.task.devices}")
        name = f"{start}-{stop}".encode()
        query = make_commitment(derive_salt(self._secret, "group", name), self.task.digest)
        id = digest_tagged("learning group 1", {"account": self.id.hex(), "group": query.hex()})
        earlier = self._rooms.ledger.find_reservation(self.id, id)
        if earlier is not None:
            return earlier
        if self.state.budget > self.task.device_charge:  # somebody raised it: still one participation per device
            self._refuse_charged(start, stop)
        cost, run = self.task.device_charge, CellRun(start, stop)
        claim = Claim(self.id, id, query, OWNER_ANALYST, LEARNING_CATEGORY, cost, cost, CUBE, (run,))
        try:
            (reservation,) = self._rooms.ledger.reserve(claim)
        except BudgetExhausted:
            self._refuse_charged(start, stop)
            raise  # nobody was charged before: the budget was lowered
        return reservation

    def charged_ranges(self) -> tuple[tuple[int, int], ...]:
        """Returns the devices that took part as (start, stop) of each group, in the ledger's order."""
        reservations = self._rooms.ledger.list_reservations(self.id)
        return tuple((run.start, run.stop) for reservation in reservations for run in reservation.runs)

    def group_mean(self, start: int, stop: int, draw: Callable[[], Floats]) -> Floats:
        """Returns the mean report of a group: charged, drawn, sealed, published; a repeated call returns the same bits.

        `draw` is called once per group, ever, unless a crash came before its result was sealed: nobody had seen that.
        """
        with _take_turn(self._rooms, self.id):
            reservation = self.charge_devices(start, stop)  # spent from here on
            sealed = settle_one(
                reservation,
                self._rooms.vault,
                self._rooms.ledger,
                draw=lambda: self._make_answer(reservation, draw()),
            )
        return np.array([float.fromhex(number) for number in sealed.body["mean"]])

    def published_means(self) -> list[Floats]:
        """Returns the published mean reports in the ledger's order, up to the first that the vault does not have."""
        means = []
        for reservation in self._rooms.ledger.list_reservations(self.id):
            sealed = self._rooms.vault.find_answer(reservation.id) if reservation.answer_digest is not None else None
            if sealed is None or sealed.digest != reservation.answer_digest:
                break
            means.append(np.array([float.fromhex(number) for number in sealed.body["mean"]]))
        return means

    def _make_answer(self, reservation: Reservation, mean: Floats) -> SealedAnswer:
        body = {
            "account": self.id.hex(),
            "id": reservation.id.hex(),
            "wanted": reservation.target.units,
            "cube": CUBE,
            "task": self.task.digest.hex(),
            "mean": [float(number).hex() for number in mean],
        }
        return SealedAnswer(reservation.id, self.id, reservation.query, body, self._rooms.entropy.token())

    def _refuse_charged(self, start: int, stop: int) -> None:
        for first, last in self.charged_ranges():
            if first < stop and start < last:
                raise AlreadyTookPart(
                    f"devices {max(first, start)} .. {min(last, stop) - 1} took part in {self.task.name} already; "
                    "each does once. Nothing was charged"
                ) from None


def open_task(rooms: BankParts, task: Task, raise_delay: int = RAISE_DELAY) -> LearningAccount:
    """Open a task's account: the vault's row first, then the ledger's account and its cube."""
    with _take_turn(rooms, OPENING_TURN):
        if any(account.task.name == task.name for account in list_tasks(rooms)):
            raise BadRequest("name", task.name, "is a task of this bank already")
        return _open_account(rooms, task, raise_delay)


def open_or_resume_task(rooms: BankParts, task: Task) -> LearningAccount:
    """Returns the task of this name, opened now or earlier. Refused if it was opened with other terms."""
    with _take_turn(rooms, OPENING_TURN):
        for account in list_tasks(rooms):
            if account.task.name == task.name:
                if account.task.digest != task.digest:
                    raise BadRequest("task", task.name, "was opened with other terms; give this one another name")
                return _ensure_cube(account, rooms)
        return _open_account(rooms, task, RAISE_DELAY)


def _open_account(rooms: BankParts, task: Task, raise_delay: int) -> LearningAccount:
    secret, salt = rooms.entropy.token(), rooms.entropy.token()
    data = make_commitment(salt, task.digest)
    row = opener_entry(rooms.ledger) | {"learning": task.to_json(), "secret": secret.hex(), "data_salt": salt.hex()}
    rooms.vault.save_opening(data, row)
    id = rooms.ledger.open_account(AccountOpening(task.device_charge, task.digest, data, raise_delay, Unit.EPSILON))
    return _ensure_cube(LearningAccount(id, TaskRecord(task, secret), rooms), rooms)


def list_tasks(rooms: BankParts) -> tuple[LearningAccount, ...]:
    """Returns all tasks of this bank, oldest first."""
    accounts = []
    for state in rooms.ledger.books.list_accounts():
        row = find_own_opening(rooms.ledger, rooms.vault, state)
        if row is not None and "learning" in row and state.unit is Unit.EPSILON:
            task = Task.from_json(row["learning"])
            if task.digest != state.policy_digest:
                raise Tampered(f"the vault's task {task.name} is not the one on the ledger")
            accounts.append(LearningAccount(state.account, TaskRecord(task, bytes.fromhex(row["secret"])), rooms))
    return tuple(accounts)


def find_task(rooms: BankParts, name: str) -> LearningAccount:
    """Returns the task of this name."""
    accounts = {account.task.name: account for account in list_tasks(rooms)}
    if name not in accounts:
        raise BadRequest("task", name, f"is not open; this bank has {', '.join(sorted(accounts)) or 'none yet'}")
    return _ensure_cube(accounts[name], rooms)


@contextmanager
def _take_turn(rooms: BankParts, name: bytes) -> Iterator[None]:
    """Hold the lock `name` across all gateways, with the ledger's newest state."""
    with rooms.vault.acquire_locks([name]):
        rooms.ledger.refresh()
        yield


def _ensure_cube(account: LearningAccount, rooms: BankParts) -> LearningAccount:
    """Returns the account with its cube: a crash may have come between the two."""
    if not account.state.cubes:
        rooms.ledger.add_cube(account.id, 1 << (account.task.devices - 1).bit_length())
    return account
