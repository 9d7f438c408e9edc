"""Heat maps for the statement: what was charged to each cell of a cube; neighbours are merged where there are many."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Any

from noisebank.account.account import Account
from noisebank.policy.model import Column
from noisebank.queries.groups import column_labels
from noisebank.service.web.svg import MAX_HEAT_SIDE

MAX_CELLS = 65_536
"""A larger cube is not drawn, only described in words."""


@dataclass(frozen=True, slots=True)
class HeatMap:
    """One cube as a table of rows and columns. Charges are precision."""

    cube: tuple[str, ...]
    cell_count: int
    row_labels: tuple[str, ...]
    column_labels: tuple[str, ...]
    charges: tuple[tuple[float, ...], ...]
    max_charge: float

    def to_json(self) -> dict[str, Any]:
        """Return the map for the export."""
        return {
            "cube": list(self.cube), "rows": list(self.row_labels), "columns": list(self.column_labels),
            "charged": [list(row) for row in self.charges],
        }  # fmt: skip


def make_heat_maps(account: Account, unmerged: bool = False) -> list[HeatMap]:
    """Return one map per cube of the account; with `unmerged`, every cell of it."""
    columns = account.context.policy.columns
    heat_maps = []
    for names, number in zip(account.context.policy.cubes, account.cubes.cube_numbers, strict=False):
        labels = [_cell_labels(columns[name]) for name in names]
        count = prod(map(len, labels))
        largest = float(account.ledger.books.largest_cell_charge(account.id, number))
        if count > MAX_CELLS:
            heat_maps.append(HeatMap(names, count, (), (), (), largest))
            continue
        charged = account.ledger.books.get_cell_charges(account.id, number)
        flat = [charged.charge_at(cell) / 1e18 for cell in range(count)]
        across = labels[-1] if len(labels) > 1 else ["charged"] if len(labels[0]) > MAX_HEAT_SIDE else labels[0]
        if len(labels) == 1:
            rows: list[str] = [names[0]] if across is labels[0] else list(labels[0])
        else:
            rows = [" / ".join(keys) for keys in product(*labels[:-1])]
        width = len(across)
        values = [flat[start : start + width] for start in range(0, count, width)]
        if not unmerged:
            rows, values = _merge_rows(rows, values)
            across, transposed = _merge_rows(list(across), [list(column) for column in zip(*values, strict=True)])
            values = [list(row) for row in zip(*transposed, strict=True)]
        heat_maps.append(
            HeatMap(names, count, tuple(rows), tuple(across), tuple(tuple(row) for row in values), largest)
        )
    return heat_maps


def _merge_rows(names: list[str], rows: list[list[float]]) -> tuple[list[str], list[list[float]]]:
    """Merge neighbours until at most `MAX_HEAT_SIDE` rows are left; the fullest cell of each group counts."""
    size = -(-len(names) // MAX_HEAT_SIDE)
    if size == 1:
        return names, rows
    merged = [[max(cells) for cells in zip(*part, strict=True)] for part in _split_list(rows, size)]
    return [f"{part[0]} … {part[-1]}" for part in _split_list(names, size)], merged


def _split_list(items: list[Any], size: int) -> Iterator[list[Any]]:
    for start in range(0, len(items), size):
        yield items[start : start + size]


def _cell_labels(column: Column) -> list[str]:
    """Return the labels of a column's cells, in the order of the cube."""
    rest = ["none of them"] if column.is_keyed and not column.complete else []
    return [*column_labels(column), *rest, *(["missing"] if column.nullable else [])]
