"""Inferred answers err as they say: query by query over many runs, and a wrong scale would be noticed."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from noisebank import Precision
from noisebank.planning import inference
from research.benches.cell_workloads import make_workload
from research.benches.reuse import (
    Cells,
    answer_by_inference,
    plan_with_looks,
    wanted_precision,
)
from support.internals import (
    Axis,
    CubePosterior,
    CubeStatistic,
    budget_precision,
    range_query,
    shapes_of_sets,
)

RUNS = 400


@pytest.mark.parametrize(("most_dense", "expected"), [(4096, False), (8, False), (4096, True)])
def test_each_query_is_covered_as_promised(monkeypatch: pytest.MonkeyPatch, most_dense: int, expected: bool) -> None:
    monkeypatch.setattr(inference, "MAX_DENSE_CELLS", most_dense)
    work = make_workload("range", 16, 12, 3)
    budget = budget_precision(Fraction(1), Fraction(1, 10**6))
    errors = []
    for seed in range(RUNS):
        generator = np.random.default_rng(seed)
        knowledge = CubePosterior(CubeStatistic(work.axes), expected=shapes_of_sets(work.axes, (expected,)))
        books = Cells(budget, work.cells)
        row = []
        for query, stddev in zip(work.queries, work.wanted, strict=True):
            wanted = wanted_precision(query, stddev)
            plan = plan_with_looks(knowledge, query, wanted, books, work.counts, generator)
            truth = query.dot(work.counts)
            if plan.fresh_precision:
                knowledge.add_measurement(
                    plan, truth + generator.standard_normal() * query.max_weight / float(plan.fresh_precision) ** 0.5
                )
            answer = knowledge.estimate_planned(plan)
            assert answer.stddev <= stddev * (1 + 1e-9)
            row.append((answer.value - truth) / answer.stddev)
        errors.append(row)
    squares = np.mean(np.square(errors), axis=0)  # of each query, over the runs
    reach = 4.5 * np.sqrt(2 / RUNS)
    assert np.all(np.abs(squares - 1) < reach)
    assert np.all(1.3**2 * squares > 1 + reach) and np.all(0.7**2 * squares < 1 - reach)
    covered = np.mean(np.abs(errors) <= 1.96, axis=0)
    assert np.all(np.abs(covered - 0.95) < 4.5 * np.sqrt(0.95 * 0.05 / RUNS))


def test_errors_of_a_whole_run_are_within_what_was_promised() -> None:
    budget = budget_precision(Fraction(1), Fraction(1, 10**6))
    found = []
    for seed in range(8):
        work = make_workload("range", 64, 600, seed)
        run = answer_by_inference(work, budget, Cells(budget, work.cells), True, seed)
        assert run.answered == 600
        found.append(np.mean(np.square(run.promised)))
    assert np.sqrt(np.mean(found)) <= 1.0


def test_why_relative_requests_are_plain() -> None:
    """Someone who knows the true count refines it until it seems too large. In a cube a coarser question then gets that
    very estimate, and a lower bound of 2 standard deviations fails far too often. Plainly it gets the point of the
    query's bridge that belongs to its precision, which is what it was before anybody refined."""
    runs, truth = 1_000, 50.0
    generator = np.random.default_rng(11)
    query, coarse = range_query(2, 0, 1), Precision(10**15)
    in_cube = plainly = 0
    for _ in range(runs):
        knowledge = CubePosterior(CubeStatistic((Axis(2, False),)), False)
        bridge = None
        for step in range(12):
            plan = knowledge.plan_query(query, Precision(coarse.units << step))
            knowledge.add_measurement(plan, truth + generator.standard_normal() / float(plan.fresh_precision) ** 0.5)
            seen = knowledge.estimate_planned(plan)
            bridge = seen if bridge is None else bridge
            if seen.value - 2 * seen.stddev > truth:
                break
        again = knowledge.plan_query(query, coarse)
        assert not again.fresh_precision and bridge is not None
        found = knowledge.estimate_planned(again)
        in_cube += found.value - 2 * found.stddev > truth
        plainly += bridge.value - 2 * bridge.stddev > truth
    nominal, reach = 0.02275, 4.5 * np.sqrt(0.02275 / runs)
    assert abs(plainly / runs - nominal) < reach
    assert in_cube / runs > 4 * nominal
