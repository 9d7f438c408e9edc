"""The posterior of a large cube before, or without, a first look: a covariance over pieces of cells.

The ends of all measured runs cut the cells into pieces. All measurements are constant on each piece, so a query that
cuts through a piece is not determined, and any other query is one weight per piece. So a covariance over the pieces,
in units in which lengths are those over the cells, gives the same estimates as one over the cells, however many.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from noisebank.core.units import Precision
from noisebank.planning.linear import LinearQuery, Vector
from noisebank.planning.posterior import CovariancePosterior, LinearEstimate


@dataclass(frozen=True, slots=True)
class PieceRow:
    """A query over pieces: the weight times the square root of the piece's size."""

    support: tuple[int, int]
    support_weights: Vector
    max_weight: int


class PiecewisePosterior:
    """See `Posterior`. Takes 8 p r bytes for p pieces and r measured directions, both at most `max_pieces`."""

    def __init__(self, cell_count: int, max_pieces: int) -> None:
        self.cell_count = cell_count
        self._max_pieces = max_pieces
        self._edges: NDArray[np.int64] = np.array([0, cell_count])
        self._posterior = CovariancePosterior(1)

    @property
    def piece_count(self) -> int:
        """Number of pieces so far."""
        return len(self._edges) - 1

    @property
    def rank(self) -> int:
        """Number of measured directions."""
        return self._posterior.rank

    def infer(self, query: LinearQuery) -> LinearEstimate | None:
        row = self._piece_row(query)
        return None if row is None else self._posterior.infer(row)

    def error_vector(self, query: LinearQuery) -> Vector | None:
        row = self._piece_row(query)
        return None if row is None else self._posterior.error_vector(row)

    def observe(self, query: LinearQuery, value: float, precision: Precision) -> bool:
        starts, stops, _ = query.run_arrays
        ends = np.concatenate((starts, stops))
        new = sorted(set(ends[self._edges[np.searchsorted(self._edges, ends)] != ends].tolist()))
        if self.piece_count + len(new) > self._max_pieces:
            return False  # reused for the same query only, until a first look replaces this posterior
        if new:
            self._split_pieces(np.sort(np.concatenate((self._edges, np.array(new, dtype=np.int64)))))
        row = self._piece_row(query)
        return row is not None and self._posterior.observe(row, value, precision)

    def _piece_row(self, query: LinearQuery) -> PieceRow | None:
        """Returns the query over pieces; None if it cuts through one."""
        starts, stops, weights = query.run_arrays
        first, last = np.searchsorted(self._edges, starts), np.searchsorted(self._edges, stops)
        if not (np.array_equal(self._edges[first], starts) and np.array_equal(self._edges[last], stops)):
            return None
        low, high = int(first[0]), int(last[-1])
        inner = np.zeros(high - low)
        for start, stop, weight in zip(first - low, last - low, weights, strict=True):
            inner[start:stop] = weight
        return PieceRow((low, high), inner * np.sqrt(np.diff(self._edges[low : high + 1])), query.max_weight)

    def _split_pieces(self, edges: NDArray[np.int64]) -> None:
        parents = np.searchsorted(self._edges, edges[:-1], side="right") - 1
        sizes = np.diff(self._edges)[parents]
        self._posterior.refine_coordinates(parents, np.sqrt(np.diff(edges) / sizes))
        self._edges = edges
