"""What all SQL engines share: one statement a measurement, integers and kinds of errors out."""

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
    """An `Engine` that writes SQL. Subclasses say where the table is and how to run a statement."""

    def __init__(self, policy: Policy, header: tuple[str, ...], row_key: str, dialect: Dialect) -> None:
        self._policy, self._header, self._row_key, self._dialect = policy, header, row_key, dialect
        missing = sorted(set(policy.columns) - set(header))
        if missing:
            # Its own names are not listed: where a file has no header they are somebody's row.
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
        """Counts for the owner. Each value is looked at as a measurement would see it."""
        (found,) = self._rows(inspection_statement(self._policy, self._table(), self._dialect, self._known()))
        return inspection_of(self._policy, found)

    def fingerprint(self, salt: bytes) -> bytes:
        """Computed inside the engine over all columns, declared or not; the order of rows plays no role."""
        stored = self._stored()
        (found,) = self._rows(digest_statement(salt, self._table(), self._dialect, stored))
        return digest_of(salt, stored, found)

    @abstractmethod
    def identity(self) -> str:
        """See `Engine`."""

    @abstractmethod
    def _table(self) -> str:
        """The table as an expression of the engine."""

    @abstractmethod
    def _stored(self) -> Mapping[str, Stored]:
        """How the table stores its columns right now: metadata, no rows."""

    @abstractmethod
    def _rows(self, sql: str) -> list[Any]:
        """What a statement returns; `BadTable` with nothing but the kind of the engine's error."""

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
