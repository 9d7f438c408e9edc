"""How many questions a budget answers: naively, with plain reuse, and with inference.

A request that the budget cannot pay is refused, and the next one is tried. Charges are what the contract takes: whole
units, rounded up, for at most 16 runs of cells. Noise is simulated, so that a run can be repeated.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from math import sqrt
from typing import TYPE_CHECKING, Any

import numpy as np

from noisebank.core.entropy import simulation_rng
from noisebank.core.intervals import normal_quantile
from noisebank.core.records import WHOLE_WEIGHT, CellRun
from noisebank.core.units import UNITS_PER_PRECISION, ZERO_PRECISION, Precision
from noisebank.planning.inference import CubePosterior, CubeStatistic, InferencePlan
from noisebank.planning.linear import LinearQuery, Vector, merge_charges
from noisebank.planning.look_posterior import MeasuredLook
from noisebank.planning.strategies.looks import Look
from noisebank.privacy.calibration import budget_precision
from research.benches.cell_workloads import Workload, make_workload

if TYPE_CHECKING:
    from numpy.random import Generator

BUDGET = (Fraction(1), Fraction(1, 10**6))
DATA_BUDGETS = tuple((Fraction(text), Fraction(1, 10**5)) for text in ("0.4", "0.8", "1.6", "3.2", "6.4"))
"""For workloads on real data."""
Moved = Callable[[int, int], None]


class OneSum:
    """The books of cube 0: every measurement adds to one sum."""

    def __init__(self, budget: Precision) -> None:
        self.budget, self.spent = budget.units, 0

    def pay(self, charges: tuple[CellRun, ...], fresh: Precision) -> bool:
        """Whether the budget allows it; then it is spent."""
        most = max(charge.weight for charge in charges)
        cost = -(-fresh.units * most // WHOLE_WEIGHT)
        if self.spent + cost > self.budget:
            return False
        self.spent += cost
        return True


class Cells:
    """The books of a cube: a measurement charges the cells that it reads, and the largest cell counts."""

    def __init__(self, budget: Precision, cells: int) -> None:
        self.budget = budget.units
        self._cells = np.zeros(cells, dtype=np.int64)

    @property
    def spent(self) -> int:
        """The largest cell, in units."""
        return int(self._cells.max())

    def pay(self, charges: tuple[CellRun, ...], fresh: Precision) -> bool:
        """Whether the budget allows it; then it is spent."""
        costs = [-(-fresh.units * charge.weight // WHOLE_WEIGHT) for charge in charges]
        for charge, cost in zip(charges, costs, strict=True):
            if int(self._cells[charge.start : charge.stop].max()) + cost > self.budget:
                return False
        for charge, cost in zip(charges, costs, strict=True):
            self._cells[charge.start : charge.stop] += cost
        return True


Books = OneSum | Cells


@dataclass
class Outcome:
    """What a budget answered."""

    answered: int = 0
    free: int = 0
    spent: float = 0.0
    """Of the budget."""
    first_look_at: int | None = None
    errors: list[float] = field(default_factory=list)
    """Of answers, in standard deviations that were stated."""
    promised: list[float] = field(default_factory=list)
    """The same, in standard deviations that were wanted."""

    def plain(self) -> dict[str, Any]:
        """For --json."""
        return {
            "answered": self.answered,
            "free": self.free,
            "spent": round(self.spent, 4),
            "first_look_at": self.first_look_at,
            **error_facts(self.errors, self.promised),
        }


def error_facts(errors: list[float], promised: list[float]) -> dict[str, float]:
    """Root mean squares of errors, and how many lie in the stated 95% intervals."""
    stated, wanted = np.array(errors or [0.0]), np.array(promised or [0.0])
    return {
        "error_of_stated": round(float(np.sqrt(np.mean(stated**2))), 3),
        "error_of_wanted": round(float(np.sqrt(np.mean(wanted**2))), 3),
        "covered_95": round(float(np.mean(np.abs(stated) <= normal_quantile(0.95))), 3),
    }


def wanted_precision(query: LinearQuery, stddev: float) -> Precision:
    """Rounded up: never less accurate than wanted."""
    return Precision.ceil(Fraction(query.max_weight * query.max_weight) / Fraction(stddev) ** 2)


def answer_plainly(work: Workload, books: Books, reuse: bool, exact: bool = False) -> Outcome:
    """Fresh noise for every request, or P0's reuse of identical queries. `exact`: with any number of runs."""
    found, best = Outcome(), dict[LinearQuery, Precision]()
    for query, stddev in zip(work.queries, work.wanted, strict=True):
        wanted = wanted_precision(query, stddev)
        before = best.get(query, ZERO_PRECISION) if reuse else ZERO_PRECISION
        if wanted > before:
            if not books.pay(query.cell_charges() if exact else merge_charges(query.cell_charges()), wanted - before):
                continue
            best[query] = wanted
        else:
            found.free += 1
        found.answered += 1
    found.spent = books.spent / books.budget
    return found


