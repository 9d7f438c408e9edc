"""Cubes as heat maps: what was charged to each cell, drawn together where there are too many to see."""

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
"""Looked at for a page; a larger cube is described in words."""


@dataclass(frozen=True, slots=True)
class Map:
    """One cube as rows and columns."""

    columns: tuple[str, ...]
    cells: int
    rows_named: tuple[str, ...]
    across_named: tuple[str, ...]
    values: tuple[tuple[float, ...], ...]
    largest: float

    def plain(self) -> dict[str, Any]:
        """For the export."""
        return {
            "cube": list(self.columns), "rows": list(self.rows_named), "columns": list(self.across_named),
            "charged": [list(row) for row in self.values],
        }  # fmt: skip


def maps(account: Account, whole: bool = False) -> list[Map]:
    """Every cube of the account; `whole` draws nothing together."""
    columns = account.policy.columns
    found = []
    for names, number in zip(account.policy.cubes, account.cubes.numbers, strict=False):
        named = [_labels(columns[name]) for name in names]
        count = prod(len(each) for each in named)
        largest = float(account.ledger.books.largest_cell(account.id, number))
        if count > MOST_CELLS:
            found.append(Map(names, count, (), (), (), largest))
            continue
        charged = account.ledger.books.cells(account.id, number)
        flat = [charged.at(cell) / 1e18 for cell in range(count)]
        across = named[-1] if len(named) > 1 else ["charged"] if len(named[0]) > MOST_SIDE else named[0]
        if len(named) == 1:
            rows: list[str] = [names[0]] if across is named[0] else list(named[0])
        else:
            rows = [" / ".join(keys) for keys in product(*named[:-1])]
        width = len(across)
        values = [flat[start : start + width] for start in range(0, count, width)]
        if not whole:
            rows, values = _together(rows, values)
            turned, flipped = _together(list(across), [list(column) for column in zip(*values, strict=True)])
            across, values = turned, [list(row) for row in zip(*flipped, strict=True)]
        found.append(Map(names, count, tuple(rows), tuple(across), tuple(tuple(row) for row in values), largest))
    return found


def _together(names: list[str], rows: list[list[float]]) -> tuple[list[str], list[list[float]]]:
    """At most `MOST_SIDE` rows: neighbours in one, the fullest cell of each counts."""
    size = -(-len(names) // MOST_SIDE)
    if size == 1:
        return names, rows
    merged = [[max(cells) for cells in zip(*part, strict=True)] for part in _slices(rows, size)]
    return [f"{part[0]} … {part[-1]}" for part in _slices(names, size)], merged


def _slices(found: list[Any], size: int) -> Iterator[list[Any]]:
    for start in range(0, len(found), size):
        yield found[start : start + size]


def _labels(column: Column) -> list[str]:
    """Names of a column's pieces, in the order of the cube's cells."""
    rest = ["none of them"] if column.kind is Kind.TEXT else []
    return [*labels_of(column), *rest, *(["missing"] if column.nullable else [])]
