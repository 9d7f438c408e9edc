"""From released answers to the `Result` of a SELECT. Post-processing: it costs nothing and opens no data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from noisebank.account.answers import Answer
from noisebank.account.derived.expressions import ExpressionEvaluator
from noisebank.account.derived.tables import NumberTable, build_table
from noisebank.account.selects import ParsedSelect
from noisebank.core.charges import Charge, ChargedQuestion
from noisebank.core.estimates import Estimate, Row, Verdict, make_estimate
from noisebank.core.intervals import confidence_interval
from noisebank.core.rendering import format_confidence
from noisebank.core.result import Result
from noisebank.queries.derived import FROM_COUNTS, Derivation
from noisebank.queries.result_expressions import Released, is_noisy, list_aggregates
from noisebank.queries.selects import OutputColumn, SelectList

COUNT_NOTES = {
    Derivation.QUANTILE: "comes from cumulative counts over the declared bins",
    Derivation.MINIMUM: "comes from cumulative counts over the declared bins",
    Derivation.MAXIMUM: "comes from cumulative counts over the declared bins",
    Derivation.MODE: "is the most frequent key, chosen by noisy counts of all declared keys; the number is its count",
}
"""What a reader must know of results that are computed from counts."""


def build_result(
    sql: str, parsed: ParsedSelect, answers: Sequence[Answer], verdicts: Sequence[Verdict | None], charge: Charge
) -> Result:
    """Returns the table of a SELECT, from one answer (and verdict, if its request was relative) per question."""
    if parsed.select.is_single_number:  # most questions: nothing is computed, and it is the hot path
        return _state_single_number(sql, parsed, answers[0], verdicts[0], charge)
    select, evaluator = parsed.select, ExpressionEvaluator(parsed.select.aggregates)
    table = build_table(parsed, answers, evaluator)
    confidence = parsed.confidence
    if table.is_selected_by_noise and not parsed.holds_at_once:
        # Chosen among many by their noise: all intervals of a column hold together (Bonferroni).
        confidence = 1 - (1 - confidence) / max(1, table.candidates)
    items = tuple(column.name for column in select.items)
    rows = []
    for row in table.rows:
        estimates = []
        for column in select.items:
            assert column.expression is not None
            estimate = evaluator.evaluate(column.expression, row, confidence)
            if table.is_selected_by_noise:  # what was chosen by its noise is no longer Gaussian
                estimate = replace(estimate, stddev=None)
            estimates.append(_add_verdict(estimate, column, parsed, verdicts))
        rows.append(Row(tuple(row.keys[name] for name in select.by), tuple(estimates), items))
    return Result(
        sql=sql,
        columns=tuple(column.name for column in select.columns),
        by=tuple(column.name for column in select.columns if column.key is not None),
        items=items,
        rows=tuple(rows),
        charge=charge,
        parts=tuple(charge_question(answer) for answer in answers),
        confidence=parsed.nominal_confidence,
        notes=tuple(_list_notes(parsed, table, evaluator, rows)),
    )


def _state_single_number(
    sql: str, parsed: ParsedSelect, answer: Answer, verdict: Verdict | None, charge: Charge
) -> Result:
    """Returns the result of one plain question without groups: the released number, with the interval of its noise."""
    names = (parsed.select.columns[0].name,)
    ends = confidence_interval(answer.value, answer.stddev, parsed.confidence)
    estimate = make_estimate(answer.value, *ends, answer.stddev, answer.exact, verdict=verdict)
    rows, parts = (Row((), (estimate,), names),), (charge_question(answer),)
    return Result(sql, names, (), names, rows, charge, parts, parsed.nominal_confidence, parsed.select.hints)


def _add_verdict(
    estimate: Estimate, column: OutputColumn, parsed: ParsedSelect, verdicts: Sequence[Verdict | None]
) -> Estimate:
    """Adds the verdict of a relative request to the number that it is about."""
    if not isinstance(column.expression, Released):
        return estimate
    indices = parsed.question_indices[column.expression.aggregate]
    verdict = verdicts[indices[0]] if len(indices) == 1 else None
    return estimate if verdict is None else replace(estimate, verdict=verdict)


def _list_notes(
    parsed: ParsedSelect, table: NumberTable, evaluator: ExpressionEvaluator, rows: Sequence[Row]
) -> list[str]:
    """Returns what a reader must know of the numbers, in sentences."""
    select = parsed.select
    notes = list(select.hints)
    notes += [note for column in select.items for note in _list_column_notes(column, select, evaluator)]
    notes += _list_order_notes(select, table, parsed)
    if select.grouping_sets:
        notes.append("(all) sums the finest groups; values that are no declared key, and missing ones, are in none")
    for name in (column.name for column in select.items):
        estimates = [row[name] for row in rows]
        if any(estimate.value is not None and None in (estimate.low, estimate.high) for estimate in estimates):
            notes.append(f"{name} is not bounded where its divisor may be zero: with less noise it would be")
        if any(estimate.value is None for estimate in estimates):
            notes.append(f"{name} has no value where it divides by zero or is NULL")
    return notes


def _list_column_notes(column: OutputColumn, select: SelectList, evaluator: ExpressionEvaluator) -> list[str]:
    assert column.expression is not None
    derivations = [select.aggregates[index].derivation for index in list_aggregates(column.expression)]
    notes = [f"{column.name} {COUNT_NOTES[each]}" for each in dict.fromkeys(derivations) if each in FROM_COUNTS]
    count = len(evaluator.list_atoms(column.expression))
    if count > 1:
        notes.append(f"the interval of {column.name} is a bound, from those of its {count} parts together")
    return notes


def _list_order_notes(select: SelectList, table: NumberTable, parsed: ParsedSelect) -> list[str]:
    notes = []
    names = [
        next((column.name for column in select.items if column.expression == term.by), "a number that is not selected")
        for term in select.order
        if is_noisy(term.by)
    ]
    if names:
        named = " and ".join(names)
        notes.append(f"rows are in the order of {named} as released, with noise: the true order may differ")
    if table.is_selected_by_noise:
        together = "all of them" if parsed.holds_at_once else "those of one column"
        notes.append(
            f"which of the {table.candidates} rows are shown is decided by noisy numbers: so the intervals are wider, "
            f"and {together} hold together with {format_confidence(parsed.nominal_confidence)} confidence"
        )
    elif len(table.rows) < table.candidates:
        notes.append(f"{len(table.rows)} of {table.candidates} rows are shown; all are measured and paid for")
    return notes


def charge_question(answer: Answer) -> ChargedQuestion:
    """Returns what stands on the ledger of one answer."""
    return ChargedQuestion(answer.sql, answer.case, answer.cost, answer.target, answer.receipt, answer.inferred)
