"""Pydantic models of responses about federated learning. Amounts of epsilon are exact decimals, as text."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from noisebank.service.schemas import Amount, Wire


class LearningBrief(Wire):
    """A task in a line. Of `sgd`, rounds are groups of devices and members are devices."""

    id: str
    kind: Literal["crowd", "sgd"]
    name: str | None = Field(description="null: the terms are not stored here")
    mode: Literal["paper", "sound", "none", "unknown"]
    phase: Literal["joining", "submitting", "drawing", "voting", "finished"]
    rounds_planned: int
    rounds_finished: int
    members: int = Field(description="Who may take part")
    devices: int = Field(description="Who has joined, or has reported")


class LearningTasks(Wire):
    """Newest first."""

    tasks: list[LearningBrief]
    trouble: str = Field(description="Why some may be missing or old; empty if not")


class Privacy(Wire):
    """What a task protects, and what not."""

    mode: str
    protects: str
    not_protected: list[str]
    epsilon_of_an_example: float | None = Field(description="Over the whole task; null: no guarantee")
    delta: float


class MemberOut(Wire):
    member: str
    joined: bool
    coins: int
    reputation: int
    reward: int
    last_round: int


class RoundRow(Wire):
    """A round in a line."""

    round: int
    finished: bool
    submitted: int
    accepted: int
    refused: int
    leader: str | None
    deposed: int = Field(description="Leaders that were outvoted, late or silent")
    seats: int
    model: str | None = Field(description="The average's content identifier (CIDv1)")
    accuracy: float | None = None
    accuracy_with_noise: float | None = None


class SpendingRow(Wire):
    """A device's account on the budget ledger, in epsilon."""

    member: str
    account: str
    charged: Amount | None = Field(description="By this task; null: not charged")
    block: int | None
    delta: str = Field(description="Of this task")
    spent: Amount = Field(description="Over all tasks")
    budget: Amount


class CrowdTask(LearningBrief):
    """A crowd's task."""

    kind: Literal["crowd"]
    contract: str
    chain_id: int
    poster: str
    byzantine: int
    seats_expected: int
    patience_seconds: int
    reputation: Literal["as printed", "repaired"]
    initial_model: str
    terms: str
    model: str | None = Field(description="The newest average's content identifier")
    round: int
    leader: str | None = Field(description="Whose proposal is being waited for or voted on")
    privacy: Privacy | None
    members_now: list[MemberOut]
    rounds: list[RoundRow] = Field(description="The newest hundred")
    initial_accuracy: float | None
    measuring: bool = Field(description="Accuracies are still being measured: look again")
    test: str | None
    test_trouble: str
    spending: list[SpendingRow] | None = Field(description="Of a sound task; null: there is no guarantee to charge")


class GroupRow(Wire):
    """Devices first .. last, charged and reported together."""

    first: int
    last: int
    charged: Amount
    block: int
    time: int
    report: str | None = Field(description="Salted digest of the group's mean report; null: not yet published")


class SgdTask(LearningBrief):
    """A task of LDP-FedSGD on this bank's ledger."""

    kind: Literal["sgd"]
    model: str
    target: str
    attributes: list[str]
    mechanism: str
    group: int
    never_asked: int
    digest: str
    privacy: Privacy
    guarantee: str
    spent: Amount = Field(description="Epsilon of each device that took part")
    budget: Amount
    groups: list[GroupRow] = Field(description="The newest fifty, newest first")


class SubmissionOut(Wire):
    member: str
    model: str = Field(description="Content identifier (CIDv1)")
    block: int
    verdict: Literal["accepted", "outlier", "missing", "malformed"] | None
    reason: str
    reputation: int | None
    reward: int | None


class SeatOut(Wire):
    member: str
    seats: int
    leads: bool
    agrees: bool | None


class ProposalOut(Wire):
    leader: str
    fate: Literal["open", "agreed", "outvoted", "late"]
    model: str


class RoundOut(RoundRow):
    """A round in full."""

    submissions: list[SubmissionOut]
    committee: list[SeatOut]
    drawings: int
    proposals: list[ProposalOut]
    silent_leaders: list[str]
    average_reputation: int
