"""Losses: how much a cube's measurements tell about one person, and what the ledger's cells are charged for it.

Where people come and go, the loss of whoever is in a cell is a sum over measurements: `CellLosses`. Where one person
takes another's place, it is a sum for each pair of cells: `PairLosses`, and `BoundLosses` where there are too many
pairs. All three are additive, and a plain answer never costs less. Proof: docs/proofs/strategies.md.
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
from noisebank.planning.strategies.axes import Whole
from noisebank.planning.strategies.looks import Look

MAX_PAIR_CELLS = 1024
"""Cells up to which all pairs are kept: 8 MB for each table of pairs."""
ROUNDING_SHARE = 2.0**-30
"""Of a sum of losses. An account has at most 2^20 measurements, so rounding moves a sum by less than 2^-32 of it."""


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
    values: tuple[Fraction, ...] = (Fraction(1),)
    """The extremes of what a person adds to a cell, in units of the largest. 1 for counts."""
    look_factor: int = 1

    def zeros(self) -> Vector:
        """See `Losses`."""
        return np.zeros((self.cell_count, self.cell_count))

    def of_query(self, query: LinearQuery, precision: Precision) -> Vector:
        """See `Losses`."""
        weights = query.dense_weights / query.max_weight
        largest = self.zeros()
        for left, entered in product(map(float, self.values), repeat=2):
            np.maximum(largest, (left * weights[:, None] - entered * weights[None, :]) ** 2, out=largest)
        largest *= float(precision)
        return largest

    def of_look(self, look: Look) -> Vector:
        """See `Losses`."""
        information = look.information
        own = information.diagonal()
        largest = self.zeros()
        for left, entered in product(map(float, self.values), repeat=2):
            moved = left * left * own[:, None] + entered * entered * own[None, :] - 2 * left * entered * information
            np.maximum(largest, moved, out=largest)
        slack = look.rounding_slack / look.scale
        lengths = np.sqrt(largest * (1 + ROUNDING_SHARE)) + slack
        loss: Vector = lengths * lengths * float(look.precision)
        return loss


@dataclass(frozen=True, slots=True)
class BoundLosses:
    """One bound per cell where one person takes another's place: a measurement charges the two cells of a pair,
    together, twice what moving between them tells at least."""

    cell_count: int
    values: tuple[Fraction, ...] = (Fraction(1),)
    look_factor: int = 4

    def zeros(self) -> Vector:
        """See `Losses`."""
        return np.zeros(self.cell_count)

    def of_query(self, query: LinearQuery, precision: Precision) -> Vector:
        """See `Losses`. The price alone in every cell: never too little, whatever it overlaps."""
        return np.full(self.cell_count, float(precision) * float(plain_share([query], self.values)))

    def of_look(self, look: Look) -> Vector:
        """See `Losses`."""
        return 4 * float(look.precision) * look.strategy.spread_parts(look.charges).astype(np.float64) / WHOLE_WEIGHT

    def charge_groups(
        self, queries: Sequence[LinearQuery], fresh: Precision, alone: Fraction, spent: Vector, complete: bool,
        max_runs: int = MAX_RUNS,
    ) -> tuple[CellRun, ...]:  # fmt: skip
        """Returns the charge of one sign, twice the squared weights in the cells that are read, if it raises the
        largest cell by less than the price alone in all cells; that otherwise."""
        whole = (CellRun(0, self.cell_count, max(1, ceil(alone * WHOLE_WEIGHT))),)
        one_sign = min(self.values) >= 0 and all(run.weight > 0 for query in queries for run in query.runs)
        if not one_sign or not complete:
            return whole
        runs = sorted(CellRun(start, stop, 2 * weight) for q in queries for start, stop, weight in q.cell_charges())
        merged = merge_charges(runs, max_runs)
        rises = [float(spent[start:stop].max()) + float(fresh) * w / WHOLE_WEIGHT for start, stop, w in merged]
        rise = max(*rises, float(spent.max())) - float(spent.max())
        return merged if rise <= float(fresh) * float(alone) else whole


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


def cover_charges(
    charges: Whole, precision: float, spends: Sequence[tuple[Vector, float]], spent: Vector,
    max_runs: int = MAX_RUNS,
) -> tuple[CellRun, ...] | None:  # fmt: skip
    """Returns runs that charge each cell at least its share, so that the largest cell rises as little as possible.

    `spends` are what cells have paid for looks, and how far that may rise. None if no cover keeps within.
    """
    edges = [0, *(np.flatnonzero(charges[1:] != charges[:-1]) + 1).tolist(), len(charges)]
    starts = edges[:-1]
    blocks = [int(charges[start]) for start in starts]
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


def plain_share(queries: Sequence[LinearQuery], values: Sequence[Fraction]) -> Fraction:
    """Returns the price of measuring queries that share no cell, as a share of the fresh precision, where one person
    takes another's place: the square of how far the answers move."""
    widths, largest = [], []
    for query in queries:
        weights = {Fraction(run.weight, query.max_weight) for run in query.runs}
        if sum(run.stop - run.start for run in query.runs) < query.cell_count:
            weights.add(Fraction(0))
        moves = [value * weight for value in values for weight in weights]
        widths.append(max(moves) - min(moves))
        largest.append(max(abs(move) for move in moves))
    first, second = [*sorted(largest, reverse=True), Fraction(0)][:2]
    apart = first * first + second * second if len(queries) > 1 else Fraction(0)
    return max([apart, *(width * width for width in widths)])


def charge_rise(cell_count: int, fresh: Precision, plain: Fraction, total: float, charged: Precision) -> CellRun:
    """Returns the run over all cells that charges what all pairs together have lost, less what they were charged.

    `plain` is the price of the measurement alone, as a share of `fresh`: it never costs more.
    """
    rise = max(1, ceil(Fraction(total * (1 + ROUNDING_SHARE)) * 10**18) - charged.units)
    enough = (rise - 1) * WHOLE_WEIGHT // fresh.units + 1
    return CellRun(0, cell_count, max(1, min(ceil(plain * WHOLE_WEIGHT), enough)))


def loss_of_runs(runs: Sequence[CellRun], precision: Precision, zero: Vector) -> Vector:
    """Returns what each cell is charged."""
    loss = zero.copy()
    for start, stop, weight in runs:
        loss[start:stop] += float(precision) * weight / WHOLE_WEIGHT
    return loss
