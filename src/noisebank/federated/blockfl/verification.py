"""Verification of a task for `learn verify` and the web pages: `verify_task` re-runs its rounds.

Trusts nobody: verdicts, averages, lots, votes and reputations are recomputed from the ledger and the stored models, bit
for bit, and every difference from the contract's record is reported.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from noisebank.core.errors import NoisebankError
from noisebank.federated.blockfl.books import Drawing, Proposal, Round, TaskBooks
from noisebank.federated.blockfl.identifiers import format_cid, hash_content
from noisebank.federated.blockfl.krum import Judgement, KrumVerdict
from noisebank.federated.blockfl.member import judge_round
from noisebank.federated.blockfl.models import BadModel, read_model
from noisebank.federated.blockfl.registry import ModelRegistry
from noisebank.federated.blockfl.reputation import INITIAL_REPUTATION, apply_printed_rule, apply_repaired_rule
from noisebank.federated.blockfl.sortition import compute_priority, count_seats, hash_signature, verify_signatures
from noisebank.federated.blockfl.store import ContentStore
from noisebank.federated.blockfl.terms import read_terms

Progress = Callable[[int, int], None]
VERIFIED_CLAIMS = (
    "every verdict, average, reputation and reward follows from the submitted models, bit for bit",
    "every lot is its member's one possible signature, and wins the seats and the lead that were counted",
    "every average was agreed to by more than two thirds of the committee's seats",
    "in a sound task, every model was paid for on the budget ledger before it was submitted",
    "in a sound task, this store holds no second model of a member for a round: one charge, one model",
)
LIMITATIONS = (
    "what a member trained on, and whether it added the noise that the terms ask for",
    "members who work together: nearly identical poisoned models are accepted",
    "transactions that the chain's keeper left out, unless somebody has a copy or an anchor",
)
"""What a passed verification proves, and what cannot be told from the ledger and the models."""


@dataclass
class RoundCheck:
    """Result of verifying one round."""

    number: int
    model: str
    verdicts: dict[str, str] = field(default_factory=dict)
    reasons: dict[str, str] = field(default_factory=dict)
    """Why a member's model was missing or malformed."""
    deposed_leaders: list[str] = field(default_factory=list)
    differences: list[str] = field(default_factory=list)
    """What differs from the record, one text per difference; empty if the round is correct."""

    def to_json(self) -> dict[str, Any]:
        """Return the report as a JSON object."""
        return {
            "round": self.number,
            "model": self.model,
            "verdicts": self.verdicts,
            "reasons": self.reasons,
            "deposed_leaders": self.deposed_leaders,
            "wrong": self.differences,
        }


@dataclass
class TaskReport:
    """Result of verifying a task."""

    task: str
    rounds: list[RoundCheck]
    differences: list[str]

    @property
    def passed(self) -> bool:
        """Whether there is no difference, in the task or in any round."""
        return not self.differences and not any(row.differences for row in self.rounds)

    def to_json(self) -> dict[str, Any]:
        """Return the report as a JSON object."""
        rounds = [row.to_json() for row in self.rounds]
        return {"task": self.task, "passed": self.passed, "wrong": self.differences, "rounds": rounds}


def verify_task(
    registry: ModelRegistry,
    store: ContentStore,
    task: bytes,
    only_round: int | None = None,
    progress: Progress = lambda done, total: None,
    find_unpaid: Callable[[TaskBooks], list[str]] = lambda books: [],
) -> TaskReport:
    """Re-run all finished rounds, or only the one with the number `only_round`.

    `find_unpaid` returns one text per submission that no charge pays for.
    """
    books = registry.read_books(task)
    finished = [
        round for round in books.rounds if round.model_digest is not None and only_round in (None, round.number)
    ]
    reports = []
    for done, round in enumerate(finished):
        progress(done, len(finished))
        reports.append(_verify_round(registry, store, books, round))
    progress(1, 1)
    wrong = _check_reputations(books) if only_round is None else []
    if only_round is not None and not finished:
        wrong.append(f"round {only_round} is not finished")
    wrong += find_duplicate_models(store, books)
    return TaskReport(task.hex(), reports, wrong + find_unpaid(books))


def _verify_round(registry: ModelRegistry, store: ContentStore, books: TaskBooks, round: Round) -> RoundCheck:
    assert round.model_digest is not None
    report = RoundCheck(round.number, format_cid(round.model_digest))
    try:
        judgement = judge_round(books, store, round.number)
    except NoisebankError as error:
        report.differences.append(f"cannot be re-run: {error}")
        return report
    report.verdicts = {judged.member: judged.verdict.name.lower() for judged in round.verdicts}
    for submission, reason in zip(round.submissions, judgement.reasons, strict=True):
        if reason:
            report.reasons[submission.member] = reason
    report.differences += _compare_judgement(judgement, round)
    for attempt, drawing in enumerate(round.drawings, 1):
        report.differences += _check_lots(registry, books, round, drawing, attempt)
    for proposal in round.proposals:
        report.differences += _check_votes(round, proposal)
        if proposal.outcome in ("outvoted", "late"):
            right = (
                proposal.model_digest == hash_content(judgement.encoded_model)
                and proposal.packed_verdicts == judgement.packed_verdicts
            )
            finding = "its proposal was right" if right else "its average or verdicts were wrong"
            report.deposed_leaders.append(f"{proposal.leader} ({proposal.outcome}; {finding})")
    report.deposed_leaders += [f"{leader} (silent)" for leader in round.silent_leaders]
    return report


