"""Pydantic models of results, as `Result.to_json` writes them; see `schemas`."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from noisebank.service.schemas import Amount, CaseName, StrictModel


class VerdictOut(StrictModel):
    """Of a relative request: whether the answer is seen to be as close to the true value as was requested."""

    relative: float
    confidence: float
    floor: float = Field(description="The smallest true value for which that is promised")
    reached: bool
    next_cost: Amount | None = Field(description="What half the floor would cost now")
    message: str


class EstimateOut(StrictModel):
    """A number with its interval. What cannot be said is null."""

    value: float | None
    low: float | None = Field(description="Of the interval that holds the true value")
    high: float | None
    stddev: float | None = Field(description="Of Gaussian noise; null for what is computed from several answers")
    exact: str | None = Field(description="The released value as a rational number")
    label: str | None = Field(None, description="The most frequent key, or the bin of a quantile")
    verdict: VerdictOut | None = None


class InferenceOut(StrictModel):
    """Where an answer from a cube comes from."""

    cube: list[str]
    measurements: int
    first_look: bool
    alone: Amount = Field(description="What it would have cost by plain reuse")
    in_words: str


class ChargedQuestionOut(StrictModel):
    """One question behind a result: on the ledger by itself, with its own case, cost and receipt."""

    id: str
    sql: str
    case: CaseName
    cost: Amount
    wanted: Amount
    inferred: InferenceOut | None
    receipt: dict[str, Any]


class ChargeOut(StrictModel):
    """What all questions of a result cost together, and what was left afterwards."""

    case: CaseName = Field(description="The most expensive one among its questions")
    in_words: str
    cost: Amount
    remaining: Amount
    budget: Amount
    share: float = Field(description="The cost as a share of the budget, from 0 to 1")
    share_left: float
    epsilon: float = Field(description="Of the cost alone, at the account's delta; for display")
    delta: float


class ResultOut(StrictModel):
    """A table: one row, or one per group. A key is text (null: all of them), a number an object with its interval."""

    sql: str
    columns: list[str] = Field(description="Keys and numbers, in the order of the SELECT")
    by: list[str] = Field(description="The columns that are keys")
    rows: list[dict[str, str | EstimateOut | None]]
    confidence: float = Field(description="Of the interval of each number by itself")
    notes: list[str]
    parts: list[ChargedQuestionOut]
    charge: ChargeOut
