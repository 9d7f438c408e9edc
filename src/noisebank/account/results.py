"""From released answers to the `Result` of a SELECT. Post-processing: it costs nothing and opens no data."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import sqrt

from noisebank.account.answers import Answer, GroupedAnswer
from noisebank.account.derived import FROM_COUNTS, derive_values, derived_label
from noisebank.account.selects import ParsedSelect
from noisebank.core.charges import Charge, ChargedQuestion
from noisebank.core.estimates import Estimate, Row, Verdict, make_estimate
from noisebank.core.intervals import confidence_interval
from noisebank.core.result import Result
from noisebank.queries.derived import Derivation, SelectItem
from noisebank.queries.query import Question

COUNT_NOTES = {
    Derivation.QUANTILE: "comes from cumulative counts over the declared bins",
    Derivation.MINIMUM: "comes from cumulative counts over the declared bins",
    Derivation.MAXIMUM: "comes from cumulative counts over the declared bins",
    Derivation.MODE: "is the most frequent key, chosen by noisy counts of all declared keys; the number is its count",
}
"""What a reader must know of results that are computed from counts."""


def build_result(
    sql: str, select: ParsedSelect, answers: Sequence[Answer], verdicts: Sequence[Verdict | None], charge: Charge
) -> Result:
    """Returns the table of a SELECT, from one answer (and verdict, if its request was relative) per question."""
    names = {column.key: column.name for column in select.columns if column.key is not None}
    columns = []
    for item, indices in zip(select.items, select.question_indices, strict=True):
        own = [answers[index] for index in indices]
        if item.derivation is Derivation.LINEAR:
            question, _ = select.questions[indices[0]]
            columns.append(_state_answer(own[0], question, verdicts[indices[0]], select.confidence))
        else:
            columns.append(_state_derived(item, own, select.confidence))
    by, keys = _find_keys(select, answers)
    items = tuple(item.name for item in select.items)
    rows = tuple(Row(key, estimates, items) for key, estimates in zip(keys, zip(*columns, strict=True), strict=True))
    return Result(
        sql=sql,
        columns=tuple(column.name for column in select.columns),
        by=tuple(names[key] for key in by),
        items=items,
        rows=rows,
        charge=charge,
        parts=tuple(_charge_question(answer) for answer in answers),
        confidence=select.confidence,
        notes=tuple(
            f"{item.name} {COUNT_NOTES[item.derivation]}" for item in select.items if item.derivation in FROM_COUNTS
        ),
    )


def _find_keys(select: ParsedSelect, answers: Sequence[Answer]) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Returns the columns that the table is grouped by, and the keys of each row; one row without keys if there are
    none. What is computed from counts by bins is one number."""
    for item, indices in zip(select.items, select.question_indices, strict=True):
        first = answers[indices[0]]
        if isinstance(first, GroupedAnswer) and item.derivation not in FROM_COUNTS:
            return first.by, [group.keys for group in first.groups]
    return (), [()]


def _state_answer(answer: Answer, question: Question, verdict: Verdict | None, confidence: float) -> list[Estimate]:
    """Returns the answer's numbers with their intervals: one, or one per group."""
    values = [group.exact for group in answer.groups] if isinstance(answer, GroupedAnswer) else [answer.exact]
    estimates = []
    for exact, stddev in zip(values, _list_stddevs(answer, question, len(values)), strict=True):
        low, high = confidence_interval(float(exact), stddev, confidence)
        estimates.append(make_estimate(float(exact), low, high, stddev, exact, verdict=verdict))
    return estimates


def _list_stddevs(answer: Answer, question: Question, count: int) -> list[float]:
    """Returns the standard deviation of each number: in a cube they differ from group to group."""
    variances = answer.receipt.answer.get("variances")
    if not isinstance(variances, list) or len(variances) != count:
        return [answer.stddev] * count
    return [sqrt(Fraction(variance) * question.unit**2) for variance in variances]


def _state_derived(item: SelectItem, parts: Sequence[Answer], confidence: float) -> list[Estimate]:
    """Returns derived numbers with their intervals: one, or one per group. Their noise is not Gaussian."""
    return [
        make_estimate(number.value, number.low, number.high, label=derived_label(item, parts[0], number.value))
        for number in derive_values(item, parts, confidence)
    ]


def _charge_question(answer: Answer) -> ChargedQuestion:
    return ChargedQuestion(answer.sql, answer.case, answer.cost, answer.target, answer.receipt, answer.inferred)
