"""`ParsedSelect`: a SELECT with the questions that it is computed from, and how accurate each shall be."""

from __future__ import annotations

from dataclasses import dataclass

from noisebank.core.estimates import CONFIDENCE
from noisebank.planning.coarse_looks import ErrorGoal
from noisebank.planning.pricing import AccuracyTarget
from noisebank.queries.query import Question
from noisebank.queries.selects import SelectList

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
