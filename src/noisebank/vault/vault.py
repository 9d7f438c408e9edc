"""`Vault`: the boundary between the bank and its secret, durable storage, with the guarantees of every implementation.

Implementations: `sqlite_vault.SqliteVault` (one file, one process) and `postgres_vault.PostgresVault` (shared).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

from noisebank.core.digests import digest_answer_text, to_canonical_json
from noisebank.core.errors import KeyReused
from noisebank.core.records import BridgePoint
from noisebank.core.units import GridValue, Precision

TABLES = {
    "openings": ("data", "body"),
    "cubes": ("digest", "body"),
    "identities": ("data", "body"),
    "requests": ("id", "account", "analyst", "key", "body"),
    "answers": ("id", "account", "query", "body", "salt"),
    "analysts": ("account", "digest", "name"),
    "lost": ("id",),
}
"""Tables and columns of every vault. Rows are added, never changed."""

ReleasedAnswers = tuple[tuple[Precision, tuple[GridValue, ...]], ...]
"""All released answers to a query by rising precision: each has one number, or one per group."""


@dataclass(frozen=True)
class Request:
    """A request as it is saved: durable before anything is charged, so that it can be finished after a crash."""

    id: bytes
    account: bytes
    analyst: str
    key: str
    body: dict[str, Any]

    @cached_property
    def text(self) -> str:
        """The body as it is stored: canonical JSON."""
        return to_canonical_json(self.body)


@dataclass(frozen=True)
class SealedAnswer:
    """An answer that never changes: a retry reads it and draws no new noise."""

    id: bytes
    account: bytes
    query: bytes
    body: dict[str, Any]
    salt: bytes

    def __hash__(self) -> int:
        """By id: a reservation has one answer."""
        return hash(self.id)

    @cached_property
    def text(self) -> str:
        """The canonical text that the published digest commits to."""
        return to_canonical_json(self.body)

    @cached_property
    def digest(self) -> bytes:
        """The digest that is published on the ledger: salted, so that nobody can guess the answer from it."""
        return digest_answer_text(self.salt, self.text)

    @property
    def point(self) -> BridgePoint:
        """The answer as a point of its query's bridge."""
        return BridgePoint(Precision(self.body["wanted"]), self.values[0])

    @property
    def values(self) -> tuple[GridValue, ...]:
        """The released numbers, in steps: one, or one per group."""
        if "values" in self.body:
            return tuple(GridValue(numerator, shift) for numerator, shift in self.body["values"])
        numerator, shift = self.body["value"]
        return (GridValue(numerator, shift),)


class Vault(Protocol):
    """Openings, requests, sealed answers. Rows are added, never changed.

    Durable on return: what `save_...` and `seal` have stored survives a power loss. The same row again changes
    nothing. Consistent: once a write has returned, every process that uses the same vault reads it.
    A failure raises `OutcomeUnknown` (the row may be there or not: look, or write it again) or ends the process.
    """

    @property
    def is_shared(self) -> bool:
        """Whether other processes may use this vault at the same time."""
        ...

    @property
    def lost_ids(self) -> frozenset[bytes]:
        """Reservations whose answer somebody may have seen, though this vault does not have it: it comes from a backup
        that was made between their reservation and their seal. They are never measured again."""
        ...

    def acquire_locks(self, names: Sequence[bytes]) -> AbstractContextManager[object]:
        """Takes one lock per name, exclusive among all threads and processes that use this vault.

        Not reentrant. A process that dies releases its locks. Whoever has lost a lock, because the connection that
        holds it is gone, cannot seal any more.
        """
        ...

    def save_opening(self, data: bytes, body: dict[str, Any]) -> None:
        """Saves what an account needs, under its data commitment, before the ledger opens the account."""
        ...

    def find_opening(self, data: bytes) -> dict[str, Any] | None:
        """Returns what was saved for the account with this data commitment; None if nothing was."""
        ...

    def save_identity(self, data: bytes, identity: str, source: Any) -> None:
        """Saves a new identity and source of a table whose rows are the same but were written again or moved."""
        ...

    def save_cube(self, body: bytes) -> bytes:
        """Saves the totals of a cube's cells, which are as secret as the table; returns their digest."""
        ...

    def read_cube(self, digest: bytes) -> bytes:
        """Returns the totals with this digest; `Tampered` if they are missing or changed."""
        ...

    def save_analyst(self, account: bytes, digest: bytes, name: str) -> None:
        """Saves the name of an analyst whom the ledger knows by a salted digest."""
        ...

    def list_analysts(self, account: bytes) -> tuple[str, ...]:
        """Returns the names of the analysts with a limit, oldest first."""
        ...

    def save_request(self, request: Request) -> None:
        """Saves a request. The same one again changes nothing; the same key with another request is `KeyReused`."""
        ...

    def save_requests(self, requests: Sequence[Request]) -> list[KeyReused | None]:
        """Saves requests in one commit; returns `KeyReused` for each whose key names another request, also one that
        comes earlier in the list."""
        ...

    def find_request(self, id: bytes) -> Request | None:
        """Returns a request by its reservation's id; None if there is none."""
        ...

    def find_request_by_key(self, account: bytes, analyst: str, key: str) -> Request | None:
        """Returns the request that came with an idempotency key; None if there is none."""
        ...

    def seal(self, sealed: SealedAnswer) -> SealedAnswer:
        """Stores an answer for ever; returns the stored one, which is the first that was sealed for its reservation.

        From here on nobody draws noise for this reservation again. A caller that gets another answer back than its own
        has lost a race: its own was never stored. The caller must hold the query's lock.
        """
        ...

    def seal_many(self, answers: Sequence[SealedAnswer]) -> list[SealedAnswer]:
        """The same for answers to several reservations, in one commit."""
        ...

    def find_answer(self, id: bytes) -> SealedAnswer | None:
        """Returns the sealed answer of a reservation; None if there is none."""
        ...

    def list_answers(self, account: bytes) -> Iterator[SealedAnswer]:
        """Returns all sealed answers of an account, in no order."""
        ...

    def sealed_ids(self) -> tuple[tuple[bytes, bytes], ...]:
        """Returns account and id of every reservation whose answer is sealed."""
        ...

    def list_released(self, account: bytes, query: bytes) -> ReleasedAnswers:
        """Returns all released answers to a query, by rising precision."""
        ...

    def close(self) -> None:
        """Releases files and connections. Nothing is lost."""
        ...


def to_points(released: ReleasedAnswers, group: int = 0) -> tuple[BridgePoint, ...]:
    """Returns the points of one group's bridge."""
    return tuple(BridgePoint(precision, values[group]) for precision, values in released)
