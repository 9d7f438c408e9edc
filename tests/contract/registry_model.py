"""The model registry in plain Python: what the bytecode must do, call by call."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from support.internals import SortitionKey, compute_priority, count_seats, hash_signature, keccak

JOINING, SUBMITTING, DRAWING, VOTING, FINISHED = 1, 2, 4, 8, 16
NOTHING = bytes(32)


class Revert(Exception):
    """The contract would say no, in these words."""


def need(true: bool, reason: str) -> None:
    if not true:
        raise Revert(f"registry: {reason}")


def words(*values: int | bytes | str) -> bytes:
    """abi_encode of words."""
    return b"".join(
        value.to_bytes(32, "big") if isinstance(value, int)
        else bytes.fromhex(value[2:]).rjust(32, b"\0") if isinstance(value, str) else value
        for value in values
    )  # fmt: skip


@dataclass
class Member:
    coins: int
    number: int = 0
    reputation: int = 0
    reward: int = 0
    last: int = 0
    key: SortitionKey | None = None


@dataclass
class Proposal:
    id: bytes
    model: bytes
    verdicts: int
    votes: dict[str, bool] = field(default_factory=dict)


@dataclass
class Drawing:
    lots: dict[str, bytes] = field(default_factory=dict)
    won: dict[str, int] = field(default_factory=dict)
    order: list[str] = field(default_factory=list)
    """Candidates that have not led yet, by priority; the first leads."""
    proposal: Proposal | None = None


class RegistryModel:
    """One task."""

    def __init__(self, chain_id: int, address: str, now: int) -> None:
        self.chain_id, self.address, self.now = chain_id, address, now
        self.phase = 0
        self.random = 0
        self.members: dict[str, Member] = {}

    def post(self, sender: str, secret: bytes, rounds: int, f: int, wanted: int, patience: int, norm: int,
             printed: bool, members: list[tuple[str, int]]) -> None:  # fmt: skip
        need(0 < rounds <= 10_000, "number of rounds")
        need(len(members) > 2 * f + 2, "too few members")
        need(wanted > 0, "no seats")
        need(0 < patience <= 30 * 86400, "patience")
        need(norm <= 100, "norm too large")
        found: dict[str, Member] = {}
        for who, coins in members:
            need(0 < coins <= 64, "number of coins")
            need(who not in found, "admitted twice")
            found[who] = Member(coins)
        self.poster, self.secret, self.rounds, self.f, self.wanted = sender, secret, rounds, f, wanted
        self.patience, self.norm, self.printed, self.members = patience, norm, printed, found
        self.task = keccak(words(self.chain_id, self.address, sender, 0))
        self.phase, self.round, self.attempt, self.since, self.seed = JOINING, 0, 0, self.now, NOTHING
        self.submissions: list[str] = []
        self.taken: set[str] = set()
        self.drawings: list[Drawing] = []
        self.models: dict[int, bytes] = {}

    @property
    def joined(self) -> list[Member]:
        return [member for member in self.members.values() if member.number]

    def join(self, sender: str, key: SortitionKey, proved: bool) -> None:
        need(self.phase == JOINING, "not joining")
        need(sender in self.members, "not admitted")
        member = self.members[sender]
        need(member.number == 0, "joined before")
        need(proved, "key not proved")
        member.number, member.reputation, member.key = len(self.joined) + 1, 5, key
        self.seed = keccak(words(self.seed, sender, *key.public_key.abi_words))

    def begin(self, sender: str, secret: bytes) -> None:
        need(sender == self.poster, "not the poster")
        need(self.phase == JOINING, "not joining")
        need(len(self.joined) > 2 * self.f + 2, "too few members")
        need(keccak(secret) == self.secret, "another secret")
        self.seed = keccak(words(self.seed, secret, self.random))
        self.phase, self.round, self.since = SUBMITTING, 1, self.now
        self.awaited = {who for who, member in self.members.items() if member.number}

    def submit(self, sender: str, round: int) -> None:
        need(self.phase == SUBMITTING and round == self.round, "not submitting")
        need(sender in self.members and self.members[sender].number > 0, "not a member")
        need(sender not in self.submissions, "submitted before")
        self.submissions.append(sender)
        self.awaited.discard(sender)
        self.members[sender].last = round
        if not self.awaited and len(self.submissions) > 2 * self.f + 2:
            self._close()

    def message(self) -> bytes:
        return keccak(words(self.chain_id, self.address, self.task, self.round, self.attempt, self.seed))

    def draw(self, sender: str, round: int, attempt: int, signature: tuple[int, int], right: bool) -> None:
        need(self.phase == DRAWING and (round, attempt) == (self.round, self.attempt), "not drawing")
        need(sender in self.submissions, "has not submitted")
        drawing = self.drawings[-1]
        need(sender not in drawing.lots, "drawn before")
        need(right, "not its signature")
        lot = hash_signature(signature)
        total = sum(member.coins for member in self.joined)
        won = count_seats(lot, self.members[sender].coins, self.wanted, total)
        drawing.lots[sender], drawing.won[sender] = lot, won
        if won:
            drawing.order.append(sender)
            drawing.order.sort(key=lambda who: compute_priority(drawing.lots[who], drawing.won[who]))
        if len(drawing.lots) == len(self.submissions):
            self._seat()

    def propose(self, sender: str, round: int, model: bytes, verdicts: int) -> None:
        need(self.phase == VOTING and round == self.round, "not voting")
        drawing = self.drawings[-1]
        need(sender == drawing.order[0], "not the leader")
        need(drawing.proposal is None, "proposed before")
        given = [(verdicts >> (4 * place)) & 15 for place in range(len(self.submissions))]
        need(all(1 <= verdict <= 4 for verdict in given), "no such verdict")
        need(verdicts >> (4 * len(given)) == 0, "too many verdicts")
        caught = sum(verdict > 2 for verdict in given)
        need(given.count(1) == len(given) - caught - max(0, self.f - caught), "number of accepted")
        id = keccak(words(keccak(words(self.task, self.round, self.attempt)), sender, model, verdicts))
        drawing.proposal = Proposal(id, model, verdicts)
        self._count(sender, True)

    def vote(self, sender: str, id: bytes, agrees: bool) -> None:
        need(self.phase == VOTING, "not voting")
        proposal = self.drawings[-1].proposal
        need(proposal is not None and proposal.id == id, "no such proposal")
        need(self.drawings[-1].won.get(sender, 0) > 0, "no seat")
        assert proposal is not None
        need(sender not in proposal.votes, "voted before")
        self._count(sender, agrees)

    def move_on(self, sender: str) -> None:
        need(self.phase != 0, "no such task")
        need(self.now >= self.since + self.patience, "not late yet")
        if self.phase == SUBMITTING:
            need(len(self.submissions) > 2 * self.f + 2, "too few submissions")
            self._close()
        elif self.phase == DRAWING:
            self._seat()
        else:
            need(self.phase == VOTING, "nothing to wait for")
            self._depose()

    def cancel(self, sender: str) -> None:
        need(sender == self.poster, "not the poster")
        need(self.phase != FINISHED, "finished")
        need(self.now >= self.since + self.patience, "not late yet")
        self.phase = FINISHED

    def stage(self) -> dict[str, Any]:
        return {
            "phase": self.phase, "round": self.round, "attempt": self.attempt, "since": self.since, "seed": self.seed,
            "members": len(self.joined), "coins": sum(member.coins for member in self.joined),
            "reputation": sum(member.reputation for member in self.joined), "submitted": len(self.submissions),
        }  # fmt: skip

    def _close(self) -> None:
        self.phase, self.attempt, self.since = DRAWING, 1, self.now
        self.drawings = [Drawing()]

    def _seat(self) -> None:
        self.since = self.now
        if self.drawings[-1].order:
            self.phase = VOTING
        else:
            self._again()

    def _again(self) -> None:
        self.phase, self.attempt = DRAWING, self.attempt + 1
        self.drawings.append(Drawing())

    def _count(self, sender: str, agrees: bool) -> None:
        drawing = self.drawings[-1]
        proposal, total = drawing.proposal, sum(drawing.won.values())
        assert proposal is not None
        proposal.votes[sender] = agrees
        agreed, opposed = (sum(drawing.won[who] for who, said in proposal.votes.items() if said is side)
                           for side in (True, False))  # fmt: skip
        if agreed * 3 > total * 2:
            self._finish(drawing, proposal)
        elif opposed * 3 >= total:
            self._depose()

    def _depose(self) -> None:
        drawing = self.drawings[-1]
        drawing.order.pop(0)
        drawing.proposal = None
        self.since = self.now
        if not drawing.order:
            self._again()

    def _finish(self, drawing: Drawing, proposal: Proposal) -> None:
        have = sum(member.reputation for member in self.joined)
        average = self.norm or have // len(self.joined)
        for place, who in enumerate(self.submissions):
            member, accepted = self.members[who], (proposal.verdicts >> (4 * place)) & 15 == 1
            before = member.reputation
            member.reward += before if accepted else 0
            if accepted:
                member.reputation = min(100, before + 1)
            elif before < average:
                member.reputation = before + 1 if self.printed else before
            else:
                member.reputation = 0 if before == average else before - 1
        self.models[self.round] = proposal.model
        self.seed = keccak(words(self.seed, drawing.lots[drawing.order[0]]))
        self.awaited = set(self.submissions)
        self.attempt, self.since = 0, self.now
        if self.round == self.rounds:
            self.phase = FINISHED
        else:
            self.phase, self.round, self.submissions = SUBMITTING, self.round + 1, []
