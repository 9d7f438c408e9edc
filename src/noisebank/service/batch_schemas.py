"""Pydantic models of batches of questions; see `schemas`."""

from __future__ import annotations

from typing import Self

from pydantic import Field, model_validator

from noisebank.service.result_schemas import ResultOut
from noisebank.service.schemas import AskIn, Key, ProblemOut, QuoteOut, StrictModel, WishIn

MAX_QUESTIONS = 1_000
"""Of a batch."""


class QuestionIn(AskIn):
    """A question of a batch."""

    key: Key | None = Field(
        None, description="Its own idempotency key; without one, the batch's and its place: `abc #1`, `abc #2`, ..."
    )


class AnswerBatchIn(StrictModel):
    """Questions that are answered together."""

    questions: list[QuestionIn] = Field(min_length=1, max_length=MAX_QUESTIONS)
    atomic: bool = Field(
        False,
        description="All are charged together, or none; at most 16 questions, without keys of their own. Their maximal "
        "costs are added up.",
    )

    @model_validator(mode="after")
    def check_keys(self) -> Self:
        """Refuse keys that would be ignored: an atomic batch has one."""
        if self.atomic and any(question.key is not None for question in self.questions):
            raise ValueError("questions of an atomic batch have no keys of their own")
        return self


class AnswerOutcome(StrictModel):
    """Of one question: its answer, or why there is none."""

    answer: ResultOut | None
    problem: ProblemOut | None


class AnswerBatchOut(StrictModel):
    """One outcome per question, in their order."""

    outcomes: list[AnswerOutcome]


class QuoteBatchIn(StrictModel):
    """Questions whose prices are asked for."""

    questions: list[WishIn] = Field(min_length=1, max_length=MAX_QUESTIONS)
    atomic: bool = Field(False, description="Also say what all of them together would cost")


class QuoteOutcome(StrictModel):
    """Of one question: its price alone, or why there is none."""

    quote: QuoteOut | None
    problem: ProblemOut | None


class QuoteBatchOut(StrictModel):
    """One outcome per question, in their order."""

    outcomes: list[QuoteOutcome]
    together: QuoteOut | None = Field(description="With atomic: the price of all together")
