"""Losses: how much a cube's measurements tell about one person, and what the ledger's cells are charged for it.

Where people come and go, the loss of whoever is in a cell is a sum over measurements: `CellLosses`. Where one person takes
another's place, it is a sum for each pair of cells: `PairLosses`, and `BoundLosses` where there are too many pairs. All
three are additive, and a plain answer never costs less. Proof: docs/proofs/looks.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import product
from math import ceil
from typing import Protocol

import numpy as np

from noisebank.core.records import WHOLE_WEIGHT, CellRun
from noisebank.core.units import Precision
from noisebank.planning.linear import MAX_RUNS, LinearQuery, Vector, merge_charges
from noisebank.planning.strategies.completion import Look

MAX_PAIR_CELLS = 1024
"""Cells up to which all pairs are kept: 8 MB for each table of pairs."""
ROUNDING_SHARE = 2.0**-40
"""Of a sum of losses: far above the rounding of a million additions."""


class Losses(Protocol):
    """The losses that measurements of one statistic cause. Arrays of one cube add up, over its statistics, too."""

    @property
    def look_factor(self) -> int:
        """The factor on the squared weights of a look's rows."""
        ...

    def zeros(self) -> Vector:
        """Returns no loss."""
        ...

    def of_query(self, query: LinearQuery, precision: Precision) -> Vector:
        """Returns the loss of a measurement with noise of variance max_weight^2 / precision."""
        ...

    def of_look(self, look: Look) -> Vector:
        """Returns the loss of a look."""
        ...


@dataclass(frozen=True, slots=True)
class CellLosses:
    """One loss per cell: exact where people come and go."""

    cell_count: int
    look_factor: int = 1

    def zeros(self) -> Vector:
        """See `Losses`."""
        return np.zeros(self.cell_count)

    def of_query(self, query: LinearQuery, precision: Precision) -> Vector:
        """See `Losses`."""
        weights = query.dense_weights / query.max_weight
        loss: Vector = float(precision) * weights * weights
        return loss

    def of_look(self, look: Look) -> Vector:
        """See `Losses`."""
        return float(look.precision) * look.strategy.spread_parts(look.charges).astype(np.float64) / WHOLE_WEIGHT


@dataclass(frozen=True, slots=True)
class PairLosses:
    """One loss per pair of cells: exact where one person takes another's place."""

    cell_count: int
    values: tuple[float, ...] = (1.0,)
    """The extremes of what a person adds to a cell, in units of the largest. 1 for counts."""
    look_factor: int = 1

    def zeros(self) -> Vector:
        """See `Losses`."""
        return np.zeros((self.cell_count, self.cell_count))

    def of_query(self, query: LinearQuery, precision: Precision) -> Vector:
        """See `Losses`."""
        weights = query.dense_weights / query.max_weight
        largest = self.zeros()
        for left, entered in product(self.values, repeat=2):
            np.maximum(largest, (left * weights[:, None] - entered * weights[None, :]) ** 2, out=largest)
        largest *= float(precision)
        return largest

    def of_look(self, look: Look) -> Vector:
        """See `Losses`."""
        information = look.information
        own = information.diagonal()
        largest = self.zeros()
        for left, entered in product(self.values, repeat=2):
            moved = left * left * own[:, None] + entered * entered * own[None, :] - 2 * left * entered * information
            np.maximum(largest, moved, out=largest)
        return largest * float(look.precision) * (1 + ROUNDING_SHARE)


@dataclass(frozen=True, slots=True)
class BoundLosses:
    """One bound per cell where one person takes another's place: twice what either cell of a pair may cost."""

    cell_count: int
    values: tuple[float, ...] = (1.0,)
    look_factor: int = 4

    def zeros(self) -> Vector:
        """See `Losses`."""
        return np.zeros(self.cell_count)

    def of_query(self, query: LinearQuery, precision: Precision) -> Vector:
        """See `Losses`. The centred bound: never above the plain price in any cell."""
        return float(precision) * np.array([float(share) for share in self.centred_shares(query)])

    def of_look(self, look: Look) -> Vector:
        """See `Losses`."""
        return 4 * float(look.precision) * look.strategy.spread_parts(look.charges).astype(np.float64) / WHOLE_WEIGHT

    def centred_shares(self, query: LinearQuery) -> list[Fraction]:
        """Returns 4 (v w - c)^2 for each cell: c is the middle of all that one person can add."""
        weights = [Fraction(int(weight), query.max_weight) for weight in query.dense_weights]
        shares: dict[Fraction, Fraction] = {}
        ends = [Fraction(value) * weight for value in self.values for weight in set(weights)]
        middle = (min(ends) + max(ends)) / 2
        for weight in set(weights):
            shares[weight] = max(4 * (Fraction(value) * weight - middle) ** 2 for value in self.values)
        return [shares[weight] for weight in weights]


