"""Cubes: the cells that declared columns cut a table into, and predicates as sets of cells.

A cube's columns have declared keys, bins or truth values. Together with "none of the keys" and the
missing value these partition each column's whole domain, so every row lies in exactly one cell, and
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

from noisebank.policy.model import Column, Kind, Policy
from noisebank.queries.groups import parts_of
from noisebank.queries.predicates import FALSE, TRUE, Predicate
from noisebank.queries.values import Values

Mask = NDArray[np.bool_]


class CutsCells(Exception):
    """The predicate is not a set of cells: it cuts through a bin, or reads a column that the cube lacks."""


def pieces_of(column: Column) -> tuple[Values, ...]:
    """Returns a partition of the column's domain: its groups, then "none of the keys", then the missing value."""
    rest = [Values(((len(column.keys), len(column.keys)),))] if column.kind is Kind.TEXT else []
    return (*parts_of(column), *rest, *([Values((), null=True)] if column.nullable else []))


@dataclass(frozen=True)
class Cube:
    """Declared columns in the order of the policy's cube, each with the pieces of its domain."""

    columns: tuple[str, ...]
    pieces: tuple[tuple[Values, ...], ...]
    made_of: Mapping[str, Column] | None = field(default=None, compare=False, repr=False)
    """The policy's columns."""

    @classmethod
    def of(cls, names: tuple[str, ...], columns: Mapping[str, Column]) -> Cube:
        """Returns the cube over these columns; raises `BadQuery` if one of them has neither keys nor bins.

        Cubes in use are shared per policy: the pieces of 65,536 bins take 14 MB, and every plan holds on to them.
        """
        key = id(columns), names  # unique while the cube lives: it holds a reference to its columns
        cube = IN_USE.get(key)
        if cube is None:
            cube = IN_USE.setdefault(key, cls(names, tuple(pieces_of(columns[name]) for name in names), columns))
        return cube

    @cached_property
    def shape(self) -> tuple[int, ...]:
        """Number of pieces of each column."""
        return tuple(len(pieces) for pieces in self.pieces)

    @property
    def cells(self) -> int:
        """Number of cells."""
        return prod(self.shape)

    def mask(self, predicate: Predicate) -> Mask:
        """Returns the cells where the predicate holds, broadcastable to `shape`; or raises `NotCellAligned`."""
        flat = (1,) * len(self.columns)
        masks: dict[int, Mask] = {id(TRUE): np.ones(flat, bool), id(FALSE): np.zeros(flat, bool)}
        for node in predicate.nodes:  # children first
            mask = masks[id(FALSE)]
            for values, child in node.branches:
                mask = mask | (self._along(node.column, values) & masks[id(child)])
            masks[id(node)] = mask
        return masks[id(predicate)]

    def _along(self, column: str, values: Values) -> Mask:
        if column not in self.columns:
            raise CutsCells(column)
        axis = self.columns.index(column)
        lows, highs = self._edges[axis]
        inside = np.zeros(len(lows), dtype=bool)
        for low, high in values.runs:
            within, touched = (lows >= low) & (highs <= high), (lows <= high) & (highs >= low)
            if (within != touched).any():
                raise CutsCells(column)
            inside |= within
        missing = [index for index, piece in enumerate(self.pieces[axis]) if piece.null] if values.null else []
        inside[missing] = True
        shape = [1] * len(self.columns)
        shape[axis] = len(inside)
        return inside.reshape(shape)

    @cached_property
    def _edges(self) -> list[tuple[NDArray[np.int64], NDArray[np.int64]]]:
        """First and last value of each piece, per column; the missing value lies beyond all others."""
        beyond = 2**62
        bounds = []
        for pieces in self.pieces:
            runs = [piece.runs[0] if piece.runs else (beyond, beyond) for piece in pieces]
            bounds.append((np.array([low for low, _ in runs]), np.array([high for _, high in runs])))
        return bounds


IN_USE: WeakValueDictionary[tuple[int, tuple[str, ...]], Cube] = WeakValueDictionary()


def cubes_of(policy: Policy) -> tuple[Cube, ...]:
    """Returns the policy's cubes, fewest cells first: the first that can answer is the cheapest."""
    return tuple(sorted((Cube.of(names, policy.columns) for names in policy.cubes), key=lambda cube: cube.cells))
