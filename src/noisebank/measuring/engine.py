"""What an engine is: rows stay inside it, exact integers come out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from noisebank.queries.query import Query


@dataclass(frozen=True, slots=True)
class Inspection:
    """What the owner learns when opening a table; never shown to analysts."""

    rows: int
    missing: dict[str, int]
    """Per declared column: missing or unreadable values."""
    outside: dict[str, int]
    """Per bounded column: values beyond the bounds, which will be clipped."""
    unkeyed: dict[str, int]
    """Per keyed column: values that are none of the keys."""


class Engine(Protocol):
    """One table. Its answers depend on the policy and the rows, on nothing else."""

    def identity(self) -> str:
        """Cheap metadata that changes when the table does. Opens no rows."""
        ...

    def statistic(self, query: Query) -> int:
        """The exact statistic in steps, saturated at row cap x bound.

        Every value is clipped to its bounds first, so one person moves the result by at most the
        query's sensitivity; saturation is 1-Lipschitz and never moves it further.
        """
        ...

    def inspect(self) -> Inspection:
        """A full look at the table, for its owner, when the account is opened."""
        ...

    def fingerprint(self, salt: bytes) -> bytes:
        """A salted digest of the whole table."""
        ...
