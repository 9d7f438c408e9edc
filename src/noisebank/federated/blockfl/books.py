"""The records of one task, built from the contract's events: rounds, submissions, lots, proposals, votes, verdicts.

`registry` reads the events and feeds them to `TaskBooks`; members, verification and views read the result.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

from noisebank.federated.blockfl.krum import KrumVerdict, SubmittedModel
from noisebank.federated.blockfl.sortition import G1Point, PublicKey


class Phase(IntEnum):
    """Phase of a task; the values are the contract's."""

    JOINING = 1
    SUBMITTING = 2
    DRAWING = 4
    VOTING = 8
    FINISHED = 16


@dataclass(frozen=True)
class TaskSetup:
    """What the poster has fixed when posting the task. Digests name contents of the store."""

    task_id: bytes
    poster: str
    initial_model: bytes
    terms_digest: bytes
    round_count: int
    byzantine: int
    expected_seats: int
    patience_seconds: int
    reputation_norm: int
    uses_printed_rule: bool
    stake_wei: int


@dataclass
class MemberState:
    """State of one member. `coins` weigh its lots; without a public key it has not joined."""

    coins: int
    number: int = 0
    public_key: PublicKey | None = None
    reputation: int = 0
    reward: int = 0
    last_round: int = 0


@dataclass(frozen=True)
class Submission:
    """A model submitted in a round. `receipt` is the id of the charge that pays for it."""

    member: str
    digest: bytes
    receipt: bytes
    block: int


@dataclass(frozen=True)
class Lot:
    """A lot that a member has drawn, with seats and priority as the contract computed them."""

    member: str
    signature: G1Point
    seats: int
    priority: int


@dataclass
class Drawing:
    """One drawing of a round's committee."""

    seed: bytes
    lots: list[Lot] = field(default_factory=list)
    leader: str = ""

    @property
    def total_seats(self) -> int:
        """Seats of all members of this committee together."""
        return sum(lot.seats for lot in self.lots)


@dataclass
class Proposal:
    """A leader's proposal for a round, and the votes on it: (agrees, seats) by member."""

    id: bytes
    leader: str
    model_digest: bytes
    packed_verdicts: int
    attempt: int
    votes: dict[str, tuple[bool, int]] = field(default_factory=dict)
    outcome: str = "open"
    """open, agreed, outvoted or late."""


@dataclass(frozen=True)
class MemberVerdict:
    """The verdict on a member's submission, and the reputation and reward that follow."""

    member: str
    verdict: KrumVerdict
    reputation: int
    reward: int


@dataclass
class Round:
    """Everything recorded about one round."""

    number: int
    seed: bytes
    submissions: list[Submission] = field(default_factory=list)
    drawings: list[Drawing] = field(default_factory=list)
    proposals: list[Proposal] = field(default_factory=list)
    silent_leaders: list[str] = field(default_factory=list)
    """Leaders deposed without having proposed anything."""
    verdicts: list[MemberVerdict] = field(default_factory=list)
    model_digest: bytes | None = None
    """Digest of the average; None until the round is finished."""
    average_reputation: int = 0

    @property
    def submitted_models(self) -> list[SubmittedModel]:
        """The submissions, as input for Multi-KRUM."""
        return [SubmittedModel(submission.member, submission.digest) for submission in self.submissions]

    @property
    def current_drawing(self) -> Drawing | None:
        """The latest drawing; None if there was none yet."""
        return self.drawings[-1] if self.drawings else None

    @property
    def open_proposal(self) -> Proposal | None:
        """The proposal that is being voted on, if any."""
        return self.proposals[-1] if self.proposals and self.proposals[-1].outcome == "open" else None


