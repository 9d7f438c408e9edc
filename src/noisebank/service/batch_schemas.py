"""Pydantic models of batches of questions; see `schemas`."""

from __future__ import annotations

from typing import Self

from pydantic import Field, model_validator

from noisebank.service.result_schemas import ResultOut
from noisebank.service.schemas import AskIn, Key, Number, ProblemOut, QuoteIn, QuoteOut, StrictModel

MAX_QUESTIONS = 1_000
"""Of a batch."""


SPEND_TEXT = (
    "The most accurate answers for this share of the budget, e.g. 1%: all questions together cost at most that, and "
    "what several need is paid for once. They then have no accuracy of their own."
)


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
    spend: Number | None = Field(None, description=SPEND_TEXT)

    @model_validator(mode="after")
    def check_questions(self) -> Self:
        """Refuse what would be ignored: keys of an atomic batch's questions, signatures of another accuracy."""
        if self.atomic and any(question.key is not None for question in self.questions):
            raise ValueError("questions of an atomic batch have no keys of their own")
        if self.spend is not None and any(question.agreed is not None for question in self.questions):
            raise ValueError("a wallet signs how accurate each question is: say it there, not for the batch")
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

    questions: list[QuoteIn] = Field(min_length=1, max_length=MAX_QUESTIONS)
    atomic: bool = Field(False, description="Also say what all of them together would cost")
    spend: Number | None = Field(None, description=SPEND_TEXT)


class QuoteOutcome(StrictModel):
    """Of one question: its price alone, or why there is none."""

    quote: QuoteOut | None
    problem: ProblemOut | None


class QuoteBatchOut(StrictModel):
    """One outcome per question, in their order."""

    outcomes: list[QuoteOutcome]
    together: QuoteOut | None = Field(description="With atomic: the price of all together")
