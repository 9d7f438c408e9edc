"""JSON views of a task for the HTTP API and the web pages: summary, details, one round with its submissions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from noisebank.core.errors import BadRequest
from noisebank.federated.blockfl.books import Phase, Round, Submission, TaskBooks
from noisebank.federated.blockfl.guarantee import describe_guarantee
from noisebank.federated.blockfl.identifiers import format_cid
from noisebank.federated.blockfl.krum import KrumVerdict
from noisebank.federated.blockfl.models import BadModel, read_model
from noisebank.federated.blockfl.store import ContentStore
from noisebank.federated.blockfl.terms import TaskTerms, read_terms

MAX_ROUNDS = 100
"""Rounds in a view, the newest; a task may have ten thousand."""
OUTLIER_REASON = "too far from the others: not among those that Multi-KRUM keeps"


def find_terms(books: TaskBooks, store: ContentStore) -> TaskTerms | None:
    """Return the task's terms; None if this store does not have them, or something else under their name."""
    content = store.get(books.setup.terms_digest)
    try:
        return read_terms(content) if content else None
    except BadRequest:
        return None


def summarize_task(books: TaskBooks, terms: TaskTerms | None) -> dict[str, Any]:
    """Return one row of a list of tasks."""
    finished = sum(round.model_digest is not None for round in books.rounds)
    return {
        "id": books.setup.task_id.hex(),
        "kind": "crowd",
        "name": terms.name[:100] if terms else None,
        "mode": terms.mode if terms else "unknown",
        "phase": books.phase.name.lower(),
        "rounds_planned": books.setup.round_count,
        "rounds_finished": finished,
        "members": len(books.members),
        "devices": sum(member.public_key is not None for member in books.members.values()),
    }


def describe_task(books: TaskBooks, terms: TaskTerms | None) -> dict[str, Any]:
    """Return everything about a task but the single submissions."""
    posted = books.setup
    newest = next((round.model_digest for round in reversed(books.rounds) if round.model_digest is not None), None)
    return summarize_task(books, terms) | {
        "poster": posted.poster,
        "byzantine": posted.byzantine,
        "seats_expected": posted.expected_seats,
        "patience_seconds": posted.patience_seconds,
        "reputation": "as printed" if posted.uses_printed_rule else "repaired",
        "initial_model": format_cid(posted.initial_model),
        "terms": format_cid(posted.terms_digest),
        "model": format_cid(newest) if newest else None,
        "round": books.rounds[-1].number if books.rounds else 0,
        "leader": _current_leader(books),
        "privacy": describe_guarantee(terms, posted.round_count).to_json() if terms else None,
        "members_now": [
            {
                "member": address,
                "joined": member.public_key is not None,
                "coins": member.coins,
                "reputation": member.reputation,
                "reward": member.reward,
                "last_round": member.last_round,
            }
            for address, member in books.members.items()
        ],
        "rounds": [summarize_round(round) for round in books.rounds[-MAX_ROUNDS:]],
    }


def summarize_round(round: Round) -> dict[str, Any]:
    """Return one row of a list of rounds."""
    verdicts = [judged.verdict for judged in round.verdicts]
    agreed = next((proposal for proposal in round.proposals if proposal.outcome == "agreed"), None)
    return {
        "round": round.number,
        "finished": round.model_digest is not None,
        "submitted": len(round.submissions),
        "accepted": verdicts.count(KrumVerdict.ACCEPTED),
        "refused": len(verdicts) - verdicts.count(KrumVerdict.ACCEPTED),
        "leader": agreed.leader if agreed else round.drawings[-1].leader or None if round.drawings else None,
        "deposed": sum(proposal.outcome in ("outvoted", "late") for proposal in round.proposals)
        + len(round.silent_leaders),
        "seats": round.drawings[-1].total_seats if round.drawings else 0,
        "model": format_cid(round.model_digest) if round.model_digest else None,
    }


def describe_round(books: TaskBooks, terms: TaskTerms | None, store: ContentStore, number: int) -> dict[str, Any]:
    """Return one round: submissions with verdicts and reasons, the committee and its votes."""
    round = books.rounds[number - 1]
    judged = {verdict.member: verdict for verdict in round.verdicts}
    drawing = round.current_drawing
    votes = round.proposals[-1].votes if round.proposals else {}
    return summarize_round(round) | {
        "submissions": [
            {
                "member": submission.member,
                "model": format_cid(submission.digest),
                "block": submission.block,
                "verdict": judged[submission.member].verdict.name.lower() if submission.member in judged else None,
                "reason": _explain_verdict(books, terms, store, round, submission, judged),
                "reputation": judged[submission.member].reputation if submission.member in judged else None,
                "reward": judged[submission.member].reward if submission.member in judged else None,
            }
            for submission in round.submissions
        ],
        "committee": [
            {
                "member": lot.member,
                "seats": lot.seats,
                "leads": lot.member == (drawing.leader if drawing else ""),
                "agrees": votes[lot.member][0] if lot.member in votes else None,
            }
            for lot in (drawing.lots if drawing else [])
        ],
        "drawings": len(round.drawings),
        "proposals": [
            {"leader": proposal.leader, "fate": proposal.outcome, "model": format_cid(proposal.model_digest)}
            for proposal in round.proposals
        ],
        "silent_leaders": round.silent_leaders,
        "average_reputation": round.average_reputation,
    }


def _current_leader(books: TaskBooks) -> str | None:
    """Return whose proposal the committee waits for or votes on."""
    if books.phase is not Phase.VOTING or books.current_round.current_drawing is None:
        return None
    return books.current_round.current_drawing.leader


def _explain_verdict(
    books: TaskBooks,
    terms: TaskTerms | None,
    store: ContentStore,
    round: Round,
    submission: Submission,
    verdicts: Mapping[str, Any],
) -> str:
    """Return why a submission was not accepted, from the stored model itself; empty if it was."""
    entry = verdicts.get(submission.member)
    if entry is None or entry.verdict is KrumVerdict.ACCEPTED:
        return ""
    if entry.verdict is KrumVerdict.OUTLIER:
        return OUTLIER_REASON
    content = store.get(submission.digest)
    if content is None:
        return "nothing is stored under its identifier"
    if entry.verdict is KrumVerdict.MALFORMED and terms is not None:
        try:
            read_model(content, books.setup.task_id.hex(), round.number, submission.member, terms.shape.weight_count)
        except BadModel as error:
            return str(error)
    return "no model of this member for this round"