def answer_by_inference(
    work: Workload, budget: Precision, books: Books, looks: bool, seed: int = 0, exact: bool = False
) -> Outcome:
    """Through the planner, with simulated measurements."""
    generator, found = simulation_rng(seed), Outcome()
    knowledge = CubePosterior(CubeStatistic(work.axes), looks)
    for place, (query, stddev) in enumerate(zip(work.queries, work.wanted, strict=True)):
        wanted = wanted_precision(query, stddev)
        plan = plan_with_looks(knowledge, query, wanted, books, work.counts, generator)
        if len(knowledge.looks) == 1 and found.first_look_at is None:
            found.first_look_at = place
        truth = query.dot(work.counts)
        if plan.fresh_precision:
            if not books.pay(query.cell_charges() if exact else plan.charges, plan.fresh_precision):
                continue
            noise = float(generator.standard_normal()) * query.max_weight / sqrt(float(plan.fresh_precision))
            knowledge.add_measurement(plan, truth + noise)
        else:
            found.free += 1
        answer = knowledge.estimate_planned(plan)
        found.answered += 1
        found.errors.append((answer.value - truth) / answer.stddev)
        found.promised.append((answer.value - truth) / stddev)
    found.spent = books.spent / books.budget
    return found


def plan_with_looks(
    knowledge: CubePosterior, query: LinearQuery, wanted: Precision, books: Books, counts: Vector, generator: Generator
) -> InferencePlan:
    """The plan for a question, after the look that it has earned, if any."""
    plan = knowledge.plan_query(query, wanted, (books.budget - books.spent) / UNITS_PER_PRECISION)
    if plan.look is None or not books.pay(plan.look.runs, plan.look.look.precision):
        return plan
    knowledge.add_look(look_at(plan.look.look, counts, generator), plan.look.runs)
    return knowledge.plan_query(query, wanted, 0.0)


def look_at(look: Look, counts: Vector, generator: Generator) -> MeasuredLook:
    """A simulated look."""
    exact = look.sum_rows(np.rint(counts).astype(np.int64).astype(object))
    noise = generator.standard_normal(len(exact)) / sqrt(float(look.precision))
    return MeasuredLook(look, exact.astype(np.float64) / look.scale + noise)


def bench_reuse(
    name: str = "range",
    cells: int = 1024,
    queries: int = 3000,
    seed: int = 0,
    moved: Moved = lambda done, total: None,
) -> dict[str, Any]:
    """`python -m research bench reuse`: the first budget's figures at the top, all budgets below."""
    work = make_workload(name, cells, queries, seed)
    pairs = (BUDGET,) if name in ("range", "marginals") else DATA_BUDGETS
    rows = []
    for place, (epsilon, delta) in enumerate(pairs):
        rows.append(compare(work, epsilon, delta, seed))
        moved(place + 1, len(pairs))
    head = rows[0] if len(rows) == 1 else rows[1]
    kept = ("naive", "per_type", "inference", "budget")
    return {
        "workload": work.name,
        "source": work.source,
        "cells": work.cells,
        "queries": len(work.queries),
        "seed": seed,
        **{key: head[key] for key in kept},
        "budgets": rows,
    }


def compare(work: Workload, epsilon: Fraction, delta: Fraction, seed: int) -> dict[str, Any]:
    """All ways under one budget. Naive and per type as one sum, as without cubes, and again by cells."""
    budget = budget_precision(epsilon, delta)
    inferred = answer_by_inference(work, budget, Cells(budget, work.cells), True, seed + 1)
    return {
        "budget": {"epsilon": float(epsilon), "delta": float(delta), "precision": float(budget)},
        "naive": answer_plainly(work, OneSum(budget), reuse=False).answered,
        "per_type": answer_plainly(work, OneSum(budget), reuse=True).answered,
        "naive_by_cells": answer_plainly(work, Cells(budget, work.cells), reuse=False).answered,
        "per_type_by_cells": answer_plainly(work, Cells(budget, work.cells), reuse=True).answered,
        "inference": inferred.answered,
        "inference_detail": inferred.plain(),
    }


NO_LOOK = False
"""Inference from paid answers alone, for comparison."""
