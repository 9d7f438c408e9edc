"""`SqlEngine`, the base of all engines: one statement per measurement; only integers and kinds of errors come out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

from noisebank.core.errors import BadTable
from noisebank.engines.cells import Tabulation, cells_statement, make_tabulation
from noisebank.engines.dialect import Dialect, StorageType
from noisebank.engines.engine import Inspection, fill_groups, read_each
from noisebank.engines.inspection import digest_statement, inspection_statement, parse_inspection, table_digest
from noisebank.engines.statement import query_statement
from noisebank.policy.model import Policy
from noisebank.queries.cells import Cube
from noisebank.queries.query import Query


class SqlEngine(ABC):
    """An `Engine` that writes SQL. Subclasses know where the table is and how to run a statement."""

    def __init__(self, policy: Policy, header: tuple[str, ...], row_key: str, dialect: Dialect) -> None:
        self._policy, self._header, self._row_key, self._dialect = policy, header, row_key, dialect
        missing = sorted(set(policy.columns) - set(header))
        if missing:
            # The table's own names are not listed: in a file without a header they are somebody's row.
            raise BadTable(f"{policy.source} has no column {', '.join(missing)}; it has {len(header)} columns")

    def statistic(self, query: Query) -> int:
        """See `Engine`."""
        ((value,),) = self._run_sql(self._query_sql(query))
        return int(value)

    def statistics(self, query: Query) -> tuple[int, ...]:
        """See `Engine`."""
        return fill_groups(query, self._policy, self._run_sql(self._query_sql(query)))

    def statistics_many(self, queries: Sequence[Query]) -> list[tuple[int, ...] | BadTable]:
        """See `Engine`."""
        return read_each(self, queries)

    def tabulate(self, cube: Cube) -> Tabulation:
        """See `Engine`."""
        sql = cells_statement(
            cube, self._policy, self._table_sql(), self._row_key, self._dialect, self._checked_storage_types()
        )
        return make_tabulation(cube, self._policy, self._run_sql(sql))

    def inspect(self) -> Inspection:
        """Counts rows and values for the owner. Each value is read as a measurement would read it."""
        (counts,) = self._run_sql(
            inspection_statement(self._policy, self._table_sql(), self._dialect, self._checked_storage_types())
        )
        return parse_inspection(self._policy, counts)

    def fingerprint(self, salt: bytes) -> bytes:
        """Digests all columns, declared or not, inside the engine; the order of rows is irrelevant."""
        stored = self._storage_types()
        (numbers,) = self._run_sql(digest_statement(salt, self._table_sql(), self._dialect, stored))
        return table_digest(salt, stored, numbers)

    @abstractmethod
    def identity(self) -> str:
        """See `Engine`."""

    @abstractmethod
    def _table_sql(self) -> str:
        """Returns the table as an SQL expression."""

    @abstractmethod
    def _storage_types(self) -> Mapping[str, StorageType]:
        """Returns how the table stores its columns right now: metadata, no rows."""

    @abstractmethod
    def _run_sql(self, sql: str) -> list[Any]:
        """Runs a statement and returns its rows; raises `BadTable` with only the kind of the engine's error."""

    def _query_sql(self, query: Query) -> str:
        reads = query.column_names() or self._policy.complete_columns or self._policy.unit != "row"
        stored = self._checked_storage_types() if reads else {}
        return query_statement(query, self._policy, self._table_sql(), self._row_key, self._dialect, stored)

    def _checked_storage_types(self) -> Mapping[str, StorageType]:
        stored = self._storage_types()
        gone = sorted(set(self._policy.columns) - set(stored))
        if gone:
            raise BadTable(f"{self._policy.source.name} has no column {', '.join(gone)} any more")
        return stored
