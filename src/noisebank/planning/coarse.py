"""What is known about the cells of a large cube before, or without, a first look.

The ends of all measured runs cut the cells into pieces. Everything measured is constant on each piece, so a question
that cuts through one is not determined, and any other is a weight for each piece. So a covariance over the
pieces, in units in which lengths are those over the cells, says what one over the cells would, however many there are.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from noisebank.core.units import Precision
from noisebank.planning.linear import LinearQuery, Vector
from noisebank.planning.posterior import Covariance, Inferred


@dataclass(frozen=True, slots=True)
class PieceRow:
    """A query over pieces: weight times the root of the piece's size."""

    support: tuple[int, int]
    inner: Vector
    peak: int


class Coarse:
    """The posterior of a large cube; 8 p r bytes for p pieces and r measured directions, both limited by `most`."""

    def __init__(self, cells: int, most: int) -> None:
        self.cells = cells
        self._most = most
        self._edges: NDArray[np.int64] = np.array([0, cells])
        self._posterior = Covariance(1)

    @property
    def pieces(self) -> int:
        """Into how many the cells are cut so far."""
        return len(self._edges) - 1

    @property
    def rank(self) -> int:
        """How many directions are measured."""
        return self._posterior.rank

    def infer(self, query: LinearQuery) -> Inferred | None:
        row = self._row(query)
        return None if row is None else self._posterior.infer(row)

    def errors(self, query: LinearQuery) -> Vector | None:
        row = self._row(query)
        return None if row is None else self._posterior.errors(row)

    def observe(self, query: LinearQuery, value: float, precision: Precision) -> bool:
        starts, stops, _ = query.columns
        ends = np.concatenate((starts, stops))
        new = sorted(set(ends[self._edges[np.searchsorted(self._edges, ends)] != ends].tolist()))
        if self.pieces + len(new) > self._most:
            return False  # it is reused plainly, until a first look takes all of it in
        if new:
            self._cut(np.sort(np.concatenate((self._edges, np.array(new, dtype=np.int64)))))
        row = self._row(query)
        return row is not None and self._posterior.observe(row, value, precision)

    def _row(self, query: LinearQuery) -> PieceRow | None:
        """The query over pieces; none if it cuts through one."""
        starts, stops, weights = query.columns
        first, last = np.searchsorted(self._edges, starts), np.searchsorted(self._edges, stops)
        if not (np.array_equal(self._edges[first], starts) and np.array_equal(self._edges[last], stops)):
            return None
        low, high = int(first[0]), int(last[-1])
        inner = np.zeros(high - low)
        for start, stop, weight in zip(first - low, last - low, weights, strict=True):
            inner[start:stop] = weight
        return PieceRow((low, high), inner * np.sqrt(np.diff(self._edges[low : high + 1])), query.peak)

    def _cut(self, edges: NDArray[np.int64]) -> None:
        places = np.searchsorted(self._edges, edges[:-1], side="right") - 1
        sizes = np.diff(self._edges)[places]
        self._posterior.refine(places, np.sqrt(np.diff(edges) / sizes))
        self._edges = edges
