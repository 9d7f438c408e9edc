"""`SqlEngine`, the base of all engines: one statement per measurement; only integers and kinds of errors come out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

from noisebank.core.errors import BadTable
from noisebank.engines.cells import Tabulation, cells_statement, tabulated
from noisebank.engines.dialect import Dialect, Stored
from noisebank.engines.engine import Inspection, filled
from noisebank.engines.inspection import digest_of, digest_statement, inspection_of, inspection_statement
from noisebank.engines.statement import statement
from noisebank.policy.model import Policy
from noisebank.queries.cells import Cube
from noisebank.queries.query import Query
from noisebank.runtime.gathering import apart


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
        ((value,),) = apart(lambda: self._rows(self._statement(query)))
        return int(value)

    def statistics(self, query: Query) -> tuple[int, ...]:
        """See `Engine`."""
        return filled(query, self._policy, apart(lambda: self._rows(self._statement(query))))

    def tabulate(self, cube: Cube) -> Tabulation:
        """See `Engine`."""
        sql = cells_statement(cube, self._policy, self._table(), self._row_key, self._dialect, self._known())
        return tabulated(cube, self._policy, self._rows(sql))

    def inspect(self) -> Inspection:
        """Counts rows and values for the owner. Each value is read as a measurement would read it."""
        (counts,) = self._rows(inspection_statement(self._policy, self._table(), self._dialect, self._known()))
        return inspection_of(self._policy, counts)

    def fingerprint(self, salt: bytes) -> bytes:
        """Digests all columns, declared or not, inside the engine; the order of rows is irrelevant."""
        stored = self._stored()
        (numbers,) = self._rows(digest_statement(salt, self._table(), self._dialect, stored))
        return digest_of(salt, stored, numbers)

    @abstractmethod
    def identity(self) -> str:
        """See `Engine`."""

    @abstractmethod
    def _table(self) -> str:
        """Returns the table as an SQL expression."""

    @abstractmethod
    def _stored(self) -> Mapping[str, Stored]:
        """Returns how the table stores its columns right now: metadata, no rows."""

    @abstractmethod
    def _rows(self, sql: str) -> list[Any]:
        """Runs a statement and returns its rows; raises `BadTable` with only the kind of the engine's error."""

    def _statement(self, query: Query) -> str:
        reads = query.columns() or self._policy.unit != "row"
        stored = self._known() if reads else {}
        return statement(query, self._policy, self._table(), self._row_key, self._dialect, stored)

    def _known(self) -> Mapping[str, Stored]:
        stored = self._stored()
        gone = sorted(set(self._policy.columns) - set(stored))
        if gone:
            raise BadTable(f"{self._policy.source.name} has no column {', '.join(gone)} any more")
        return stored
