"""Heat maps for the statement: what was charged to each cell of a cube; neighbours are merged where there are many."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Any

from noisebank.account.account import Account
from noisebank.policy.model import Column, Kind
from noisebank.queries.groups import labels_of
from noisebank.service.web.svg import MOST_SIDE

MOST_CELLS = 65_536
"""A larger cube is not drawn, only described in words."""


@dataclass(frozen=True, slots=True)
class Map:
    """One cube as a table of rows and columns. Charges are precision."""

    columns: tuple[str, ...]
    cells: int
    rows_named: tuple[str, ...]
    across_named: tuple[str, ...]
    values: tuple[tuple[float, ...], ...]
    largest: float

    def plain(self) -> dict[str, Any]:
        """Return the map for the export."""
        return {
            "cube": list(self.columns), "rows": list(self.rows_named), "columns": list(self.across_named),
            "charged": [list(row) for row in self.values],
        }  # fmt: skip


def maps(account: Account, whole: bool = False) -> list[Map]:
    """Return one map per cube of the account; with `unmerged`, every cell of it."""
    columns = account.policy.columns
    heat_maps = []
    for names, number in zip(account.policy.cubes, account.cubes.numbers, strict=False):
        labels = [_labels(columns[name]) for name in names]
        count = prod(map(len, labels))
        largest = float(account.ledger.books.largest_cell(account.id, number))
        if count > MOST_CELLS:
            heat_maps.append(Map(names, count, (), (), (), largest))
            continue
        charged = account.ledger.books.cells(account.id, number)
        flat = [charged.at(cell) / 1e18 for cell in range(count)]
        across = labels[-1] if len(labels) > 1 else ["charged"] if len(labels[0]) > MOST_SIDE else labels[0]
        if len(labels) == 1:
            rows: list[str] = [names[0]] if across is labels[0] else list(labels[0])
        else:
            rows = [" / ".join(keys) for keys in product(*labels[:-1])]
        width = len(across)
        values = [flat[start : start + width] for start in range(0, count, width)]
        if not whole:
            rows, values = _together(rows, values)
            across, transposed = _together(list(across), [list(column) for column in zip(*values, strict=True)])
            values = [list(row) for row in zip(*transposed, strict=True)]
        heat_maps.append(Map(names, count, tuple(rows), tuple(across), tuple(tuple(row) for row in values), largest))
    return heat_maps


def _together(names: list[str], rows: list[list[float]]) -> tuple[list[str], list[list[float]]]:
    """Merge neighbours until at most `MAX_HEAT_SIDE` rows are left; the fullest cell of each group counts."""
    size = -(-len(names) // MOST_SIDE)
    if size == 1:
        return names, rows
    merged = [[max(cells) for cells in zip(*part, strict=True)] for part in _slices(rows, size)]
    return [f"{part[0]} … {part[-1]}" for part in _slices(names, size)], merged


def _slices(found: list[Any], size: int) -> Iterator[list[Any]]:
    for start in range(0, len(found), size):
        yield found[start : start + size]


def _labels(column: Column) -> list[str]:
    """Return the labels of a column's cells, in the order of the cube."""
    rest = ["none of them"] if column.kind is Kind.TEXT else []
    return [*labels_of(column), *rest, *(["missing"] if column.nullable else [])]
