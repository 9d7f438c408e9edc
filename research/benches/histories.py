"""`Desk`: an account's cube with simulated measurements, charged as the contract charges, with the exact loss beside.

For the planner's figures and for its property tests. Charges are whole units, in runs of cells; the loss is computed
from all rows that were ever measured, without any of the planner's shortcuts.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import prod

import numpy as np

from noisebank.core.entropy import simulation_rng
from noisebank.core.records import WHOLE_WEIGHT, CellRun
from noisebank.core.units import UNITS_PER_PRECISION, ZERO_PRECISION, Precision
from noisebank.planning.inference import CubePosterior, CubeStatistic
from noisebank.planning.linear import LinearQuery, Vector, merge_charges
from noisebank.planning.look_posterior import MeasuredLook
from noisebank.planning.losses import CellLosses, charge_rise, loss_of_runs, plain_share
from noisebank.planning.strategies.axes import Axis
from noisebank.planning.strategies.workloads import shapes_of_sets


@dataclass(frozen=True, slots=True)
class Charge:
    """What one request has cost, in units."""

    question: int
    """Of its measurement; 0 if it is free."""
    look: int
    """Of a look before it."""
    plain: int
    """What plain reuse of the same question would have cost."""


class Desk:
    """Answers questions about one statistic of a cube, with an unlimited budget."""

    def __init__(
        self, axes: tuple[Axis, ...], replace_one: bool = False, looks: bool = True, max_runs: int = 16,
        expected: tuple[bool, ...] = (), exact: bool = False, seed: int = 0,
        values: tuple[Fraction, ...] = (Fraction(1),),
    ) -> None:  # fmt: skip
        size = prod(axis.size for axis in axes)
        self.statistic = CubeStatistic(axes, replace_one, values)
        self.knowledge = CubePosterior(self.statistic, looks, None, max_runs, shapes_of_sets(axes, expected))
        self.charged = np.zeros(size, dtype=object)
        """What the ledger holds of each cell, in units."""
        self.plain = self.knowledge.losses.zeros()
        """The loss of plain reuse of each question, side by side where questions share no cell."""
        self.information = np.zeros((size, size)) if exact else None
        self.look_count = self.paid_count = 0
        self._max_runs, self._best = max_runs, dict[LinearQuery, Precision]()
        self._generator = simulation_rng(seed)
        self.counts: Vector = self._generator.poisson(100, size).astype(float)

    @property
    def spent(self) -> int:
        """The largest cell, in units."""
        return int(self.charged.max())

    @property
    def plain_price(self) -> float:
        """What plain reuse would have cost by now."""
        return float(self.plain.max())

    @property
    def exact_loss(self) -> float:
        """The largest loss of anybody, from all rows that were measured."""
        assert self.information is not None, "made without `exact`"
        own = self.information.diagonal()
        if not self.statistic.replace_one:
            return float(own.max())
        return float((own[:, None] + own[None, :] - 2 * self.information).max())

    def ask(self, query: LinearQuery, target: Precision) -> Charge:
        """Answers a question as the bank does."""
        before = self._best.get(query, ZERO_PRECISION)
        share = plain_share([query], self.statistic.values) if self.statistic.replace_one else 1
        plain = 0
        if target > before:
            fresh = target - before
            plain = -(-fresh.units * share.numerator // share.denominator)
            if isinstance(self.knowledge.losses, CellLosses):
                self.plain += loss_of_runs(self._cell_runs(query), fresh, self.knowledge.losses.zeros())
            else:
                self.plain += self.knowledge.losses.of_query(query, fresh)
            self._best[query] = target
        plan, look = self.knowledge.plan_query(query, target), 0
        if plan.look is not None:
            spent = self.knowledge.buyer.spending.spent
            look = self._pay(plan.look.charge(spent, Precision(self.spent)), plan.look.look.precision)
            rows = plan.look.look
            exact = rows.sum_rows(self.counts.astype(np.int64).astype(object)).astype(np.float64) / rows.scale
            noise = self._generator.standard_normal(len(exact)) / float(rows.precision) ** 0.5
            if self.information is not None:
                self.information += float(rows.precision) * rows.information
            self.knowledge.add_look(MeasuredLook(rows, exact + noise), plan.look.runs)
            self.look_count += 1
            plan = self.knowledge.plan_query(query, target)
        cost = 0
        if plan.fresh_precision:
            cost = self._pay(self._charges(query, plan.fresh_precision), plan.fresh_precision)
            noise = float(self._generator.standard_normal()) / float(plan.fresh_precision) ** 0.5
            self.knowledge.add_measurement(plan, query.dot(self.counts) + query.max_weight * noise)
            self.paid_count += 1
            if self.information is not None:
                weights = query.dense_weights / query.max_weight
                self.information += float(plan.fresh_precision) * np.outer(weights, weights)
        self.knowledge.note_asked([(query, target)])
        return Charge(cost, look, plain)

    def _charges(self, query: LinearQuery, fresh: Precision) -> tuple[CellRun, ...]:
        losses = self.knowledge.losses
        if isinstance(losses, CellLosses):
            return self._cell_runs(query)
        total = float((self.knowledge.buyer.spending.spent + losses.of_query(query, fresh)).max())
        alone = plain_share([query], self.statistic.values)
        return (charge_rise(len(self.charged), fresh, alone, total, Precision(self.spent)),)

    def _cell_runs(self, query: LinearQuery) -> tuple[CellRun, ...]:
        return merge_charges(query.cell_charges(), self._max_runs)

    def _pay(self, runs: tuple[CellRun, ...], fresh: Precision) -> int:
        before = self.spent
        for start, stop, weight in runs:
            self.charged[start:stop] += -(-fresh.units * weight // WHOLE_WEIGHT)
        return self.spent - before


@dataclass(slots=True)
class Fairness:
    """What random and adversarial histories came to."""

    requests: int = 0
    dearer_than_plain: int = 0
    """Charges of questions above the plain price."""
    below_the_loss: int = 0
    """Moments at which less was charged than what was told."""
    worst_total: float = 0.0
    """The largest spending, looks included, over what plain reuse would have cost."""

    @property
    def is_fair(self) -> bool:
        """Whether nothing was ever dearer than it may be, nor cheaper."""
        return not self.dearer_than_plain and not self.below_the_loss and self.worst_total <= 2 * (1 + 1e-9)


def play(desk: Desk, asked: list[tuple[LinearQuery, Precision]], fairness: Fairness) -> None:
    """Asks one question after the other and judges each charge."""
    for query, target in asked:
        if desk.statistic.replace_one and not plain_share([query], desk.statistic.values):
            continue  # of everybody: public there, and refused
        charge = desk.ask(query, target)
        fairness.requests += 1
        fairness.dearer_than_plain += charge.question > charge.plain
        if desk.information is not None:
            fairness.below_the_loss += desk.spent < desk.exact_loss * UNITS_PER_PRECISION * (1 - 1e-9)
        spent = desk.spent / UNITS_PER_PRECISION
        fairness.worst_total = max(fairness.worst_total, (spent - 1e-15) / desk.plain_price)
