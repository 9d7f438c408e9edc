"""Tabulated cubes: counts and sums per cell, computed once, so that a measurement is a sum over cells, not a scan.

Exact for integers of any size: a cell's total is stored in limbs of 32 bits, so that adding up a
million cells stays inside 64 bits. Totals are as secret as the table itself.
"""

from __future__ import annotations

import io
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from noisebank.core.errors import Tampered
from noisebank.engines.dialect import Dialect, StorageType
from noisebank.engines.engine import read_key
from noisebank.engines.fields import Field, is_queryable, make_fields
from noisebank.engines.statement import counted_rows, unweighted_total
from noisebank.policy.model import Policy
from noisebank.queries.cells import Cube, Mask
from noisebank.queries.groups import column_groups
from noisebank.queries.query import Function, Query, QueryPart
from noisebank.queries.sensitivity import saturation_limit

LIMB_BITS = 32
COUNT_KEY = (Function.COUNT, "")
Limbs = NDArray[np.int64]
StatisticKey = tuple[Function, str]


@dataclass(frozen=True, eq=False)
class Tabulation:
    """Totals by function and column. The first axis holds the limbs, lowest first; only the last one has a sign."""

    cube: Cube
    totals: Mapping[StatisticKey, Limbs]

    def statistics(self, query: Query, policy: Policy) -> tuple[int, ...]:
        """Returns the statistics per group (one without GROUP BY), as an engine would; or raises `NotCellAligned`."""
        axes = [self.cube.columns.index(name) for name in query.by]
        sizes = [len(column_groups(policy.columns[name])) for name in query.by]
        sums: NDArray[np.object_] = np.zeros(sizes or 1, dtype=object)
        for part in query.parts:
            totals = self.totals[part.function, part.column or ""]
            for weight, predicate in part.weights:
                sums = sums + weight * self._sum_cells(totals, self.cube.cell_mask(predicate), axes, sizes)
        limit = saturation_limit(query, policy)
        return tuple(max(-limit, min(limit, int(total))) for total in sums.ravel())

    def _sum_cells(self, totals: Limbs, mask: Mask, axes: Sequence[int], sizes: Sequence[int]) -> NDArray[np.object_]:
        """Adds up the cells of a mask by group; returns an array of Python integers."""
        others = tuple(1 + axis for axis in range(len(self.cube.columns)) if axis not in axes)
        limbs = totals.sum(axis=others, where=mask)  # at most 2**20 limbs below 2**32: no overflow
        if axes:  # the remaining axes are in the cube's order; groups come in the order of GROUP BY
            order = [1 + sorted(axes).index(axis) for axis in axes]
            limbs = limbs.transpose(0, *order)[(slice(None), *(slice(size) for size in sizes))]
        return _join_limbs(limbs)

    def cell_totals(self, function: Function, column: str) -> NDArray[np.object_]:
        """Returns the total of each cell as an integer of any size."""
        return _join_limbs(self.totals[function, column])

    def to_bytes(self) -> bytes:
        """Returns the totals as bytes, for the vault."""
        file = io.BytesIO()
        arrays: dict[str, Any] = {f"{function.value} {c}": limbs for (function, c), limbs in self.totals.items()}
        np.savez_compressed(file, **arrays)
        return file.getvalue()

    @classmethod
    def from_bytes(cls, cube: Cube, data: bytes) -> Tabulation:
        """Reads the bytes of `to_bytes`; raises `Tampered` if they do not fit the cube."""
        totals = {}
        try:
            with np.load(io.BytesIO(data), allow_pickle=False) as file:
                for name in file.files:
                    function, _, column = name.partition(" ")
                    totals[Function(function), column] = file[name]
        except (OSError, ValueError, KeyError, EOFError, BadZipFile, zlib.error):
            raise Tampered("the vault's cube cannot be read") from None
        if any(limbs.shape[1:] != cube.shape for limbs in totals.values()):
            raise Tampered("the vault's cube has another shape than the policy's")
        return cls(cube, totals)


