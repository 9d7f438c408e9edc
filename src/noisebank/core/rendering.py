"""How a result prints, once for all surfaces: text for terminals and `repr`, HTML for notebooks and pages, CSV.

The share of the budget comes first, then epsilon. "±" is the half-width of the stated interval.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING

from noisebank.core.wording import format_number

if TYPE_CHECKING:
    from noisebank.core.estimates import Estimate, Row
    from noisebank.core.result import Result

MAX_ROWS = 20
"""Rows of `repr` and of a notebook's table; `to_pandas` has all."""
NO_BOUND = "no bound"
"""Stands for an end of an interval that nothing bounds."""
TIME_LABEL = re.compile(r"\[?\d{4}-\d{2}(-\d{2})?\b")
MIN_TIMES = 3
Facts = list[tuple[str, str]]
"""Pairs of a name and what is said about it."""


def result_text(result: Result, max_rows: int | None = None) -> str:
    """Returns a result for a terminal: its question, the numbers, what they cost."""
    facts = charge_facts(result)
    if len(result.rows) == 1 and not result.by:
        facts = [*_number_facts(result), *facts]
        return "\n".join([result.sql, *_align_facts(facts)])
    visible_rows = result.rows[:max_rows]
    table = _align_table(
        table_head(result), [row_cells(result, row) for row in visible_rows], _is_number_column(result)
    )
    hidden = len(result.rows) - len(visible_rows)
    more = [f"… and {hidden} more rows"] if hidden else []
    return "\n".join([result.sql, *table, *more, *_align_facts(facts)])


def result_html(result: Result, max_rows: int | None = MAX_ROWS) -> str:
    """Returns a result for a notebook: a table of the numbers, then what they cost. All text is escaped."""
    table = table_html(result, max_rows)
    facts = "".join(
        f"<div><small><b>{escape(name)}</b> {escape(text)}</small></div>"
        for name, text in [("question", result.sql), *charge_facts(result)]
    )
    return f"{table}{facts}"


def table_html(result: Result, max_rows: int | None = None) -> str:
    """Returns the numbers with their intervals as an HTML table. All text is escaped."""
    numeric = _is_number_column(result)
    classes = [' class="num"' if number else "" for number in numeric]
    head = "".join(
        f'<th scope="col"{kind}>{escape(text)}</th>' for text, kind in zip(table_head(result), classes, strict=True)
    )
    lines = []
    for row in result.rows[:max_rows]:
        cells = zip(row_cells(result, row), numeric, strict=True)
        lines.append("<tr>" + "".join(_cell_html(text, number) for text, number in cells) + "</tr>")
    hidden = len(result.rows) - len(lines)
    more = f"<div><small>and {hidden} more rows</small></div>" if hidden else ""
    return f'<table class="result"><thead><tr>{head}</tr></thead><tbody>{"".join(lines)}</tbody></table>{more}'


def table_head(result: Result) -> list[str]:
    """Returns the head of the table: each item has three columns, its value and the ends of its interval."""
    level = format_confidence(result.confidence)
    return [
        text for name in result.columns for text in ((name,) if name in result.by else (name, f"{level} from", "to"))
    ]


def row_cells(result: Result, row: Row) -> list[str]:
    """Returns one row of the table, as text."""
    cells = []
    for name in result.columns:
        if name in result.by:
            cells.append(key_text(row.keys[result.by.index(name)]))
            continue
        estimate = row[name]
        digits = digits_error(estimate)
        value = format_number(estimate.value, digits)
        cells.append(value if estimate.label is None else f"{estimate.label} ({value})")
        cells += [format_end(estimate, end) for end in (estimate.low, estimate.high)]
    return cells


def format_end(estimate: Estimate, end: float | None) -> str:
    """Returns an end of an estimate's interval; one that nothing bounds says so."""
    return NO_BOUND if end is None and estimate.value is not None else format_number(end, digits_error(estimate))


def key_text(key: str | None) -> str:
    """Returns a key, or what stands for all of them together."""
    return "(all)" if key is None else key


def row_label(row: Row) -> str:
    """Returns the keys of a row as one text."""
    return " / ".join(map(key_text, row.keys))


def is_time_series(result: Result) -> bool:
    """Whether the rows are grouped by one key that is time, in its order: then they are drawn as a line."""
    labels = [row.keys[0] or "" for row in result.rows] if len(result.by) == 1 else []
    return len(labels) >= MIN_TIMES and all(map(TIME_LABEL.match, labels)) and labels == sorted(labels)


