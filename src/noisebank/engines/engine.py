"""The `Engine` interface: rows stay inside the engine, exact integers come out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any, Protocol

from noisebank.core.errors import BadTable
from noisebank.policy.model import Column, Policy
from noisebank.queries.computed import resolve_column
from noisebank.queries.groups import column_groups
from noisebank.queries.query import Query

if TYPE_CHECKING:
    from noisebank.engines.cells import Tabulation
    from noisebank.queries.cells import Cube


@dataclass(frozen=True, slots=True)
class Inspection:
    """What the owner learns about a table when opening it; never shown to analysts."""

    rows: int
    missing: dict[str, int]
    """Per declared column: missing or unreadable values."""
    outside: dict[str, int]
    """Per bounded column: values beyond the bounds, which will be clipped."""
    unkeyed: dict[str, int]
    """Per keyed column: values that are none of the keys."""
    uncounted: int = 0
    """Rows that count nowhere, since a complete column has a value that is none of its keys."""


class Engine(Protocol):
    """One table. Its answers depend on the policy and the rows, on nothing else."""

    def identity(self) -> str:
        """Returns cheap metadata that changes when the table does. Reads no rows."""
        ...

    def statistic(self, query: Query) -> int:
        """Returns the exact statistic in steps, saturated at row cap x bound.

        Every value is clipped to its bounds first, so one person changes the result by at most the
        query's sensitivity; saturation is 1-Lipschitz and never changes it further.
        """
        ...

    def statistics(self, query: Query) -> tuple[int, ...]:
        """Returns the same for each group of a grouped query, in the order of `group_labels`; 0 for an empty group."""
        ...

    def statistics_many(self, queries: Sequence[Query]) -> list[tuple[int, ...] | BadTable]:
        """Returns the same for several queries, in as few statements as the engine can: the numbers of each (one if it
        is not grouped), or why they cannot be read."""
        ...

    def tabulate(self, cube: Cube) -> Tabulation:
        """Returns counts and sums of all cells, over the rows that count. Runs when the account is opened."""
        ...

    def inspect(self) -> Inspection:
        """Reads the whole table and returns counts for its owner. Runs when the account is opened."""
        ...

    def fingerprint(self, salt: bytes) -> bytes:
        """Returns a salted digest of the whole table."""
        ...


def fill_groups(query: Query, policy: Policy, rows: Iterable[Sequence[Any]]) -> tuple[int, ...]:
    """Returns one number per group, from an engine's rows of group and total; groups without rows are 0.

    A group is given by the numbers of its bins and truth values and by its declared keys.
    """
    columns = [resolve_column(name, policy.columns) for name in query.by]
    sizes = [len(column_groups(column)) for column in columns]
    key_numbers = [{key: number for number, key in enumerate(column.keys)} for column in columns]
    totals = [0] * prod(sizes)
    for *keys, total in rows:
        index = 0
        for column, size, numbers, value in zip(columns, sizes, key_numbers, keys, strict=True):
            key = read_key(column, value)
            if key is None or (column.is_keyed and key not in numbers):  # not quoted: it is a value of the table
                raise BadTable("the engine returns a group that the policy does not declare")
            index = index * size + (numbers[key] if column.is_keyed else int(key))
        totals[index] = int(total)
    return tuple(totals)


def read_key(column: Column, value: Any) -> str | int | None:
    """Returns a key or a group's number as an engine returns it: codes and numbers come in its own type of integer."""
    return value if value is None or isinstance(value, str) else int(value)


def read_statistics(engine: Engine, query: Query) -> tuple[int, ...]:
    """Returns the exact numbers of one query: one, or one per group."""
    return engine.statistics(query) if query.by else (engine.statistic(query),)


def read_each(engine: Engine, queries: Sequence[Query]) -> list[tuple[int, ...] | BadTable]:
    """Returns the numbers of several queries, one statement each: `statistics_many` where nothing better is known."""
    outcomes: list[tuple[int, ...] | BadTable] = []
    for query in queries:
        try:
            outcomes.append(read_statistics(engine, query))
        except BadTable as error:
            outcomes.append(error)
    return outcomes
