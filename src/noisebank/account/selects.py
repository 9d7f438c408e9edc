"""`ParsedSelect`: a SELECT with the questions that it is computed from, and how accurate each shall be."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TypeVar

from noisebank.core.errors import BadRequest, NoisebankError, OutcomeUnknown
from noisebank.core.estimates import CONFIDENCE
from noisebank.core.units import Exact, Precision, parse_exact
from noisebank.planning.looks import ErrorGoal
from noisebank.planning.pricing import AccuracyTarget, PrecisionTarget, PrivacyTarget, compute_target
from noisebank.planning.relative import parse_share
from noisebank.queries.query import Question
from noisebank.queries.selects import SelectList

Outcome = TypeVar("Outcome")
TargetedQuestion = tuple[Question, AccuracyTarget]


@dataclass(frozen=True, slots=True)
class ParsedSelect:
    """A SELECT with the questions that its aggregates need, each once, and for each aggregate the indices of its own.

    `confidence` is that of each interval, `nominal_confidence` the one that was requested: lower, if all numbers hold
    at once.
    """

    select: SelectList
    questions: tuple[TargetedQuestion, ...]
    question_indices: tuple[tuple[int, ...], ...]
    confidence: float = CONFIDENCE
    nominal_confidence: float = CONFIDENCE
    goal: ErrorGoal | None = None
    """Of a request whose noise depends on the data; its questions' targets are those of a first look."""
    holds_at_once: bool = False
    """Whether all intervals of the table hold at once, those of rows that are not shown as well."""


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


def is_unitless(accuracy: AccuracyTarget) -> bool:
    """Whether a target is about privacy: the same precision whatever a question's unit is."""
    return isinstance(accuracy, (PrivacyTarget, PrecisionTarget))


def _unitless_precision(accuracy: AccuracyTarget) -> Precision | None:
    """Returns the precision of a target about privacy; None if it depends on a question's unit."""
    return compute_target(accuracy, Fraction(1)) if is_unitless(accuracy) else None


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


def capture_refusal(work: Callable[[], Outcome]) -> Outcome | NoisebankError:
    """Returns the result of the work, or the error of ours that it raised."""
    try:
        return work()
    except NoisebankError as error:
        return error


def report_unforeseen(error: Exception) -> OutcomeUnknown:
    """Returns the outcome of a question at which an error happened that nobody foresaw."""
    unknown = OutcomeUnknown(f"an unexpected error ({type(error).__name__}): ask again with the same key")
    unknown.__cause__ = error
    return unknown


def parse_answer_id(text: str) -> bytes:
    """Returns an answer's id on the ledger."""
    try:
        return bytes.fromhex(text)
    except ValueError:
        raise BadRequest("id", ascii(text)[:40], "must be an answer's id in hexadecimal digits") from None


def parse_max_cost(max_cost: Exact, budget: Precision) -> Precision:
    """Returns the most that a request may cost, rounded down: a precision, or a share of the budget such as "1%"."""
    is_share = isinstance(max_cost, str) and max_cost.strip().endswith("%")
    value = parse_share(max_cost, "max_cost") * budget.exact if is_share else parse_exact(max_cost, "max_cost")
    if value < 0:
        raise BadRequest("max_cost", "less than nothing", "must not be negative")
    return Precision.floor(value)