class TaskBooks:
    """Records of one task. `apply_event` takes the contract's events in order."""

    def __init__(self, setup: TaskSetup) -> None:
        self.setup = setup
        self.phase = Phase.JOINING
        self.members: dict[str, MemberState] = {}
        self.rounds: list[Round] = []
        self.total_coins = 0
        self.settled_stakes: list[tuple[str, str, int]] = []

    @property
    def current_round(self) -> Round:
        """The current or last round."""
        return self.rounds[-1]

    def model_before(self, round: int) -> bytes:
        """Return the digest of the model that a round starts from."""
        digest = self.setup.initial_model if round == 1 else self.rounds[round - 2].model_digest
        assert digest is not None
        return digest

    def apply_event(self, name: str, event: dict[str, Any], block: int) -> None:
        """Apply one event, by its name in the ABI, its arguments and its block number."""
        getattr(self, f"_on_{name}")(event, block)

    # -- events --------------------------------------------------------------------------------

    def _on_Admitted(self, event: dict[str, Any], block: int) -> None:  # noqa: N802
        self.members[event["member"]] = MemberState(event["coins"])

    def _on_Joined(self, event: dict[str, Any], block: int) -> None:  # noqa: N802
        member = self.members[event["member"]]
        member.number, member.reputation = event["number"], 5
        member.public_key = PublicKey(event["x_imaginary"], event["x_real"], event["y_imaginary"], event["y_real"])

    def _on_Begun(self, event: dict[str, Any], block: int) -> None:  # noqa: N802
        self.phase, self.total_coins = Phase.SUBMITTING, event["coins"]
        self.rounds.append(Round(1, event["seed"]))

    def _on_Submitted(self, event: dict[str, Any], block: int) -> None:  # noqa: N802
        self.current_round.submissions.append(Submission(event["member"], event["model"], event["receipt"], block))
        self.members[event["member"]].last_round = event["round"]

    def _on_Closed(self, event: dict[str, Any], block: int) -> None:  # noqa: N802
        self.phase = Phase.DRAWING
        self.current_round.drawings.append(Drawing(self.current_round.seed))

    def _on_Drawn(self, event: dict[str, Any], block: int) -> None:  # noqa: N802
        lot = Lot(event["member"], (event["x"], event["y"]), event["seats"], event["priority"])
        self.current_round.drawings[-1].lots.append(lot)

    def _on_Seated(self, event: dict[str, Any], block: int) -> None:  # noqa: N802
        self.phase = Phase.VOTING
        self.current_round.drawings[-1].leader = event["leader"]

    def _on_Proposed(self, event: dict[str, Any], block: int) -> None:  # noqa: N802
        attempt = len(self.current_round.drawings)
        self.current_round.proposals.append(
            Proposal(event["id"], event["leader"], event["model"], event["verdicts"], attempt)
        )

    def _on_Voted(self, event: dict[str, Any], block: int) -> None:  # noqa: N802
        self.current_round.proposals[-1].votes[event["member"]] = (event["agrees"], event["seats"])

    def _on_LeaderDeposed(self, event: dict[str, Any], block: int) -> None:  # noqa: N802
        if self.current_round.open_proposal is not None:
            self.current_round.open_proposal.outcome = "outvoted" if event["outvoted"] else "late"
        else:
            self.current_round.silent_leaders.append(event["leader"])

    def _on_Judged(self, event: dict[str, Any], block: int) -> None:  # noqa: N802
        judged = MemberVerdict(event["member"], KrumVerdict(event["verdict"]), event["reputation"], event["reward"])
        self.current_round.verdicts.append(judged)
        member = self.members[judged.member]
        member.reputation, member.reward = judged.reputation, member.reward + judged.reward

    def _on_RoundFinished(self, event: dict[str, Any], block: int) -> None:  # noqa: N802
        self.current_round.proposals[-1].outcome = "agreed"
        self.current_round.model_digest, self.current_round.average_reputation = event["model"], event["average"]
        if self.current_round.number < self.setup.round_count:
            self.rounds.append(Round(self.current_round.number + 1, event["seed"]))
            self.phase = Phase.SUBMITTING

    def _on_TaskFinished(self, event: dict[str, Any], block: int) -> None:  # noqa: N802
        self.phase = Phase.FINISHED

    def _on_StakeSettled(self, event: dict[str, Any], block: int) -> None:  # noqa: N802
        self.settled_stakes.append((event["member"], event["to"], event["amount"]))
