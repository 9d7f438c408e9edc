"""Cubes: the cells that declared columns cut a table into, and predicates as sets of cells.

A cube's columns have declared keys, bins or truth values. Together with "none of the keys" (unless the keys are all
there is) and the missing value these partition each column's whole domain, so every row lies in exactly one cell, and
a predicate that never cuts through a bin is exactly a set of cells. `planning.serving` prices queries over cells,
`engines` tabulates them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from math import prod
from weakref import WeakValueDictionary

import numpy as np
from numpy.typing import NDArray

from noisebank.policy.model import Column, Policy
from noisebank.queries.groups import column_groups
from noisebank.queries.predicates import FALSE, TRUE, Predicate
from noisebank.queries.query import QueryPart
from noisebank.queries.values import ValueSet

Mask = NDArray[np.bool_]


class NotCellAligned(Exception):
    """The predicate is not a set of cells: it cuts through a bin, or reads a column that the cube lacks."""


def partition_domain(column: Column) -> tuple[ValueSet, ...]:
    """Returns a partition of the column's domain: its groups, then "none of the keys" if its keys may not be all there
    is, then the missing value."""
    has_rest = column.is_keyed and not column.complete
    rest = [ValueSet(((len(column.keys), len(column.keys)),))] if has_rest else []
    return (*column_groups(column), *rest, *([ValueSet((), has_null=True)] if column.nullable else []))


@dataclass(frozen=True)
class Cube:
    """Declared columns in the order of the policy's cube, each with the pieces of its domain."""

    columns: tuple[str, ...]
    pieces: tuple[tuple[ValueSet, ...], ...]
    policy_columns: Mapping[str, Column] | None = field(default=None, compare=False, repr=False)
    """The policy's columns."""

    @classmethod
    def for_columns(cls, names: tuple[str, ...], columns: Mapping[str, Column]) -> Cube:
        """Returns the cube over these columns; raises `BadQuery` if one of them has neither keys nor bins.

        Cubes in use are shared per policy: the pieces of 65,536 bins take 14 MB, and every plan holds on to them.
        """
        key = id(columns), names  # unique while the cube lives: it holds a reference to its columns
        cube = LIVE_CUBES.get(key)
        if cube is None:
            cube = LIVE_CUBES.setdefault(
                key, cls(names, tuple(partition_domain(columns[name]) for name in names), columns)
            )
        return cube

    @cached_property
    def shape(self) -> tuple[int, ...]:
        """Number of pieces of each column."""
        return tuple(len(pieces) for pieces in self.pieces)

    @property
    def cell_count(self) -> int:
        """Number of cells."""
        return prod(self.shape)

    def cell_mask(self, predicate: Predicate) -> Mask:
        """Returns the cells where the predicate holds, broadcastable to `shape`; or raises `NotCellAligned`."""
        flat = (1,) * len(self.columns)
        masks: dict[int, Mask] = {id(TRUE): np.ones(flat, bool), id(FALSE): np.zeros(flat, bool)}
        for node in predicate.nodes:  # children first
            mask = masks[id(FALSE)]
            for values, child in node.branches:
                mask = mask | (self._column_mask(node.column, values) & masks[id(child)])
            masks[id(node)] = mask
        return masks[id(predicate)]

    def _column_mask(self, column: str, values: ValueSet) -> Mask:
        if column not in self.columns:
            raise NotCellAligned(column)
        axis = self.columns.index(column)
        lows, highs = self._piece_bounds[axis]
        inside = np.zeros(len(lows), dtype=bool)
        for low, high in values.ranges:
            within, touched = (lows >= low) & (highs <= high), (lows <= high) & (highs >= low)
            if (within != touched).any():
                raise NotCellAligned(column)
            inside |= within
        missing = [index for index, piece in enumerate(self.pieces[axis]) if piece.has_null] if values.has_null else []
        inside[missing] = True
        shape = [1] * len(self.columns)
        shape[axis] = len(inside)
        return inside.reshape(shape)

    @cached_property
    def _piece_bounds(self) -> list[tuple[NDArray[np.int64], NDArray[np.int64]]]:
        """First and last value of each piece, per column; the missing value lies beyond all others."""
        beyond = 2**62
        bounds = []
        for pieces in self.pieces:
            runs = [piece.ranges[0] if piece.ranges else (beyond, beyond) for piece in pieces]
            bounds.append((np.array([low for low, _ in runs]), np.array([high for _, high in runs])))
        return bounds


LIVE_CUBES: WeakValueDictionary[tuple[int, tuple[str, ...]], Cube] = WeakValueDictionary()


def has_cell_totals(part: QueryPart, policy: Policy) -> bool:
    """Whether cells hold what a part adds up: rows, and declared numbers; not dates, nor what single rows compute."""
    return part.column is None or (part.column in policy.columns and policy.columns[part.column].is_numeric)


def policy_cubes(policy: Policy) -> tuple[Cube, ...]:
    """Returns the policy's cubes, fewest cells first: the first that can answer is the cheapest."""
    return tuple(
        sorted((Cube.for_columns(names, policy.columns) for names in policy.cubes), key=lambda cube: cube.cell_count)
    )
