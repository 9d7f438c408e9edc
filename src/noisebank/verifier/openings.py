"""Opened records: given the owner's salts, recompute each record's digest, sensitivity and cost from the policy."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from types import MappingProxyType
from typing import Any

from noisebank.core.digests import digest_answer, make_commitment
from noisebank.core.errors import NoisebankError, Tampered
from noisebank.core.records import MAX_DRAWS
from noisebank.ledger.books import Books
from noisebank.ledger.protocol import Reservation
from noisebank.planning.draws import max_draws, touched_draws
from noisebank.planning.pricing import compute_target, parse_accuracy
from noisebank.planning.serving import parse_look
from noisebank.policy.model import Policy, policy_from_json
from noisebank.privacy.calibration import budget_precision
from noisebank.queries.query import Query, Question, is_single_draw
from noisebank.queries.sensitivity import l2_sensitivity
from noisebank.queries.sql import parse_question
from noisebank.verifier.cube_recount import CubeRecount


@dataclass(frozen=True, slots=True)
class CheckedOpenings:
    """Result of checking one account's openings."""

    account: bytes
    opened_count: int
    record_count: int
    draw_count: int
    """Noise draws that one person can affect: exact for opened records, an upper bound for the others."""
    uncounted_measurements: int
    """Measurements of earlier versions that may have several draws each: their policies are not in these openings."""


def check_openings(fields: dict[str, Any], books: Books) -> CheckedOpenings:
    """Recomputes every opened record of one account; `Tampered` names the first that disagrees."""
    try:
        account = bytes.fromhex(fields["account"])
        policy = policy_from_json(MappingProxyType(fields["policy"]), Path("opened"))
        entries = dict(fields["records"])
    except (KeyError, TypeError, ValueError, AttributeError):
        raise Tampered("the openings are malformed") from None
    state = books.find_account(account)
    if state is None:
        raise Tampered(f"the openings are for {account.hex()[:12]}, which is not on this ledger")
    if policy.digest != state.policy_digest:
        raise Tampered("the opened policy is not the one that the ledger pins")
    first = next(change.event for change in books.list_changes(account))
    if budget_precision(policy.epsilon, policy.delta).units != first.arguments["budget"]:
        raise Tampered("the account was opened with another budget than its policy says")
    opened = draws = uncounted = 0
    recount = CubeRecount(policy)
    for reservation in books.list_reservations(account):
        entry = entries.pop(reservation.id.hex(), None)
        query = None
        if entry is not None:
            query = _check_record(reservation, entry, policy, recount)
            opened += 1
        elif reservation.cube and reservation.fresh_precision and reservation.version == state.version:
            recount.skip(reservation)
        if reservation.fresh_precision:
            count = _count_draws(reservation, query, policy, state.version)
            uncounted += count is None
            draws += count or 0
            if draws > MAX_DRAWS and reservation.is_finished:
                raise Tampered(
                    f"record {reservation.id.hex()[:12]} was answered after {MAX_DRAWS:,} draws that one person can "
                    "touch: its noise is not covered by the proof",
                    reservation.block,
                )
    if entries:
        raise Tampered(f"the openings name {len(entries)} records that are not on the ledger")
    return CheckedOpenings(account, opened, len(books.list_reservations(account)), draws, uncounted)


def _count_draws(reservation: Reservation, query: Query | None, policy: Policy, version: int) -> int | None:
    """Returns the draws of a measurement: exact if its question is known, else the most that its public facts allow.
    None if they set no bound."""
    if query is not None:
        return touched_draws(query, policy)
    if is_single_draw(reservation.category, reservation.is_whole_cube):
        return 1
    return (
        max_draws(policy, reservation.category, reservation.is_whole_cube) if reservation.version == version else None
    )


def _check_record(reservation: Reservation, entry: dict[str, Any], policy: Policy, recount: CubeRecount) -> Query:
    """Checks one record: its question, salted digest, sensitivity, price and answer. Returns the query."""
    name = f"record {reservation.id.hex()[:12]}"
    try:
        question = _parse_question(entry, policy)
        unit_sensitivity = Fraction(l2_sensitivity(question.query, policy))
        target = compute_target(parse_accuracy(**entry["asked"]), unit_sensitivity * abs(question.unit))
        charged = not reservation.runs
        if reservation.cube and reservation.fresh_precision:
            charged = recount.check(reservation, question.query)
        salted = make_commitment(bytes.fromhex(entry["query_salt"]), question.query.digest)
        body: dict[str, Any] = entry.get("answer") or {}
        published = digest_answer(bytes.fromhex(entry["answer_salt"]), body) if body else None
        stated = tuple(body.get(name) for name in ("sensitivity", "wanted", "fresh", "unit", "case"))
    except (NoisebankError, KeyError, TypeError, ValueError, AttributeError) as error:
        raise Tampered(f"{name} cannot be recomputed: {error}", reservation.block) from None
    if salted != reservation.query:
        raise Tampered(f"{name} was not charged for the question that is shown", reservation.block)
    if not charged and reservation.fresh_precision:
        raise Tampered(f"{name} was charged to other cells than its question reads", reservation.block)
    if reservation.cube:
        target = reservation.target  # earlier answers decide how much is measured in a cube: the charged cells count
    if target != reservation.target:
        raise Tampered(f"{name} was charged for {reservation.target}, its request asks for {target}", reservation.block)
    if question.query.category != reservation.category:
        raise Tampered(f"{name} carries the wrong public byte", reservation.block)
    if published is None:
        return question.query
    if published != reservation.answer_digest:
        raise Tampered(f"{name} has another answer on the ledger than the one shown", reservation.block)
    right = (
        str(unit_sensitivity),
        target.units,
        reservation.fresh_precision.units,
        str(question.unit),
        reservation.case.name,
    )
    if stated != right:
        raise Tampered(f"{name} states {stated}, recomputed {right}", reservation.block)
    return question.query


def _parse_question(entry: dict[str, Any], policy: Policy) -> Question:
    look = entry.get("look")
    return parse_question(entry["sql"], policy) if look is None else parse_look(look, policy)


def opening_entry(sql: str, accuracy: dict[str, str], query_salt: bytes) -> dict[str, Any]:
    """Returns what the owner writes for one record; the answer may be added."""
    return {"sql": sql, "asked": accuracy, "query_salt": query_salt.hex()}