def time_labels(result: Result) -> list[str]:
    """Returns what stands below a line over time: dates without the parts that all of them share."""
    labels = [row_label(row) for row in result.rows]
    for ending, pattern in (("-01-01", r"\d{4}-01-01"), ("-01", r"\d{4}-\d{2}-01")):
        if all(re.fullmatch(pattern, label) for label in labels):
            return [label.removesuffix(ending) for label in labels]
    return labels


def charge_facts(result: Result) -> Facts:
    """Returns what a result cost, why, and what proves it: the share of the budget first."""
    charge = result.charge
    facts = [("cost", charge.in_words), ("case", f"{charge.case.name}: {charge.case_in_words}")]
    facts += [("from", part.inferred.in_words) for part in result.parts if part.inferred is not None]
    facts += [("note", note) for note in result.notes]
    for row in result.rows:
        for estimate in row.estimates:
            if estimate.verdict is not None:
                facts.append(("reached" if estimate.verdict.reached else "not reached", estimate.verdict.message))
    receipts = [f"block {part.receipt.block}, {part.receipt.id.hex()[:16]}" for part in result.parts]
    return [*facts, ("receipt" if len(receipts) == 1 else "receipts", "; ".join(receipts))]


def estimate_text(estimate: Estimate, confidence: float) -> str:
    """Returns a number with its interval; "± half-width" where the interval lies evenly around it."""
    digits = digits_error(estimate)
    value = format_number(estimate.value, digits)
    low, high = format_end(estimate, estimate.low), format_end(estimate, estimate.high)
    if low == high == NO_BOUND:
        return f"{value} ({format_confidence(confidence)}: {NO_BOUND})"
    if estimate.stddev is None:
        return f"{value} ({format_confidence(confidence)}: {low} to {high})"
    half, stddev = format_number(estimate.half_width, digits), format_number(estimate.stddev, digits)
    return f"{value} ± {half} ({format_confidence(confidence)}: {low} to {high}; standard deviation {stddev})"


def digits_error(estimate: Estimate) -> float | None:
    """Returns the error that decides how many digits of an estimate are shown: half its half-width."""
    return None if not estimate.half_width else estimate.half_width / 2


def format_confidence(confidence: float) -> str:
    """Returns a confidence as a percentage.

    >>> format_confidence(0.95), format_confidence(0.999)
    ('95%', '99.9%')
    """
    return f"{confidence * 100:.10g}%"


def write_csv(columns: Mapping[str, Sequence[float | str | None]]) -> str:
    """Returns columns as CSV text: floats with all digits, empty for None, no text that a spreadsheet would run."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([escape_formula(name) for name in columns])
    for row in zip(*columns.values(), strict=True):
        writer.writerow([escape_formula(cell) if isinstance(cell, str) else cell for cell in row])
    return text.getvalue()


def escape_formula(text: str) -> str:
    """Returns text that no spreadsheet runs as a formula: with an apostrophe before it if needed."""
    return "'" + text if text[:1] in ("=", "+", "@", "\t", "\r") else text


def _cell_html(text: str, number: bool) -> str:
    return f'<td class="num">{escape(text)}</td>' if number else f'<th scope="row">{escape(text)}</th>'


def _number_facts(result: Result) -> Facts:
    facts: Facts = []
    for name, estimate in zip(result.items, result.rows[0].estimates, strict=True):
        text = estimate_text(estimate, result.confidence)
        facts.append((name, text if estimate.label is None else f"{estimate.label}: {text}"))
    return facts


def _is_number_column(result: Result) -> list[bool]:
    return [number for name in result.columns for number in ((False,) if name in result.by else (True, True, True))]


def _align_facts(facts: Facts) -> list[str]:
    width = max(len(name) for name, _ in facts)
    return [f"{name:<{width}}  {text}" for name, text in facts]


def _align_table(head: Sequence[str], rows: Sequence[Sequence[str]], numeric: Sequence[bool]) -> list[str]:
    widths = [max(len(line[index]) for line in (head, *rows)) for index in range(len(head))]

    def align_line(cells: Sequence[str]) -> str:
        parts = zip(cells, widths, numeric, strict=True)
        return "  ".join(f"{text:>{width}}" if number else f"{text:<{width}}" for text, width, number in parts).rstrip()

    return [align_line(head), "  ".join("─" * width for width in widths), *(align_line(row) for row in rows)]
