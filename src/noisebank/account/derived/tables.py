"""The rows of a SELECT from released answers: subtotals, totals over rows, HAVING, ORDER BY and LIMIT.

Which rows there are before HAVING follows from the policy; everything else here is computed from released numbers.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product

from noisebank.account.answers import Answer, GroupedAnswer
from noisebank.account.derived.aggregates import NoisyPart
from noisebank.account.derived.expressions import ExpressionEvaluator, RowNumbers
from noisebank.account.derived.gaussians import Gaussian, NoiseSource, sum_gaussians
from noisebank.account.derived.windows import add_windows
from noisebank.account.selects import ParsedSelect
from noisebank.queries.query import Question
from noisebank.queries.result_expressions import Key, OrderTerm, is_noisy
from noisebank.queries.selects import SelectList

RowKeys = tuple[str | None, ...]
"""In the order of the SELECT's keys."""


@dataclass(frozen=True)
class NumberTable:
    """All rows of a SELECT, before and after HAVING, ORDER BY and LIMIT."""

    rows: tuple[RowNumbers, ...]
    """Those that are shown."""
    candidates: int
    """How many there are before HAVING and LIMIT."""
    is_selected_by_noise: bool
    """Whether noise decides which of them are shown."""


def build_table(parsed: ParsedSelect, answers: Sequence[Answer], evaluator: ExpressionEvaluator) -> NumberTable:
    """Returns the rows of a SELECT, from one answer per question."""
    select = parsed.select
    labels = _list_labels(select, answers)
    rows = list(_split_rows(parsed, answers, labels))
    if select.grouping_sets:
        rows = _add_subtotals(select, rows, labels)
    rows = add_windows(select, rows, evaluator, lambda some, order: sort_rows(some, order, evaluator, labels))
    candidates = len(rows)
    if select.having is not None:
        rows = [row for row in rows if evaluator.holds(select.having, row)]
    rows = sort_rows(rows, select.order, evaluator, labels)
    stop = None if select.limit is None else select.offset + select.limit
    is_cut = select.offset > 0 or (stop is not None and stop < candidates)
    by_noise = select.having is not None and is_noisy(select.having)
    by_noise = by_noise or (is_cut and any(is_noisy(term.by) for term in select.order))
    return NumberTable(tuple(rows[select.offset : stop]), candidates, by_noise)


def _list_labels(select: SelectList, answers: Sequence[Answer]) -> dict[str, tuple[str, ...]]:
    """Returns the labels of each key, in the policy's order."""
    for answer in answers:
        if isinstance(answer, GroupedAnswer) and set(select.by) <= set(answer.by):
            return {
                name: tuple(dict.fromkeys(group.keys[answer.by.index(name)] for group in answer.groups))
                for name in select.by
            }
    return {}


def _split_rows(
    parsed: ParsedSelect, answers: Sequence[Answer], labels: Mapping[str, Sequence[str]]
) -> Iterator[RowNumbers]:
    """Yields the rows of the finest table: every combination of keys, in the policy's order."""
    select, sources = parsed.select, _name_sources(parsed, answers)
    by_aggregate: list[list[dict[RowKeys, NoisyPart]]] = []
    for aggregate, indices in zip(select.aggregates, parsed.question_indices, strict=True):
        by_aggregate.append(
            [
                _split_answer(select.by, answers[index], parsed.questions[index][0], own, sources[index])
                for index, own in zip(indices, aggregate.questions, strict=True)
            ]
        )
    for keys in product(*(labels[name] for name in select.by)):
        parts = [[part[keys] for part in own] for own in by_aggregate]
        yield RowNumbers(parts, {}, dict(zip(select.by, keys, strict=True)))


def _name_sources(parsed: ParsedSelect, answers: Sequence[Answer]) -> list[tuple[int, bool]]:
    """Returns for each answer the cluster of its noise, and whether its numbers are independent of all others.

    Answers from one cube may share noise in any way, and so may two answers to one query: one is the other's blur.
    """
    names: list[Hashable] = [
        question.query.digest if answer.inferred is None else answer.inferred.cube
        for (question, _), answer in zip(parsed.questions, answers, strict=True)
    ]
    return [
        (names.index(name), answer.inferred is None and names.count(name) == 1)
        for name, answer in zip(names, answers, strict=True)
    ]