@dataclass(slots=True)
class Spending:
    """What one statistic of a cube, or all of them, has cost, and what plain answers would have cost."""

    zero: Vector
    plain: Vector = field(init=False)
    """Of plain reuse of each question, side by side where questions share no cell."""
    looks: Vector = field(init=False)
    spent: Vector = field(init=False)
    """All charges, looks among them."""

    def __post_init__(self) -> None:
        self.plain, self.looks, self.spent = self.zero.copy(), self.zero.copy(), self.zero.copy()

    @property
    def plain_price(self) -> float:
        """What plain answers would have cost."""
        return float(self.plain.max())


def cover_charges(
    charges: Sequence[int] | Vector, precision: float, spends: Sequence[tuple[Vector, float]], spent: Vector,
    max_runs: int = MAX_RUNS,
) -> tuple[CellRun, ...] | None:  # fmt: skip
    """Returns runs that charge each cell at least its share, so that the largest cell rises as little as possible.

    `spends` are what cells have paid for looks, and how far that may rise. None if no cover keeps within.
    """
    weights = np.asarray(charges, dtype=object)
    edges = [0, *(np.flatnonzero(weights[1:] != weights[:-1]) + 1).tolist(), len(weights)]
    starts = edges[:-1]
    blocks = [int(weights[start]) for start in starts]
    paid = np.maximum.reduceat(spent, starts).tolist()
    limits = [(np.maximum.reduceat(looks, starts).tolist(), limit) for looks, limit in spends]

    def cut(level: float) -> list[tuple[int, int]] | None:
        """Returns the least number of runs of blocks with which no cell rises above the level."""
        runs: list[tuple[int, int]] = []
        first, weight, most, looked = 0, 0, 0.0, [0.0] * len(limits)
        for index, block in enumerate(blocks):
            for attempt in range(2):
                heavier, higher = max(weight, block), max(most, paid[index])
                rises = [max(before, looks[index]) for before, (looks, _) in zip(looked, limits, strict=True)]
                price = precision * heavier / WHOLE_WEIGHT
                fits = price + higher <= level and all(
                    price + rise <= limit for rise, (_, limit) in zip(rises, limits, strict=True)
                )
                if fits:
                    weight, most, looked = heavier, higher, rises
                    break
                if attempt or index == first:
                    return None
                runs.append((first, index))
                first, weight, most, looked = index, 0, 0.0, [0.0] * len(limits)
                if len(runs) >= max_runs:
                    return None
        runs.append((first, len(blocks)))
        return runs

    low, high = float(spent.max()), float(spent.max()) + precision * max(blocks) / WHOLE_WEIGHT
    best = cut(high * (1 + 1e-12))
    if best is None:
        return None
    for _ in range(24):
        middle = (low + high) / 2
        runs = cut(middle)
        low, high, best = (low, middle, runs) if runs is not None else (middle, high, best)
    return tuple(CellRun(edges[first], edges[stop], max(blocks[first:stop])) for first, stop in best)


def charge_rise(cell_count: int, fresh: Precision, plain: Fraction, total: float, charged: Precision) -> CellRun:
    """Returns the run over all cells that charges what all pairs together have lost, less what they were charged.

    `plain` is the price of the measurement alone, as a share of `fresh`: it never costs more.
    """
    rise = max(1, ceil(Fraction(total * (1 + ROUNDING_SHARE)) * 10**18) - charged.units)
    enough = (rise - 1) * WHOLE_WEIGHT // fresh.units + 1
    return CellRun(0, cell_count, min(ceil(plain * WHOLE_WEIGHT), enough))


def cell_charges(query: LinearQuery) -> tuple[CellRun, ...]:
    """Returns what a measurement charges where people come and go, in at most 16 runs."""
    return merge_charges(query.cell_charges())
