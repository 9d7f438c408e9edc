"""`RequestParser`: from the text and accuracy of a request to its questions, each with a target.

From public numbers only. A SELECT's aggregates share what their accuracy costs; a query that several of them need is
asked once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from itertools import chain
from typing import Any, cast

from noisebank.account.context import CACHE_BYTES, AccountContext, size_of
from noisebank.account.current_time import fix_moment, fix_sql
from noisebank.account.free_accuracy import improve_accuracy
from noisebank.account.pipeline import BatchItem
from noisebank.account.quotes import describe_price, quote_select
from noisebank.account.request_budget import RELATED, find_budget
from noisebank.account.requests import OWN_KEYS
from noisebank.account.selects import ParsedSelect, TargetedQuestion
from noisebank.core.asks import AccuracyOptions, Ask
from noisebank.core.caches import cache_results
from noisebank.core.errors import BadRequest, Misuse, UnsupportedQuery
from noisebank.core.quote import Quote
from noisebank.core.units import MIN_PRECISION, ZERO_PRECISION, Exact, Precision, ceil_to_ladder, parse_exact
from noisebank.ledger.encoding import MAX_GROUP_PARTS
from noisebank.planning.coarse_looks import ErrorGoal, check_looked_confidence, first_look_precision, shrink_bits
from noisebank.planning.precision_shares import balance_shares, optimal_shares
from noisebank.planning.pricing import (
    AccuracyTarget,
    PrecisionTarget,
    PrivacyTarget,
    WithinTarget,
    check_confidence,
    compute_target,
    divide_target,
    parse_accuracy,
)
from noisebank.planning.relative import RelativeTarget, parse_share
from noisebank.queries.current_time import has_moment
from noisebank.queries.derived import Aggregate, list_linear
from noisebank.queries.groups import column_groups, group_count
from noisebank.queries.query import Question
from noisebank.queries.result_expressions import Released
from noisebank.queries.selects import SelectList, parse_select_list
from noisebank.queries.sensitivity import saturation_limit


@dataclass(slots=True, eq=False)
class ParsedRequest:
    """A request as the path takes it: `select` says what is computed from the answers to the questions of `item`."""

    sql: str
    """With the present written out."""
    select: ParsedSelect
    item: BatchItem


class RequestParser:
    """Parses the requests of one account."""

    def __init__(self, context: AccountContext) -> None:
        self._context = context
        self.parse_list = cache_results(CACHE_BYTES, size_of)(self._parse_list)
        """The SELECT of a text: results and questions, without targets."""
        self._parse_select_cached = cache_results(CACHE_BYTES, size_of, typed=True)(self._parse_select)
        # typed: True is not 1

    def parse_request(self, request: Ask) -> ParsedRequest:
        """Returns what a request needs. A retry is about the same moment and budget, and as accurate as before."""
        check_key(request.key)
        if isinstance(request.sql, str) and has_moment(self._context.policy.resolve_sql(request.sql)):
            request = fix_moment(self._context, request)
        is_share = any(name in request.accuracy for name in RELATED)
        budget = find_budget(self._context, request) if is_share else None
        select = self.parse_select(request.sql, request.accuracy, budget)
        relative = any(isinstance(accuracy, RelativeTarget) for _, accuracy in select.questions)
        if request.best and len(select.questions) == 1 and not relative and select.goal is None:
            question, accuracy = select.questions[0]
            better = improve_accuracy(self._context, question, accuracy, request.key, request.analyst)
            select = replace(select, questions=((question, better),))
        # The promise of a relative answer needs a precision that no earlier answer has influenced: no cube, and not
        # a better answer that happens to be known.
        max_cost = None
        if request.max_cost is not None:
            max_cost = parse_max_cost(request.max_cost, budget or self._context.state.budget)
        item = BatchItem(select.questions, max_cost, request.key, request.analyst, relative, budget=budget)
        return ParsedRequest(request.sql, select, item)

    def parse_select(self, sql: str, options: AccuracyOptions, budget: Precision | None = None) -> ParsedSelect:
        """Returns what a SELECT needs. It depends on text, accuracy, policy and budget only, so it is cached.

        `budget` is the one that shares are of; the present one, if not said.
        """
        if any(name in options for name in RELATED):
            budget = self._context.state.budget if budget is None else budget
        else:
            budget = None
        arguments: tuple[Any, ...] = (budget, sql, *chain.from_iterable(options.items()))
        try:
            hash(arguments)
        except TypeError:  # neither text nor number: parsing it raises the error for it
            return self._parse_select(*arguments)
        return self._parse_select_cached(*arguments)

    def parse_now(self, sql: str, options: AccuracyOptions) -> tuple[str, ParsedSelect]:
        """Returns SQL with the present written out, and what it needs: for a quote, which has no key."""
        sql = fix_sql(self._context, sql)
        return sql, self.parse_select(sql, options)

    def _parse_list(self, text: str) -> SelectList:
        return parse_select_list(text, self._context.policy)

    def _parse_select(self, budget: Precision | None, sql: str, *arguments: Any) -> ParsedSelect:
        """Returns results, their questions, and each question's share of the accuracy.

        `arguments` are names and values of the accuracy options, one after the other: hashable, for the cache.
        """
        options: dict[str, Any] = dict(zip(arguments[::2], arguments[1::2], strict=True))
        try:
            select = self.parse_list(self._context.policy.resolve_sql(sql))
        except Misuse as error:
            if error.nearest is not None:
                error.name_nearest(error.nearest, describe_price(partial(self._quote_nearest, error.nearest, options)))
            raise
        return target_select(self._context, select, options, budget)

    def _quote_nearest(self, sql: str, options: dict[str, Any]) -> Quote:
        return quote_select(self._context, *self.parse_now(sql, cast(AccuracyOptions, options)))


def check_key(key: object) -> None:
    """Refuses a key of somebody's own that might be one of a step: it would be found in the place of that."""
    if isinstance(key, str) and OWN_KEYS.fullmatch(key):
        raise BadRequest("key", ascii(key)[:40], "must not end like the key of a step: ' / end', ' / look 1'")


