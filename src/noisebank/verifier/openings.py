"""Opened records: given the owner's salts, recompute each record's digest, sensitivity and cost from the policy."""

from __future__ import annotations

import json
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from types import MappingProxyType
from typing import Any

from noisebank.core.digests import answer_digest, commitment
from noisebank.core.errors import BadBank, NoisebankError, Tampered
from noisebank.core.records import CellRun
from noisebank.ledger.books import Books
from noisebank.ledger.protocol import Reservation
from noisebank.planning.draws import is_single, most_draws, touched_draws
from noisebank.planning.pricing import price, wish
from noisebank.planning.serving import charges_of, named_look, serve
from noisebank.policy.model import Policy, policy_from_public
from noisebank.privacy.calibration import MAX_DRAWS, budget_precision
from noisebank.queries.query import Query, Question
from noisebank.queries.sensitivity import sensitivity
from noisebank.queries.sql import parse

FORMAT = "noisebank openings 1"


@dataclass(frozen=True, slots=True)
class Opened:
    """Result of checking one account's openings."""

    account: bytes
    opened: int
    records: int
    draws: int
    """Noise draws that one person can affect: exact for opened records, an upper bound for the others."""
    uncounted: int
    """Measurements of earlier versions that may have several draws each: their policies are not in these openings."""


def read_openings(path: Path) -> dict[str, Any]:
    """Reads the owner's file with policy, questions and salts."""
    try:
        fields = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        raise BadBank(f"{path} holds no readable openings") from None
    if not isinstance(fields, dict) or fields.get("format") != FORMAT:
        raise BadBank(f"{path} holds no openings of this version")
    return fields


def check_openings(fields: dict[str, Any], books: Books) -> Opened:
    """Recomputes every opened record of one account; `Tampered` names the first that disagrees."""
    try:
        account = bytes.fromhex(fields["account"])
        policy = policy_from_public(MappingProxyType(fields["policy"]), Path("opened"))
        entries = dict(fields["records"])
    except (KeyError, TypeError, ValueError, AttributeError):
        raise Tampered("the openings are malformed") from None
    state = books.account(account)
    if state is None:
        raise Tampered(f"the openings are for {account.hex()[:12]}, which is not on this ledger")
    if policy.digest != state.policy:
        raise Tampered("the opened policy is not the one that the ledger pins")
    first = next(change.event for change in books.changes(account))
    if budget_precision(policy.epsilon, policy.delta).units != first.arguments["budget"]:
        raise Tampered("the account was opened with another budget than its policy says")
    opened = draws = uncounted = 0
    for reservation in books.reservations(account):
        entry = entries.pop(reservation.id.hex(), None)
        query = None
        if entry is not None:
            query = _check(reservation, entry, policy)
            opened += 1
        if reservation.fresh:
            count = _draws(reservation, query, policy, state.version)
            uncounted += count is None
            draws += count or 0
            if draws > MAX_DRAWS and reservation.finished:
                raise Tampered(
                    f"record {reservation.id.hex()[:12]} was answered after {MAX_DRAWS:,} draws that one person can "
                    "touch: its noise is not covered by the proof",
                    reservation.block,
                )
    if entries:
        raise Tampered(f"the openings name {len(entries)} records that are not on the ledger")
    return Opened(account, opened, len(books.reservations(account)), draws, uncounted)


def _draws(reservation: Reservation, query: Query | None, policy: Policy, version: int) -> int | None:
    """Returns the draws of a measurement: exact if its question is known, else the most that its public facts allow.
    None if they set no bound."""
    if query is not None:
        return touched_draws(query, policy)
    if is_single(reservation.about, reservation.whole_cube):
        return 1
    return most_draws(policy, reservation.about, reservation.whole_cube) if reservation.version == version else None


def _check(reservation: Reservation, entry: dict[str, Any], policy: Policy) -> Query:
    """Checks one record: its question, salted digest, sensitivity, price and answer. Returns the query."""
    name = f"record {reservation.id.hex()[:12]}"
    try:
        question = _question(entry, policy)
        unit_sensitivity = Fraction(sensitivity(question.query, policy))
        target = price(wish(**entry["asked"]), unit_sensitivity * abs(question.unit))
        runs = _runs(question.query, policy) if reservation.cube and reservation.fresh else ()
        salted = commitment(bytes.fromhex(entry["query_salt"]), question.query.digest)
        body: dict[str, Any] = entry.get("answer") or {}
        published = answer_digest(bytes.fromhex(entry["answer_salt"]), body) if body else None
        stated = tuple(body.get(name) for name in ("sensitivity", "wanted", "fresh", "unit", "case"))
    except (NoisebankError, KeyError, TypeError, ValueError, AttributeError) as error:
        raise Tampered(f"{name} cannot be recomputed: {error}", reservation.block) from None
    if salted != reservation.query:
        raise Tampered(f"{name} was not charged for the question that is shown", reservation.block)
    if runs != reservation.runs:
        raise Tampered(f"{name} was charged to other cells than its question reads", reservation.block)
    if reservation.cube:
        target = reservation.wanted  # earlier answers decide how much is measured in a cube: the charged cells count
    if target != reservation.wanted:
        raise Tampered(f"{name} was charged for {reservation.wanted}, its request asks for {target}", reservation.block)
    if question.query.about != reservation.about:
        raise Tampered(f"{name} carries the wrong public byte", reservation.block)
    if published is None:
        return question.query
    if published != reservation.answer:
        raise Tampered(f"{name} has another answer on the ledger than the one shown", reservation.block)
    right = (str(unit_sensitivity), target.units, reservation.fresh.units, str(question.unit), reservation.case.name)
    if stated != right:
        raise Tampered(f"{name} states {stated}, recomputed {right}", reservation.block)
    return question.query


def _question(entry: dict[str, Any], policy: Policy) -> Question:
    look = entry.get("look")
    return parse(entry["sql"], policy) if look is None else named_look(look, policy)


def _runs(query: Query, policy: Policy) -> tuple[CellRun, ...]:
    """Returns the runs of cells that a measurement of this query must charge."""
    served = serve(query, policy)
    if served is None:
        raise ValueError("no cube of the policy can serve it")
    return charges_of(served, query, policy)


def opening_entry(sql: str, asked: dict[str, str], query_salt: bytes) -> dict[str, Any]:
    """Returns what the owner writes for one record; the answer may be added."""
    return {"sql": sql, "asked": asked, "query_salt": query_salt.hex()}
