"""JSON views of a task for the HTTP API and the web pages: summary, details, one round with its submissions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from noisebank.core.errors import BadRequest
from noisebank.federated.blockfl.books import Phase, Round, Submission, TaskBooks
from noisebank.federated.blockfl.guarantee import promised
from noisebank.federated.blockfl.identifiers import identifier
from noisebank.federated.blockfl.krum import Verdict
from noisebank.federated.blockfl.models import BadModel, read_model
from noisebank.federated.blockfl.store import Store
from noisebank.federated.blockfl.terms import Terms, read_terms

MOST_ROUNDS = 100
"""Rounds in a view, the newest; a task may have ten thousand."""
OUTLYING = "too far from the others: not among those that Multi-KRUM keeps"


def stored_terms(books: TaskBooks, store: Store) -> Terms | None:
    """Return the task's terms; None if this store does not have them, or something else under their name."""
    content = store.get(books.posted.terms)
    try:
        return read_terms(content) if content else None
    except BadRequest:
        return None


def brief(books: TaskBooks, terms: Terms | None) -> dict[str, Any]:
    """Return one row of a list of tasks."""
    finished = sum(round.model is not None for round in books.rounds)
    return {
        "id": books.posted.task.hex(),
        "kind": "crowd",
        "name": terms.name[:100] if terms else None,
        "mode": terms.mode if terms else "unknown",
        "phase": books.phase.name.lower(),
        "rounds_planned": books.posted.rounds,
        "rounds_finished": finished,
        "members": len(books.members),
        "devices": sum(member.key is not None for member in books.members.values()),
    }


def described(books: TaskBooks, terms: Terms | None) -> dict[str, Any]:
    """Return everything about a task but the single submissions."""
    posted = books.posted
    newest = next((round.model for round in reversed(books.rounds) if round.model is not None), None)
    return brief(books, terms) | {
        "poster": posted.poster,
        "byzantine": posted.byzantine,
        "seats_expected": posted.seats,
        "patience_seconds": posted.patience,
        "reputation": "as printed" if posted.printed else "repaired",
        "initial_model": identifier(posted.model),
        "terms": identifier(posted.terms),
        "model": identifier(newest) if newest else None,
        "round": books.rounds[-1].number if books.rounds else 0,
        "leader": _leader(books),
        "privacy": promised(terms, posted.rounds).plain() if terms else None,
        "members_now": [
            {
                "member": address,
                "joined": member.key is not None,
                "coins": member.coins,
                "reputation": member.reputation,
                "reward": member.reward,
                "last_round": member.last,
            }
            for address, member in books.members.items()
        ],
        "rounds": [round_row(round) for round in books.rounds[-MOST_ROUNDS:]],
    }


def round_row(round: Round) -> dict[str, Any]:
    """Return one row of a list of rounds."""
    verdicts = [judged.verdict for judged in round.judged]
    agreed = next((proposal for proposal in round.proposals if proposal.fate == "agreed"), None)
    return {
        "round": round.number,
        "finished": round.model is not None,
        "submitted": len(round.submissions),
        "accepted": verdicts.count(Verdict.ACCEPTED),
        "refused": len(verdicts) - verdicts.count(Verdict.ACCEPTED),
        "leader": agreed.leader if agreed else round.drawings[-1].leader or None if round.drawings else None,
        "deposed": sum(proposal.fate in ("outvoted", "late") for proposal in round.proposals)
        + len(round.silent_leaders),
        "seats": round.drawings[-1].seats if round.drawings else 0,
        "model": identifier(round.model) if round.model else None,
    }


def round_in_full(books: TaskBooks, terms: Terms | None, store: Store, number: int) -> dict[str, Any]:
    """Return one round: submissions with verdicts and reasons, the committee and its votes."""
    round = books.rounds[number - 1]
    judged = {verdict.member: verdict for verdict in round.judged}
    drawing = round.drawing
    votes = round.proposals[-1].votes if round.proposals else {}
    return round_row(round) | {
        "submissions": [
            {
                "member": submission.member,
                "model": identifier(submission.digest),
                "block": submission.block,
                "verdict": judged[submission.member].verdict.name.lower() if submission.member in judged else None,
                "reason": _reason(books, terms, store, round, submission, judged),
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
            {"leader": proposal.leader, "fate": proposal.fate, "model": identifier(proposal.model)}
            for proposal in round.proposals
        ],
        "silent_leaders": round.silent_leaders,
        "average_reputation": round.average,
    }


def _leader(books: TaskBooks) -> str | None:
    """Return whose proposal the committee waits for or votes on."""
    if books.phase is not Phase.VOTING or books.round.drawing is None:
        return None
    return books.round.drawing.leader


def _reason(
    books: TaskBooks, terms: Terms | None, store: Store, round: Round, one: Submission, judged: Mapping[str, Any]
) -> str:
    """Return why a submission was not accepted, from the stored model itself; empty if it was."""
    entry = judged.get(one.member)
    if entry is None or entry.verdict is Verdict.ACCEPTED:
        return ""
    if entry.verdict is Verdict.OUTLIER:
        return OUTLYING
    content = store.get(one.digest)
    if content is None:
        return "nothing is stored under its identifier"
    if entry.verdict is Verdict.MALFORMED and terms is not None:
        try:
            read_model(content, books.posted.task.hex(), round.number, one.member, terms.shape.count)
        except BadModel as error:
            return str(error)
    return "no model of this member for this round"
