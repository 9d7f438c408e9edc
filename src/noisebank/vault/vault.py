"""What a vault is to the bank, with its guarantees: it keeps what must not be public and must not be lost."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

from noisebank.core.digests import answer_text_digest, canonical
from noisebank.core.records import Point
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
"""What every vault keeps, wherever it is. Rows are added, never changed."""

Released = tuple[tuple[Precision, tuple[GridValue, ...]], ...]
"""All released answers to a query by rising precision: one number each, or one a group."""


@dataclass(frozen=True)
class Request:
    """What somebody asked, durable before anything is charged, so that a crash can be finished."""

    id: bytes
    account: bytes
    analyst: str
    key: str
    body: dict[str, Any]

    @cached_property
    def text(self) -> str:
        """The body as it is kept."""
        return canonical(self.body)


@dataclass(frozen=True)
class Sealed:
    """An answer that will never change: a retry reads it and never draws again."""

    id: bytes
    account: bytes
    query: bytes
    body: dict[str, Any]
    salt: bytes

    def __hash__(self) -> int:
        """A reservation has one answer."""
        return hash(self.id)

    @cached_property
    def text(self) -> str:
        """The canonical text that the published digest commits to."""
        return canonical(self.body)

    @cached_property
    def digest(self) -> bytes:
        """What goes on the ledger: salted, so that nobody can guess the answer from it."""
        return answer_text_digest(self.salt, self.text)

    @property
    def point(self) -> Point:
        """The answer as a point of its query's bridge."""
        return Point(Precision(self.body["wanted"]), self.values[0])

    @property
    def values(self) -> tuple[GridValue, ...]:
        """The released numbers: one, or one a group."""
        if "values" in self.body:
            return tuple(GridValue(numerator, shift) for numerator, shift in self.body["values"])
        numerator, shift = self.body["value"]
        return (GridValue(numerator, shift),)


class Vault(Protocol):
    """Openings, requests, sealed answers. Rows are added, never changed.

    Durable on return: what `save_...` and `seal` were given is there after a power loss. The same row again changes
    nothing. Seen by all: what has returned to one process is read by every other that uses the same vault.
    A failure raises `OutcomeUnknown` (the row may be there or not: look, or write it again) or ends the process.
    """

    @property
    def shared(self) -> bool:
        """Whether other processes may use this vault at the same time."""
        ...

    @property
    def lost(self) -> frozenset[bytes]:
        """Reservations of which nobody knows whether an answer was shown: this vault comes from a backup that was made
        between their reservation and their seal. Never measured again."""
        ...

    def turns(self, names: Sequence[bytes]) -> AbstractContextManager[object]:
        """One at a time for each name, over all threads and all processes that use this vault.

        Not to be taken inside of another. A process that dies gives its turns back. Who has lost its turn, because
        the connection that holds it is gone, cannot seal any more.
        """
        ...

    def save_opening(self, data: bytes, body: dict[str, Any]) -> None:
        """Keeps what an account needs, under its data commitment, before the ledger opens it."""
        ...

    def opening(self, data: bytes) -> dict[str, Any] | None:
        """What was saved for the account with this data commitment."""
        ...

    def save_identity(self, data: bytes, identity: str, source: Any) -> None:
        """The same rows were written again, or somewhere else: what tells from now on that they have not changed."""
        ...

    def save_cube(self, body: bytes) -> bytes:
        """Keeps the totals of a cube's cells, as secret as the table; returns their digest."""
        ...

    def cube(self, digest: bytes) -> bytes:
        """The totals with this digest, and no others."""
        ...

    def save_analyst(self, account: bytes, digest: bytes, name: str) -> None:
        """Keeps the name behind a salted digest on the ledger."""
        ...

    def analysts(self, account: bytes) -> tuple[str, ...]:
        """Names of the analysts with a limit, oldest first."""
        ...

    def save_request(self, request: Request) -> None:
        """Keeps a request. The same one again is fine; the same key for another one is `KeyReused`, whoever took it."""
        ...

    def request(self, id: bytes) -> Request | None:
        """A request by its reservation id."""
        ...

    def request_under(self, account: bytes, analyst: str, key: str) -> Request | None:
        """The request that came with an idempotency key."""
        ...

    def seal(self, sealed: Sealed) -> Sealed:
        """Keeps an answer for ever, and returns the one that is kept: the first that was sealed for its reservation.

        From here on nobody draws noise for this reservation again. Who gets another answer back than it gave has lost
        a race: its own was never there. Only for whoever has the query's turn.
        """
        ...

    def answer(self, id: bytes) -> Sealed | None:
        """The sealed answer of a reservation."""
        ...

    def answers(self, account: bytes) -> Iterator[Sealed]:
        """All sealed answers of an account, in no order."""
        ...

    def sealed_ids(self) -> tuple[tuple[bytes, bytes], ...]:
        """Account and id of the reservations whose answers are sealed."""
        ...

    def released(self, account: bytes, query: bytes) -> Released:
        """All released answers to a query, by rising precision."""
        ...

    def points(self, account: bytes, query: bytes, group: int = 0) -> tuple[Point, ...]:
        """The same as points of the bridge of the query, or of one of its groups."""
        ...

    def close(self) -> None:
        """Nothing is lost."""
        ...


def points_of(released: Released, group: int = 0) -> tuple[Point, ...]:
    """The points of one group's bridge."""
    return tuple(Point(precision, values[group]) for precision, values in released)
