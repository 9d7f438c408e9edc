"""`fit_transaction`: the plans of an atomic group, which share the 16 runs of cells of one transaction.

A part is planned from what is known before the group. So it is told what earlier parts will measure.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from noisebank.core.units import Precision
from noisebank.planning.linear import MAX_RUNS
from noisebank.planning.pricing import AccuracyTarget
from noisebank.planning.reuse import Plan
from noisebank.planning.serving import ChargeLimits
from noisebank.queries.query import Question

MakePlan = Callable[[Question, Precision, bool, ChargeLimits], Plan]
"""Of a question, its target, whether cubes are left aside, and the limits."""


def fit_transaction(
    make_plan: MakePlan,
    questions: Sequence[tuple[Question, AccuracyTarget]],
    targets: Sequence[Precision],
    plainly: bool,
    may_look: bool = True,
) -> list[Plan]:
    """Plans a group so that it fits into one transaction: the parts with the most runs of cells get fewer ones, which
    charge no cell more than plain reuse would."""
    plans: list[Plan] = []

    def make_part(index: int, max_runs: int) -> Plan:
        question, measured = questions[index][0], [
            (other.query.digest, plan)
            for (other, _), plan in zip(questions[:index], plans, strict=False)
            if plan.fresh_precision and plan.cube_number
        ]  # fmt: skip
        same = [plan for digest, plan in measured if digest == question.query.digest]
        best = max(same, key=lambda plan: plan.target, default=None)
        limits = ChargeLimits(max_runs, frozenset(plan.cube_number for _, plan in measured), best, may_look)
        return make_plan(question, targets[index], plainly or not max_runs, limits)

    def rank_size(index: int) -> tuple[bool, bool, int]:
        charges = plans[index].charges
        return len(charges) > 1, bool(plans[index].fresh_precision), len(charges)

    for index in range(len(questions)):
        plans.append(make_part(index, MAX_RUNS))
    while (excess := sum(len(plan.charges) for plan in plans) - MAX_RUNS) > 0:
        longest = max(range(len(plans)), key=rank_size)
        count = len(plans[longest].charges)
        plans[longest] = make_part(longest, min(count - 1, max(1, count // 2, count - excess)))
    return plans
