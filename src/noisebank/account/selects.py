"""`ParsedSelect`: what a SELECT needs, its results and the questions that they are computed from."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from noisebank.core.errors import BadRequest, NoisebankError
from noisebank.core.estimates import CONFIDENCE
from noisebank.core.units import Exact, Precision, parse_exact
from noisebank.planning.pricing import AccuracyTarget
from noisebank.queries.derived import OutputColumn, SelectItem
from noisebank.queries.query import Question

Outcome = TypeVar("Outcome")
TargetedQuestion = tuple[Question, AccuracyTarget]


@dataclass(frozen=True, slots=True)
class ParsedSelect:
    """A SELECT: its results, the questions that they need (each once), and for each result the indices of its own.

    Then the columns of its table, and the confidence of the intervals that the result states.
    """

    items: tuple[SelectItem, ...]
    questions: tuple[TargetedQuestion, ...]
    question_indices: tuple[tuple[int, ...], ...]
    columns: tuple[OutputColumn, ...]
    confidence: float = CONFIDENCE


def add_question(questions: list[TargetedQuestion], part: TargetedQuestion) -> int:
    """Returns the index of a question in a group, adding it if it is new: what two results share is asked once."""
    for index, (question, accuracy) in enumerate(questions):
        same = (question.unit, question.offset) == (part[0].unit, part[0].offset)
        if question.query == part[0].query and accuracy == part[1] and same:
            return index
    questions.append(part)
    return len(questions) - 1


def join_selects(selects: Sequence[ParsedSelect]) -> ParsedSelect:
    """Returns one SELECT with the results of all; what two of them share is asked once."""
    questions: list[TargetedQuestion] = []
    indices: list[tuple[int, ...]] = []
    for select in selects:
        joined = [add_question(questions, part) for part in select.questions]
        indices += [tuple(joined[index] for index in own) for own in select.question_indices]
    items = tuple(item for select in selects for item in select.items)
    columns = tuple(column for select in selects for column in select.columns)
    return ParsedSelect(items, tuple(questions), tuple(indices), columns, selects[0].confidence)


def capture_refusal(work: Callable[[], Outcome]) -> Outcome | NoisebankError:
    """Returns the result of the work, or the error of ours that it raised."""
    try:
        return work()
    except NoisebankError as error:
        return error


def parse_answer_id(text: str) -> bytes:
    """Returns an answer's id on the ledger."""
    try:
        return bytes.fromhex(text)
    except ValueError:
        raise BadRequest("id", ascii(text)[:40], "must be an answer's id in hexadecimal digits") from None


def parse_max_cost(max_cost: Exact | None) -> Precision | None:
    """Returns the most that a request may cost, rounded down; None if nothing is said."""
    if max_cost is None:
        return None
    value = parse_exact(max_cost, "max_cost")
    if value < 0:
        raise BadRequest("max_cost", "less than nothing", "must not be negative")
    return Precision.floor(value)
