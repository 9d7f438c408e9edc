"""Turns the accuracy that a caller wishes into a target for each question of a SELECT. From public numbers only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

from noisebank.account.context import AccountContext
from noisebank.account.selects import ParsedSelect, TargetedQuestion, is_unitless, merge_question
from noisebank.account.shares import balance_shares, optimal_shares
from noisebank.core.errors import BadRequest, UnsupportedQuery
from noisebank.core.units import MIN_PRECISION, ZERO_PRECISION, Precision, ceil_to_ladder
from noisebank.ledger.encoding import MAX_GROUP_PARTS
from noisebank.planning.looks import ErrorGoal, check_looked_confidence, first_look_precision, shrink_bits
from noisebank.planning.pricing import (
    AccuracyTarget,
    PrecisionTarget,
    WithinTarget,
    check_confidence,
    divide_target,
    parse_accuracy,
)
from noisebank.planning.relative import RelativeTarget
from noisebank.queries.derived import Aggregate, list_linear
from noisebank.queries.groups import column_groups, group_count
from noisebank.queries.query import Question
from noisebank.queries.result_expressions import Released
from noisebank.queries.selects import SelectList
from noisebank.queries.sensitivity import saturation_limit


def target_select(context: AccountContext, select: SelectList, options: dict[str, Any]) -> ParsedSelect:
    """Returns a SELECT with a target for each of its questions, each once. Raises on what cannot be promised."""
    groups = options.pop("groups", None)
    if groups not in (None, "each", "all"):
        raise BadRequest("groups", groups, "must be each or all")
    confidence = check_confidence(options.get("confidence"))
    accuracy = parse_accuracy(**options, budget=context.state.budget)
    stated = 1 - (1 - confidence) / count_numbers(context, select) if groups == "all" else confidence
    if isinstance(accuracy, (WithinTarget, RelativeTarget)):
        accuracy = replace(accuracy, confidence=stated)
    goal = find_goal(accuracy, select)
    if goal is not None:
        check_looked_confidence(stated)
        questions, indices = _target_parts(context, select, None)
    elif options.get("spend") is not None:
        shares = balance_shares(select.aggregates, context.sensitivity_of)
        targets = dict(zip(shares, divide_target(accuracy, list(shares.values())), strict=True))
        parts = [[(each, targets[each.query]) for each in own.questions] for own in select.aggregates]
        questions, indices = _join_targets(parts)
    else:
        questions, indices = _target_parts(context, select, accuracy)
    if len(questions) > MAX_GROUP_PARTS:
        raise UnsupportedQuery(
            f"a SELECT that needs {len(questions)} questions", f"at most {MAX_GROUP_PARTS} are charged together"
        )
    return ParsedSelect(select, questions, indices, float(stated), float(confidence), goal, groups == "all")


def find_goal(accuracy: AccuracyTarget, select: SelectList) -> ErrorGoal | None:
    """Returns the goal of a request whose noise depends on the data, so that a look comes first; None for others."""
    if is_unitless(accuracy):
        return None
    released = {Released(index) for index in list_linear(select.aggregates)}
    is_linear = all(column.expression in released for column in select.items) and not select.grouping_sets
    if isinstance(accuracy, WithinTarget):
        return None if is_linear else ErrorGoal(accuracy.within, None)
    if isinstance(accuracy, RelativeTarget):
        plain = all(not each.query.by and not each.offset for own in select.aggregates for each in own.questions)
        if is_linear and (plain or accuracy.floor is not None):
            return None
        if accuracy.floor is not None:
            raise BadRequest("floor", accuracy.floor, "goes with plain counts and sums: a look finds what others need")
        return ErrorGoal(None, accuracy.relative)
    single = all(len(aggregate.questions) == 1 for aggregate in select.aggregates)
    if single and all(isinstance(column.expression, Released) for column in select.items) and not select.grouping_sets:
        return None
    raise UnsupportedQuery(
        "sigma for a derived answer", "its error depends on the data: say within, relative, or epsilon and delta"
    )


def count_numbers(context: AccountContext, select: SelectList) -> int:
    """Returns the most numbers that a SELECT's table can have."""
    rows = 1
    for aggregate in select.aggregates:
        bins = len(column_groups(context.policy.columns[aggregate.axis])) if aggregate.axis else 1
        rows = max(rows, *(group_count(question.query, context.policy) // bins for question in aggregate.questions))
    return rows * len(select.items) * max(1, len(select.grouping_sets))


def _target_parts(
    context: AccountContext, select: SelectList, accuracy: AccuracyTarget | None
) -> tuple[tuple[TargetedQuestion, ...], tuple[tuple[int, ...], ...]]:
    """Returns the questions with their targets; without an accuracy, those of a first look."""
    parts = []
    for aggregate in select.aggregates:
        shares = optimal_shares(aggregate, context.sensitivity_of)
        if accuracy is None:
            parts.append(_target_first_look(context, aggregate, shares))
        elif len(aggregate.questions) == 1:
            (question,) = aggregate.questions
            parts.append([(question, _set_floor(context, question, accuracy))])
        else:
            parts.append(list(zip(aggregate.questions, divide_target(accuracy, shares), strict=True)))
    questions, indices = _join_targets(parts)
    return (_shrink_looks(context, questions) if accuracy is None else questions), indices


def _shrink_looks(context: AccountContext, questions: Sequence[TargetedQuestion]) -> tuple[TargetedQuestion, ...]:
    """Returns first looks that together cost a small part of the budget: small tables would make them dear."""
    total = sum((context.target_precision(*each) for each in questions), ZERO_PRECISION)
    bits = shrink_bits(total, context.state.budget)
    precisions = [Precision(context.target_precision(*each).units >> bits) for each in questions]
    return tuple(
        (question, PrecisionTarget(max(MIN_PRECISION, precision)))
        for (question, _), precision in zip(questions, precisions, strict=True)
    )


def _join_targets(
    parts: Sequence[Sequence[TargetedQuestion]],
) -> tuple[tuple[TargetedQuestion, ...], tuple[tuple[int, ...], ...]]:
    """Returns each question once, and for each aggregate the indices of its own."""
    questions: list[TargetedQuestion] = []
    indices = [tuple(merge_question(questions, each) for each in own) for own in parts]
    return tuple(questions), tuple(indices)


def _target_first_look(
    context: AccountContext, aggregate: Aggregate, shares: Sequence[Fraction]
) -> list[TargetedQuestion]:
    targets: list[TargetedQuestion] = []
    for question, share in zip(aggregate.questions, shares, strict=True):
        largest = Fraction(saturation_limit(question.query, context.policy))
        even = first_look_precision(context.sensitivity_of(question.query), largest)
        precision = ceil_to_ladder(Precision.ceil(even.exact * share / min(shares)))
        targets.append((question, PrecisionTarget(max(MIN_PRECISION, precision))))
    return targets


def _set_floor(context: AccountContext, question: Question, accuracy: AccuracyTarget) -> AccuracyTarget:
    """Gives a relative target without a floor one from the policy: no answer influences it."""
    if not isinstance(accuracy, RelativeTarget):
        return accuracy
    return accuracy.with_floor(saturation_limit(question.query, context.policy) * abs(question.unit))