def statistic_keys(policy: Policy) -> list[StatisticKey]:
    """Returns what is tabulated: rows, and each bounded column's steps and their squares."""
    numbers = sorted(name for name, column in policy.columns.items() if column.is_numeric and column.low is not None)
    return [COUNT_KEY, *((function, name) for name in numbers for function in (Function.SUM, Function.SQUARES))]


def cells_statement(
    cube: Cube, policy: Policy, table: str, row_key: str, dialect: Dialect, storage_types: Mapping[str, StorageType]
) -> str:
    """Returns SQL for one row per non-empty cell: what identifies the cell, then its totals."""
    names = frozenset(name for name, column in policy.columns.items() if is_queryable(column))
    fields = make_fields(policy, names, dialect, storage_types)
    keys = [expression for name in cube.columns for expression in _piece_columns(fields[name])]
    totals = [
        unweighted_total(QueryPart(function, name or None, ()), fields, dialect)
        for function, name in statistic_keys(policy)
    ]
    positions = ", ".join(str(number) for number in range(1, len(keys) + 1))
    rows = counted_rows(policy, table, row_key, fields, dialect, storage_types)
    return f"SELECT {', '.join([*keys, *totals])} FROM {rows} GROUP BY {positions}"


def make_tabulation(cube: Cube, policy: Policy, rows: Iterable[Sequence[Any]]) -> Tabulation:
    """Returns the rows of `cells_statement` as a tabulation; cells without rows are 0."""
    columns = [policy.columns[name] for name in cube.columns]
    key_numbers: list[dict[str | int | None, int] | None] = [
        {key: number for number, key in enumerate(column.keys)} if column.is_keyed else None for column in columns
    ]
    names, cells, numbers = statistic_keys(policy), [], []
    for row in rows:
        cell, rest = 0, list(row)
        for size, keys, column in zip(cube.shape, key_numbers, columns, strict=True):
            if keys is None:
                piece, rest = int(rest[0]), rest[1:]
            else:
                missing, after = (int(rest[1]), 2) if column.nullable else (0, 1)
                if missing and column.complete:  # there is no cell for none of the keys
                    missing = 0
                piece, rest = keys.get(read_key(column, rest[0]), len(keys) + missing), rest[after:]
            cell = cell * size + piece
        cells.append(cell)  # each cell once: the statement groups by what identifies a cell
        numbers.append([int(total) for total in rest])
    totals = np.array(numbers, dtype=object).reshape(len(numbers), len(names))
    return Tabulation(cube, {name: _split_limbs(cube, cells, totals[:, number]) for number, name in enumerate(names)})


def _piece_columns(field: Field) -> list[str]:
    """Returns the SQL expressions that identify the piece of a column."""
    if field.column.is_keyed:
        missing = f"CASE WHEN {field.missing_test} THEN 1 ELSE 0 END"
        return [field.key_sql(), missing] if field.column.nullable else [field.key_sql()]
    groups = len(column_groups(field.column))
    return [
        f"CASE WHEN {field.missing_test} THEN {groups if field.column.nullable else 0} ELSE {field.group_sql()} END"
    ]


def _join_limbs(limbs: Limbs) -> NDArray[np.object_]:
    totals: NDArray[np.object_] = np.zeros(limbs.shape[1:], dtype=object)
    for number, limb in enumerate(limbs):
        totals = totals + limb.astype(object) * 2 ** (LIMB_BITS * number)
    return totals


def _split_limbs(cube: Cube, cells: list[int], totals: NDArray[np.object_]) -> Limbs:
    largest = max((abs(total) for total in totals), default=0)
    count = max(1, -(-(int(largest).bit_length() + 1) // LIMB_BITS))
    limbs = np.zeros((count, cube.cell_count), dtype=np.int64)
    for number in range(count):
        last = number == count - 1
        limbs[number, cells] = totals if last else totals & (2**LIMB_BITS - 1)
        totals = totals >> LIMB_BITS  # rounds down: what is left may be negative, limbs are not
    return limbs.reshape((count, *cube.shape))