def _compare_judgement(judgement: Judgement, round: Round) -> list[str]:
    wrong = []
    if hash_content(judgement.encoded_model) != round.model_digest:
        assert round.model_digest is not None
        average = format_cid(hash_content(judgement.encoded_model))
        wrong.append(f"the average is {average}, recorded is {format_cid(round.model_digest)}")
    for judged, verdict in zip(round.verdicts, judgement.verdicts, strict=True):
        if judged.verdict is not verdict:
            wrong.append(f"{judged.member} is {verdict.name.lower()}, recorded is {judged.verdict.name.lower()}")
    return wrong


def _check_lots(registry: ModelRegistry, books: TaskBooks, round: Round, drawing: Drawing, attempt: int) -> list[str]:
    """Check one drawing: each lot is its member's one signature and has the recorded seats and priority."""
    wrong = []
    message = registry.lot_message(books.setup.task_id, round.number, attempt, round.seed)
    keys = [books.members[lot.member].public_key for lot in drawing.lots]
    known = [key for key in keys if key is not None]
    if len(known) < len(keys) or not verify_signatures(known, message, [lot.signature for lot in drawing.lots]):
        wrong.append(f"a lot of drawing {attempt} is not its member's signature")
    for lot in drawing.lots:
        drawn = hash_signature(lot.signature)
        won = count_seats(drawn, books.members[lot.member].coins, books.setup.expected_seats, books.total_coins)
        if (won, compute_priority(drawn, won)) != (lot.seats, lot.priority):
            wrong.append(f"the lot of {lot.member} wins {won} seats, recorded are {lot.seats}")
    return wrong


def _check_votes(round: Round, proposal: Proposal) -> list[str]:
    drawing = round.drawings[proposal.attempt - 1]
    seats_held = {lot.member: lot.seats for lot in drawing.lots}
    if any(seats_held.get(member) != voted for member, (_, voted) in proposal.votes.items()):
        return ["a vote has other seats than its member's lot"]
    agreed = sum(voted for agrees, voted in proposal.votes.values() if agrees)
    if (proposal.outcome == "agreed") != (3 * agreed > 2 * drawing.total_seats):
        return [f"{agreed} of {drawing.total_seats} seats agreed, but the proposal is recorded as {proposal.outcome}"]
    return []


def _check_reputations(books: TaskBooks) -> list[str]:
    """Recompute every reputation, reward and average from the verdicts alone."""
    wrong = []
    rule = apply_printed_rule if books.setup.uses_printed_rule else apply_repaired_rule
    reputations = {
        address: INITIAL_REPUTATION for address, member in books.members.items() if member.public_key is not None
    }
    for round in books.rounds:
        if round.model_digest is None:
            continue
        average = books.setup.reputation_norm or sum(reputations.values()) // len(reputations)
        if average != round.average_reputation:
            wrong.append(
                f"round {round.number}: the average reputation is {average}, recorded is {round.average_reputation}"
            )
        for judged in round.verdicts:
            accepted = judged.verdict is KrumVerdict.ACCEPTED
            before = reputations[judged.member]
            reputation, reward = rule(before, accepted, average), before if accepted else 0
            reputations[judged.member] = reputation
            if (reputation, reward) != (judged.reputation, judged.reward):
                wrong.append(f"round {round.number}: {judged.member} has reputation {reputation}")
    return wrong


def find_duplicate_models(store: ContentStore, books: TaskBooks) -> list[str]:
    """Return one text per member and round of a sound task with several models, submitted or only stored.

    One charge pays for one model. A model is signed by its submission only, so whoever can write to the store can add a
    second one in a member's name. It is reported all the same: it must not be built on.
    """
    content = store.get(books.setup.terms_digest)
    terms = read_terms(content) if content is not None else None
    if terms is None or terms.mode != "sound":
        return []
    digests: dict[tuple[int, str], set[bytes]] = {}
    for round in books.rounds:
        for submission in round.submissions:
            digests.setdefault((round.number, submission.member), set()).add(submission.digest)
    for digest in store:
        block = store.get(digest) or b""
        header = block.partition(b"\n")[0]
        for round in books.rounds:
            for member in books.members:
                if member.encode() not in header:
                    continue
                try:
                    read_model(block, books.setup.task_id.hex(), round.number, member, terms.shape.weight_count)
                except BadModel:
                    continue
                digests.setdefault((round.number, member), set()).add(digest)
    return [
        f"round {number}: {member} has {len(models)} different models for one charge"
        for (number, member), models in sorted(digests.items())
        if len(models) > 1
    ]