def target_select(
    context: AccountContext, select: SelectList, options: dict[str, Any], budget: Precision | None
) -> ParsedSelect:
    """Returns a SELECT with a target for each of its questions, each once. Raises on what cannot be promised."""
    groups = options.pop("groups", None)
    if groups not in (None, "each", "all"):
        raise BadRequest("groups", groups, "must be each or all")
    confidence = check_confidence(options.get("confidence"))
    accuracy = parse_accuracy(**options, budget=budget)
    stated = 1 - (1 - confidence) / count_numbers(context, select) if groups == "all" else confidence
    if isinstance(accuracy, (WithinTarget, RelativeTarget)):
        accuracy = replace(accuracy, confidence=stated)
    goal = find_goal(accuracy, select)
    if goal is not None:
        check_looked_confidence(stated)
        assert budget is not None
        questions, indices = _target_parts(context, select, None)
        questions = _shrink_looks(context, questions, budget)
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
    is_linear = is_linear and len(released) == len(select.aggregates)  # also those that only HAVING or ORDER BY needs
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
        if accuracy is None:
            parts.append(_target_first_look(context, aggregate))
        elif len(aggregate.questions) == 1:
            (question,) = aggregate.questions
            parts.append([(question, _set_floor(context, question, accuracy))])
        else:
            shares = optimal_shares(aggregate, context.sensitivity_of)
            parts.append(list(zip(aggregate.questions, divide_target(accuracy, shares), strict=True)))
    return _join_targets(parts)


def _shrink_looks(
    context: AccountContext, questions: Sequence[TargetedQuestion], budget: Precision
) -> tuple[TargetedQuestion, ...]:
    """Returns first looks that together cost a small part of the budget: small tables would make them dear.

    Of a budget that was raised after answers, they cost a part of the one before: what looks may decide does not grow.
    """
    total = sum((context.target_precision(*each) for each in questions), ZERO_PRECISION)
    bits = shrink_bits(total, min(budget, context.ledger.books.get_budgets(context.id).fixed))
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


def _target_first_look(context: AccountContext, aggregate: Aggregate) -> list[TargetedQuestion]:
    shares = optimal_shares(aggregate, context.sensitivity_of)
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


def add_question(questions: list[TargetedQuestion], part: TargetedQuestion) -> int:
    """Returns the index of a question in a group, adding it if it is new: what two results share is asked once."""
    for index, (question, accuracy) in enumerate(questions):
        same = (question.unit, question.offset) == (part[0].unit, part[0].offset)
        if question.query == part[0].query and accuracy == part[1] and same:
            return index
    questions.append(part)
    return len(questions) - 1


def merge_question(questions: list[TargetedQuestion], part: TargetedQuestion) -> int:
    """As `add_question`, within one SELECT: a query that several aggregates need is asked once, as accurately as the
    most demanding one needs it, and each reads the answer in its own unit."""
    for index, (question, accuracy) in enumerate(questions):
        if question.query != part[0].query:
            continue
        precisions = [_unitless_precision(each) for each in (accuracy, part[1])]
        if precisions[0] is not None and precisions[1] is not None:
            if precisions[1] > precisions[0]:
                questions[index] = (question, part[1])
            return index
    return add_question(questions, part)


def _unitless_precision(accuracy: AccuracyTarget) -> Precision | None:
    """Returns the precision of a target about privacy; None if it depends on a question's unit."""
    return compute_target(accuracy, Fraction(1)) if is_unitless(accuracy) else None


def is_unitless(accuracy: AccuracyTarget) -> bool:
    """Whether a target is about privacy: the same precision whatever a question's unit is."""
    return isinstance(accuracy, (PrivacyTarget, PrecisionTarget))


def join_selects(parsed: Sequence[ParsedSelect]) -> ParsedSelect:
    """Returns the questions of several SELECTs, for a quote; what two of them share is asked once."""
    questions: list[TargetedQuestion] = []
    indices: list[tuple[int, ...]] = []
    for each in parsed:
        joined = [add_question(questions, part) for part in each.questions]
        indices += [tuple(joined[index] for index in own) for own in each.question_indices]
    aggregates = tuple(aggregate for each in parsed for aggregate in each.select.aggregates)
    columns = tuple(column for each in parsed for column in each.select.columns)
    joined_list = SelectList(aggregates, columns)
    return replace(parsed[0], select=joined_list, questions=tuple(questions), question_indices=tuple(indices))


def parse_max_cost(max_cost: Exact, budget: Precision) -> Precision:
    """Returns the most that a request may cost, rounded down: precision, or a share of the budget such as "1%"."""
    is_share = isinstance(max_cost, str) and max_cost.strip().endswith("%")
    value = parse_share(max_cost, "max_cost") * budget.exact if is_share else parse_exact(max_cost, "max_cost")
    if value < 0:
        raise BadRequest("max_cost", "less than nothing", "must not be negative")
    return Precision.floor(value)