def _split_answer(
    by: Sequence[str], answer: Answer, question: Question, own: Question, source: tuple[int, bool]
) -> dict[RowKeys, NoisyPart]:
    """Returns an answer's numbers by row, in the unit of an aggregate's own question."""
    cluster, independent = source
    factor = own.unit / question.unit
    groups = answer.groups if isinstance(answer, GroupedAnswer) else ()
    values = [group.exact for group in groups] if groups else [answer.exact]
    own_stddevs = answer.group_stddevs if isinstance(answer, GroupedAnswer) else ()
    stddevs = own_stddevs or (answer.stddev,) * len(values)
    numbers = [
        Gaussian(
            (value - question.offset) * factor + own.offset,
            {NoiseSource(cluster, index, independent): float(factor) * stddev} if stddev else {},
        )
        for index, (value, stddev) in enumerate(zip(values, stddevs, strict=True))
    ]
    if not isinstance(answer, GroupedAnswer):
        return {(): NoisyPart(tuple(numbers))}
    places = [answer.by.index(name) for name in by]
    rows: dict[RowKeys, list[Gaussian]] = defaultdict(list)
    for group, number in zip(groups, numbers, strict=True):
        rows[tuple(group.keys[place] for place in places)].append(number)
    running = tuple(abs(float(factor)) * stddev for stddev in answer.running_stddevs) if not by else ()
    return {keys: NoisyPart(tuple(row), running) for keys, row in rows.items()}


def _add_subtotals(
    select: SelectList, rows: Sequence[RowNumbers], labels: Mapping[str, Sequence[str]]
) -> list[RowNumbers]:
    """Returns the rows of all grouping sets, each a sum of rows of the finest table."""
    subtotals = []
    totals: dict[str, str | None] = dict.fromkeys(select.by)
    totals |= {column.key: column.total for column in select.columns if column.key is not None}
    for keys in select.grouping_sets:
        members: dict[RowKeys, list[RowNumbers]] = defaultdict(list)
        for row in rows:
            members[tuple(row.keys[name] for name in keys)].append(row)
        ordered = [name for name in select.by if name in keys]
        for values in product(*(labels[name] for name in ordered)):
            own = totals | dict(zip(ordered, values, strict=True))
            summed = _sum_rows(members[tuple(own[name] for name in keys)])
            subtotals.append(replace(summed, keys=own, summed_keys=frozenset(select.by) - frozenset(keys)))
    return subtotals


def _sum_rows(rows: Sequence[RowNumbers]) -> RowNumbers:
    if len(rows) == 1:
        return rows[0]
    parts = [
        [_sum_parts(same) for same in zip(*own, strict=True)] for own in zip(*(row.parts for row in rows), strict=True)
    ]
    return replace(rows[0], parts=parts)


def _sum_parts(parts: Sequence[NoisyPart]) -> NoisyPart:
    return NoisyPart(tuple(map(sum_gaussians, zip(*(part.numbers for part in parts), strict=True))))


def sort_rows(
    rows: Sequence[RowNumbers],
    order: Sequence[OrderTerm],
    evaluator: ExpressionEvaluator,
    labels: Mapping[str, Sequence[str]],
) -> list[RowNumbers]:
    """Returns rows in the order of ORDER BY; equal ones stay as they are."""
    ordered = list(rows)
    for term in reversed(order):
        values: list[float | str | None] = []
        for row in ordered:
            value = evaluator.evaluate_value(term.by, row)
            if isinstance(term.by, Key) and value is not None and not term.by.is_text:
                value = _rank_key(str(value), labels[term.by.name])
            values.append(value)
        known = [index for index, value in enumerate(values) if value is not None]
        known.sort(key=lambda index: values[index], reverse=term.descending)  # type: ignore[arg-type,return-value]
        nulls = [index for index, value in enumerate(values) if value is None]
        places = [*nulls, *known] if term.nulls_first else [*known, *nulls]
        ordered = [ordered[index] for index in places]
    return ordered


def _rank_key(label: str, labels: Sequence[str]) -> float:
    """Returns a key's place among the others: numbers by their value, bins and truth in the policy's order."""
    try:
        return {each: float(each) for each in labels}[label]
    except ValueError:  # some are no numbers
        return float(labels.index(label))
