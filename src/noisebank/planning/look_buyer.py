"""`LookBuyer`: when a look is earned, and how much of it is missing.

Plain reuse of the same questions, side by side where they share no cell, would have cost S0 in each cell. The look
that knows all such questions as well as the present one is bought as soon as what looks cost, this one among them,
is at most the largest S0: so nothing ever costs more than twice plain reuse (docs/proofs/strategies.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import inf, prod
from typing import TYPE_CHECKING

import numpy as np

from noisebank.core.records import CellRun
from noisebank.core.units import UNITS_PER_PRECISION, ZERO_PRECISION, Precision
from noisebank.planning.linear import LinearQuery, Vector, merge_charges
from noisebank.planning.look_posterior import MAX_ROWS_OF_LOOK, LookPosterior, MeasuredLook
from noisebank.planning.losses import (
    ROUNDING_SHARE,
    CellLosses,
    Losses,
    PairLosses,
    Spending,
    charge_rise,
    cover_charges,
    loss_of_runs,
)
from noisebank.planning.strategies.axes import Axis
from noisebank.planning.strategies.kronecker import LookStrategy, strategy_for, strategy_of_levels
from noisebank.planning.strategies.looks import Look, MissingLook, find_missing
from noisebank.planning.strategies.workloads import Kind, Shape, Workload, find_shape

if TYPE_CHECKING:
    from noisebank.planning.inference import CubePosterior, QueryTarget

MAX_LOOK_CELLS = 2**17
"""A look at more parts would fill the vault with noise."""
MAX_LOOK_AXES = 12
"""Which are asked about: their sets are counted."""
LEAST_MISSING = 1e-6
"""Of what a look shall tell: less is not measured again."""
MAX_ASKED = 2**17
"""Questions whose best target is kept. Later ones earn nothing."""
MAX_UNNOTED = 4096
"""Questions that wait to be noted. More free ones between two paid ones earn nothing."""
MAX_TRIED = 64
"""Workloads of which it is kept that they cost too much."""
MIN_GROWTH = 1.01
"""By how much plain reuse must have grown before the price of a look is computed again."""


@dataclass(frozen=True, slots=True)
class LookPlan:
    """A look that is earned, and what it charges."""

    look: Look
    runs: tuple[CellRun, ...]
    """At most 16, where cells are charged. None where pairs of cells are: then all cells pay alike."""
    loss: Vector
    """What it adds to the losses."""

    def charge(self, spent: Vector, charged: Precision) -> tuple[CellRun, ...]:
        """Returns what the ledger is asked to charge, given all earlier losses and what was charged for them."""
        if self.runs:
            return self.runs
        alone = Fraction(float(self.loss.max()) * (1 + ROUNDING_SHARE)) / self.look.precision.exact
        return (charge_rise(len(self.loss), self.look.precision, alone, float((spent + self.loss).max()), charged),)


class LookBuyer:
    """What the questions to one statistic of a cube have earned. Not safe for several threads."""

    def __init__(
        self, axes: tuple[Axis, ...], losses: Losses, cube: Spending | None, max_runs: int,
        expected: frozenset[Shape] = frozenset(),
    ) -> None:  # fmt: skip
        self.spending = Spending(losses.zeros())
        self._axes, self._losses, self._max_runs = axes, losses, max_runs
        self._books = [book for book in (self.spending, cube) if book is not None]
        if cube is not None and isinstance(losses, PairLosses):  # pairs take too much memory to keep them twice
            self.spending, self._books = cube, [cube]
        self._pair_prices: dict[LookStrategy, float] = {}
        self._unnoted: list[Sequence[QueryTarget]] = []
        self._unnoted_count = 0
        self._workload = Workload(axes)
        self._expected = Workload(axes, frozenset(map(self._widen_shape, expected)))
        if not may_look_at(self._expected):
            self._expected = self._workload  # looks are earned
        self._asked: dict[bytes, Precision] = {}
        self._tried: dict[Workload, tuple[float, float]] = {}
        """Plain price and aim when a look for a workload was found too dear."""

    def note_asked(self, parts: Sequence[QueryTarget]) -> None:
        """Notes questions that are answered: what plain answers to them would have cost is added when it matters."""
        if self._unnoted_count < MAX_UNNOTED:
            self._unnoted.append(parts)
            self._unnoted_count += len(parts)

    def _add_noted(self) -> None:
        """Adds what plain answers to the questions so far would have cost."""
        noted, self._unnoted, self._unnoted_count = self._unnoted, [], 0
        for parts in noted:
            self._add_asked(parts)

    def _add_asked(self, parts: Sequence[QueryTarget]) -> None:
        for book in self._books:
            book.plain += self._earned_by(parts)
        self._workload = self._workload_with(parts)
        for query, target in parts:
            if query.key in self._asked or len(self._asked) < MAX_ASKED:
                self._asked[query.key] = max(target, self._asked.get(query.key, ZERO_PRECISION))

    def note_spent(self, loss: Vector) -> None:
        """Adds a paid measurement."""
        for book in self._books:
            book.spent += loss

    def note_look(self, loss: Vector) -> None:
        """Adds a look that was bought."""
        for book in self._books:
            book.looks += loss
            book.spent += loss

    def propose(self, parts: Sequence[QueryTarget], known: CubePosterior, room: float) -> LookPlan | None:
        """Returns the look that is earned with these questions and costs `room` at most; None if none is."""
        self._add_noted()
        workload = self._workload_with(parts)
        if not any(workload.seen):
            return None
        earned = self._earned_by(parts)
        limits = [float((book.plain + earned).max()) for book in self._books]
        choices = [workload]
        if self._expected.covers(workload):
            choices, limits = [self._expected], [inf] * len(self._books)  # it has not to be earned
        elif not self._asked:
            return None  # a first question is answered as it comes
        elif not any(workload.in_sets):  # what questions like this one need costs less than all, and no more than they
            choices.append(Workload(self._axes).add_shapes(self._shape_of(query) for query, _ in parts))
        aim = max((target.exact / query.max_weight**2 for query, target in parts), default=Fraction(0))
        highest = float(self._books[-1].spent.max()) + room
        plans = (self._plan_look(choice, aim, known, limits, highest) for choice in choices)
        return next((plan for plan in plans if plan is not None), None)

    def _plan_look(
        self, workload: Workload, aim: Fraction, known: CubePosterior, limits: Sequence[float], highest: float
    ) -> LookPlan | None:
        """Returns the look that is missing for a workload; None if it costs too much."""
        if not may_look_at(workload) or not self._could_pay(limits[0], highest, float(aim), workload):
            return None
        missing = self._find_missing(workload, Precision.ceil(aim), known)
        plan = None if missing is None else self._fit(missing, limits)
        if plan is None or float((self._books[-1].spent + plan.loss).max()) > highest:
            self._tried = {**self._tried, workload: (limits[0], float(aim))} if len(self._tried) < MAX_TRIED else {}
            return None
        return plan

    def _could_pay(self, limit: float, highest: float, aim: float, workload: Workload) -> bool:
        """Whether a look may be earned, by a bound that costs nothing to compute."""
        tried_limit, tried_aim = self._tried.get(workload, (0.0, 0.0))
        if aim >= tried_aim and limit < MIN_GROWTH * tried_limit:
            return False
        strategy = strategy_for(workload)
        if isinstance(self._losses, PairLosses):  # the look's worst pair, less what pairs have lost at most
            price = aim * self._price_pairs(strategy)
            return price - float(self.spending.spent.max()) <= limit and price <= highest
        price = aim * strategy.price  # of all, with what is paid
        return price - float(self.spending.spent.min()) <= limit and price <= highest

    def _price_pairs(self, strategy: LookStrategy) -> float:
        """Returns the loss of the worst pair of cells in a whole look at precision 1, less a margin for rounding."""
        if strategy not in self._pair_prices:
            whole = Look(strategy, Precision(UNITS_PER_PRECISION), np.zeros((0, strategy.part_count), dtype=object), ())
            self._pair_prices[strategy] = float(self._losses.of_look(whole).max()) * (1 - 1e-6)
        return self._pair_prices[strategy]

    def _find_missing(self, workload: Workload, precision: Precision, known: CubePosterior) -> MissingLook | None:
        """Returns the look that is missing."""
        whole, latest = strategy_for(workload), known.latest
        looked = isinstance(latest, LookPosterior) and latest.roots == whole.roots
        strategy, rows = whole, list[Vector]()
        if looked:
            assert isinstance(latest, LookPosterior)
            seen = tuple(old or new for old, new in zip(latest.strategy.seen, whole.seen, strict=True))
            aims = float(precision) * whole.levels_among(seen) ** 2
            shares = 1 - np.divide(latest.squared_levels_among(seen), aims, out=np.ones(len(aims)), where=aims > 0)
            most = float(shares.max())
            if most < LEAST_MISSING:
                return None
            if seen != whole.seen or float(shares.min()) < most - LEAST_MISSING:
                levels = np.sqrt(np.where(shares < LEAST_MISSING, 0, shares / most)) * whole.levels_among(seen)
                strategy = strategy_of_levels(whole.axes, seen, whole.roots, levels)
            precision = Precision.ceil(precision.exact * Fraction(most))
            rows += latest.rows_for(strategy)
        else:
            rows += [
                strategy.halve(weights) * (float(entry.precision) ** 0.5 / entry.query.max_weight)
                for entry in known.measurements
                if (weights := strategy.known_weights(entry.query.dense_weights)) is not None
            ]
            rows += [row for measured in known.looks for row in rows_of_look(strategy, measured)]
        while any(measured.look.precision == precision for measured in known.looks):
            precision += Precision(1)  # the same rows once more are another look: it has a name of its own
        return find_missing(strategy, precision, *_principal_directions(rows, strategy.part_count))

    def _fit(self, missing: MissingLook, limits: Sequence[float]) -> LookPlan | None:
        """Returns the look with its charges, if they stay within the limits."""
        if not isinstance(self._losses, PairLosses) and not self._may_fit(missing, limits):
            return None
        plan = self._charge(missing.round_rows(), limits)
        if plan is None or any(
            float((book.looks + plan.loss).max()) > limit for book, limit in zip(self._books, limits, strict=True)
        ):
            return None
        return plan

    def _may_fit(self, missing: MissingLook, limits: Sequence[float]) -> bool:
        """Whether the look could fit by the floats that its rows are rounded from.

        At 131,072 cells the exact charges take many seconds, and a look that costs too much beside earlier looks would
        take them again with every question that asks for a little less.
        """
        shares = self._losses.look_factor * missing.estimated_charges * float(missing.precision)
        loss = missing.strategy.spread_parts(shares)
        return all(
            float((book.looks + loss).max()) <= limit * (1 + 1e-6)
            for book, limit in zip(self._books, limits, strict=True)
        )

    def _charge(self, look: Look, limits: Sequence[float]) -> LookPlan | None:
        """Returns the look with what it charges; None if no 16 runs keep within the limits."""
        if isinstance(self._losses, PairLosses):
            return LookPlan(look, (), self._losses.of_look(look))
        charges = look.strategy.spread_parts(self._losses.look_factor * look.charges)
        spends = [(book.looks, limit) for book, limit in zip(self._books, limits, strict=True)]
        runs = cover_charges(charges, float(look.precision), spends, self._books[-1].spent, self._max_runs)
        return None if runs is None else LookPlan(look, runs, loss_of_runs(runs, look.precision, self._losses.zeros()))

    def _earned_by(self, parts: Sequence[QueryTarget]) -> Vector:
        """Returns what plain answers would cost beyond earlier ones. A question alone takes 16 runs of cells; groups
        share theirs, and count with the cells that they read."""
        loss = self._losses.zeros()
        for query, target in parts:
            before = self._asked.get(query.key)
            if before is None and len(self._asked) >= MAX_ASKED:
                continue
            if before is None or target > before:
                fresh = target - (before or ZERO_PRECISION)
                if len(parts) == 1 and isinstance(self._losses, CellLosses):
                    loss += loss_of_runs(merge_charges(query.cell_charges(), self._max_runs), fresh, loss)
                else:
                    loss += self._losses.of_query(query, fresh)
        return loss

    def _workload_with(self, parts: Sequence[QueryTarget]) -> Workload:
        if self._workload.is_full:
            return self._workload
        new = [query for query, _ in parts if query.key not in self._asked]
        return self._workload.add_shapes(map(self._shape_of, new))

    def _shape_of(self, query: LinearQuery) -> Shape:
        return self._widen_shape(find_shape(self._axes, query))

    def _widen_shape(self, shape: Shape) -> Shape:
        """Returns a shape with sets for single values where one person takes another's place: two values differ there,
        and levels that are best for one are not."""
        if isinstance(self._losses, CellLosses):
            return shape
        return tuple(Kind.SETS if kind else Kind.WHOLE for kind in shape)


def may_look_at(workload: Workload) -> bool:
    """Whether a look is possible: something is told apart, and not in too many parts."""
    sizes = [axis.size for axis, seen in zip(workload.axes, workload.seen, strict=True) if seen]
    return 0 < len(sizes) <= MAX_LOOK_AXES and prod(sizes) <= MAX_LOOK_CELLS


def rows_of_look(strategy: LookStrategy, measured: MeasuredLook) -> list[Vector]:
    """Returns the rows of an earlier look in a strategy's coordinates, times the root of its precision; none if there
    are too many."""
    if measured.look.strategy.part_count > MAX_ROWS_OF_LOOK:
        return []
    weights = [strategy.known_weights(row) for row in measured.look.rows_over_cells()]
    root = float(measured.look.precision) ** 0.5
    return [root * strategy.halve(row) for row in weights if row is not None]


def _principal_directions(rows: Sequence[Vector], size: int) -> tuple[Vector, Vector]:
    """Returns orthonormal rows that span the given ones, and the information that these give along them."""
    if not rows:
        return np.zeros((0, size)), np.zeros(0)
    matrix = np.array(rows)
    if len(rows) > size:
        information, directions = np.linalg.eigh(matrix.T @ matrix)
        return directions.T, np.maximum(information, 0)
    information, mixes = np.linalg.eigh(matrix @ matrix.T)
    kept = information > 1e-10 * max(float(information.max()), 1e-300)
    return (mixes.T @ matrix)[kept] / np.sqrt(information[kept])[:, None], information[kept]
