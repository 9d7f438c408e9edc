"""The records of one task, built from the contract's events: rounds, submissions, lots, proposals, votes, verdicts.

`registry` reads the events and feeds them to `TaskBooks`; members, verification and views read the result.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

from noisebank.federated.blockfl.krum import Entry, Verdict
from noisebank.federated.blockfl.sortition import Point, PublicKey


class Phase(IntEnum):
    """Phase of a task; the values are the contract's."""

    JOINING = 1
    SUBMITTING = 2
    DRAWING = 4
    VOTING = 8
    FINISHED = 16


@dataclass(frozen=True)
class Posted:
    """What the poster has fixed when posting the task. Digests name contents of the store."""

    task: bytes
    poster: str
    model: bytes
    terms: bytes
    rounds: int
    byzantine: int
    seats: int
    patience: int
    norm: int
    printed: bool
    stake: int


@dataclass
class Standing:
    """State of one member. `coins` weigh its lots; without a public key it has not joined."""

    coins: int
    number: int = 0
    key: PublicKey | None = None
    reputation: int = 0
    reward: int = 0
    last: int = 0


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
    signature: Point
    seats: int
    priority: int


@dataclass
class Drawing:
    """One drawing of a round's committee."""

    seed: bytes
    lots: list[Lot] = field(default_factory=list)
    leader: str = ""

    @property
    def seats(self) -> int:
        """Seats of all members of this committee together."""
        return sum(lot.seats for lot in self.lots)


@dataclass
class Proposal:
    """A leader's proposal for a round, and the votes on it: (agrees, seats) by member."""

    id: bytes
    leader: str
    model: bytes
    verdicts: int
    attempt: int
    votes: dict[str, tuple[bool, int]] = field(default_factory=dict)
    fate: str = "open"
    """open, agreed, outvoted or late."""


@dataclass(frozen=True)
class Judged:
    """The verdict on a member's submission, and the reputation and reward that follow."""

    member: str
    verdict: Verdict
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
    judged: list[Judged] = field(default_factory=list)
    model: bytes | None = None
    """Digest of the average; None until the round is finished."""
    average: int = 0

    @property
    def entries(self) -> list[Entry]:
        """The submissions, as input for Multi-KRUM."""
        return [Entry(submission.member, submission.digest) for submission in self.submissions]

    @property
    def drawing(self) -> Drawing | None:
        """The latest drawing; None if there was none yet."""
        return self.drawings[-1] if self.drawings else None

    @property
    def proposal(self) -> Proposal | None:
        """The proposal that is being voted on, if any."""
        return self.proposals[-1] if self.proposals and self.proposals[-1].fate == "open" else None


class TaskBooks:
    """Records of one task. `apply_event` takes the contract's events in order."""

    def __init__(self, posted: Posted) -> None:
        self.posted = posted
        self.phase = Phase.JOINING
        self.members: dict[str, Standing] = {}
        self.rounds: list[Round] = []
        self.coins = 0
        self.settled: list[tuple[str, str, int]] = []

    @property
    def round(self) -> Round:
        """The current or last round."""
        return self.rounds[-1]

    def model_before(self, round: int) -> bytes:
        """Return the digest of the model that a round starts from."""
        digest = self.posted.model if round == 1 else self.rounds[round - 2].model
        assert digest is not None
        return digest

    def write(self, name: str, said: dict[str, Any], block: int) -> None:
        """Apply one event, by its name in the ABI, its arguments and its block number."""
        getattr(self, f"_on_{name}")(said, block)

    # -- events --------------------------------------------------------------------------------

    def _on_Admitted(self, said: dict[str, Any], block: int) -> None:  # noqa: N802
        self.members[said["member"]] = Standing(said["coins"])

    def _on_Joined(self, said: dict[str, Any], block: int) -> None:  # noqa: N802
        member = self.members[said["member"]]
        member.number, member.reputation = said["number"], 5
        member.key = PublicKey(said["x_imaginary"], said["x_real"], said["y_imaginary"], said["y_real"])

    def _on_Begun(self, said: dict[str, Any], block: int) -> None:  # noqa: N802
        self.phase, self.coins = Phase.SUBMITTING, said["coins"]
        self.rounds.append(Round(1, said["seed"]))

    def _on_Submitted(self, said: dict[str, Any], block: int) -> None:  # noqa: N802
        self.round.submissions.append(Submission(said["member"], said["model"], said["receipt"], block))
        self.members[said["member"]].last = said["round"]

    def _on_Closed(self, said: dict[str, Any], block: int) -> None:  # noqa: N802
        self.phase = Phase.DRAWING
        self.round.drawings.append(Drawing(self.round.seed))

    def _on_Drawn(self, said: dict[str, Any], block: int) -> None:  # noqa: N802
        lot = Lot(said["member"], (said["x"], said["y"]), said["seats"], said["priority"])
        self.round.drawings[-1].lots.append(lot)

    def _on_Seated(self, said: dict[str, Any], block: int) -> None:  # noqa: N802
        self.phase = Phase.VOTING
        self.round.drawings[-1].leader = said["leader"]

    def _on_Proposed(self, said: dict[str, Any], block: int) -> None:  # noqa: N802
        attempt = len(self.round.drawings)
        self.round.proposals.append(Proposal(said["id"], said["leader"], said["model"], said["verdicts"], attempt))

    def _on_Voted(self, said: dict[str, Any], block: int) -> None:  # noqa: N802
        self.round.proposals[-1].votes[said["member"]] = (said["agrees"], said["seats"])

    def _on_LeaderDeposed(self, said: dict[str, Any], block: int) -> None:  # noqa: N802
        if self.round.proposal is not None:
            self.round.proposal.fate = "outvoted" if said["outvoted"] else "late"
        else:
            self.round.silent_leaders.append(said["leader"])

    def _on_Judged(self, said: dict[str, Any], block: int) -> None:  # noqa: N802
        judged = Judged(said["member"], Verdict(said["verdict"]), said["reputation"], said["reward"])
        self.round.judged.append(judged)
        member = self.members[judged.member]
        member.reputation, member.reward = judged.reputation, member.reward + judged.reward

    def _on_RoundFinished(self, said: dict[str, Any], block: int) -> None:  # noqa: N802
        self.round.proposals[-1].fate = "agreed"
        self.round.model, self.round.average = said["model"], said["average"]
        if self.round.number < self.posted.rounds:
            self.rounds.append(Round(self.round.number + 1, said["seed"]))
            self.phase = Phase.SUBMITTING

    def _on_TaskFinished(self, said: dict[str, Any], block: int) -> None:  # noqa: N802
        self.phase = Phase.FINISHED

    def _on_StakeSettled(self, said: dict[str, Any], block: int) -> None:  # noqa: N802
        self.settled.append((said["member"], said["to"], said["amount"]))
