"""What an engine is: rows stay inside it, exact integers come out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any, Protocol

from noisebank.core.errors import BadTable
from noisebank.policy.model import Policy
from noisebank.queries.groups import parts_of
from noisebank.queries.query import Query

if TYPE_CHECKING:
    from noisebank.engines.cells import Tabulation
    from noisebank.queries.cells import Cube


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

    def statistics(self, query: Query) -> tuple[int, ...]:
        """The same for each group of a grouped query, in the order of `group_labels`; 0 where no row lies in it."""
        ...

    def tabulate(self, cube: Cube) -> Tabulation:
        """Counts and sums of all cells, over the rows that count; for the owner, when the account is opened."""
        ...

    def inspect(self) -> Inspection:
        """A full look at the table, for its owner, when the account is opened."""
        ...

    def fingerprint(self, salt: bytes) -> bytes:
        """A salted digest of the whole table."""
        ...


def filled(query: Query, policy: Policy, rows: Iterable[Sequence[Any]]) -> tuple[int, ...]:
    """An engine's rows of groups and a total, as one number a group; groups without rows are 0.

    A group is told by the numbers of its bins and truth values and by its declared keys.
    """
    columns = [policy.columns[name] for name in query.by]
    sizes = [len(parts_of(column)) for column in columns]
    places = [{key: place for place, key in enumerate(column.keys)} for column in columns]
    totals = [0] * prod(sizes)
    for *keys, total in rows:
        place = 0
        for size, known, key in zip(sizes, places, keys, strict=True):
            if key is None or (isinstance(key, str) and key not in known):  # not quoted: it is of the table
                raise BadTable("the engine returns a group that the policy does not declare")
            place = place * size + (known[key] if isinstance(key, str) else int(key))
        totals[place] = int(total)
    return tuple(totals)
