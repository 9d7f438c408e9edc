"""`ParsedSelect`: what a SELECT needs, its results and the questions that they are computed from."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from noisebank.core.errors import NoisebankError
from noisebank.planning.pricing import AccuracyTarget
from noisebank.queries.derived import SelectItem
from noisebank.queries.query import Question

Result = TypeVar("Result")
TargetedQuestion = tuple[Question, AccuracyTarget]


@dataclass(frozen=True, slots=True)
class ParsedSelect:
    """A SELECT: its results, the questions that they need (each once), and for each result the indices of its own."""

    items: tuple[SelectItem, ...]
    questions: tuple[TargetedQuestion, ...]
    question_indices: tuple[tuple[int, ...], ...]


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
    return ParsedSelect(tuple(item for select in selects for item in select.items), tuple(questions), tuple(indices))


def capture_refusal(work: Callable[[], Result]) -> Result | NoisebankError:
    """Returns the result of the work, or the error of ours that it raised."""
    try:
        return work()
    except NoisebankError as error:
        return error
