"""Statements (an account's balance and history), and openings, with which others can recompute every charge."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

from noisebank.account.account import Account
from noisebank.account.savings import Savings, is_look, plain_price
from noisebank.core.records import Case
from noisebank.core.units import Precision
from noisebank.ledger.books import Books
from noisebank.ledger.protocol import AccountState
from noisebank.planning.serving import parse_look
from noisebank.policy.model import Policy
from noisebank.queries.sql import parse_question
from noisebank.vault.secrets import AccountSecrets
from noisebank.vault.vault import Vault
from noisebank.verifier.bundle import OPENINGS_FORMAT
from noisebank.verifier.openings import opening_entry


@dataclass(frozen=True, slots=True)
class StatementEntry:
    """One line of the history."""

    id: str
    time: int
    analyst: str
    sql: str
    case: Case
    cost: Precision
    spent: Precision
    published: bool
    plain: Precision
    """What this answer alone would have cost without reuse; nothing for a look at a cube, which answers nobody."""
    look: bool
    """Whether it is a look at a cube: an investment."""


@dataclass(frozen=True, slots=True)
class Statement:
    """An account's balance, its promise, and every entry behind them."""

    name: str
    account: str
    budget: Precision
    spent: Precision
    left: Precision
    naive: Precision
    """What the same answers would have cost one by one, without reuse and without cubes."""
    saved: Precision
    """How much less they have cost; looks at cubes apart."""
    looks: Precision
    """What looks at cubes have cost, a part of what is spent: an investment."""
    returned: Precision
    """What answers in these cubes have saved since they were looked at; a part of what is saved."""
    share: float
    """The share of the budget that is spent, from 0 to 1."""
    epsilon: float
    """Of all answers together, at every moment. What is spent so far has no valid epsilon of its own."""
    delta: float
    raised: bool
    """Whether the budget was raised after answers were given: the promise is then an odometer's."""
    lowered: bool
    """Whether it was lowered after answers were given: the promise stays that of the larger budget."""
    measurements: int
    cases: dict[Case, int]
    """Of answers."""
    entries: tuple[StatementEntry, ...]
    changes: tuple[str, ...]


def make_statement(account: Account) -> Statement:
    """Returns the account's statement as of now."""
    state, budgets = account.state, account.budgets
    reservations = account.ledger.list_reservations(account.id)
    entries, savings = [], Savings()
    for reservation in reservations:
        request = account.vault.find_request(reservation.id)
        savings.add_entry(reservation, request)
        entries.append(
            StatementEntry(
                id=reservation.id.hex(),
                time=reservation.time,
                analyst=request.analyst if request else "(not in this vault)",
                sql=request.body["sql"] if request else "(not in this vault)",
                case=reservation.case,
                cost=reservation.cost,
                spent=reservation.spent_after,
                published=reservation.is_finished,
                plain=plain_price(reservation, request),
                look=is_look(request),
            )
        )
    cases = Counter(entry.case for entry in entries if not entry.look)
    return Statement(
        name=account.name,
        account=account.id.hex(),
        budget=state.budget,
        spent=state.spent,
        left=state.remaining_budget,
        naive=savings.plain,
        saved=savings.saved,
        looks=savings.looks,
        returned=savings.returned,
        share=account.share(state.spent),
        epsilon=account.epsilon,
        delta=float(account.policy.delta),
        raised=budgets.raised,
        lowered=budgets.lowered,
        measurements=state.measurements,
        cases={case: cases[case] for case in Case},
        entries=tuple(entries),
        changes=tuple(
            f"block {change.block}: {change.event.name}" for change in account.ledger.books.list_changes(account.id)
        ),
    )


def make_openings(account: Account, with_answers: bool = True) -> dict[str, Any]:
    """Returns policy, questions and salts: with them anybody can recompute every charge from the policy.

    They reveal what was asked, and with `with_answers` what was answered. Each salt opens one
    query and no other.
    """
    return collect_openings(
        account.state, account.policy, account.secrets, account.ledger.books, account.vault, with_answers
    )


def collect_openings(
    state: AccountState, policy: Policy, secrets: AccountSecrets, books: Books, vault: Vault, with_answers: bool = True
) -> dict[str, Any]:
    """As `make_openings`, from parts of an account that need no open table."""
    records: dict[str, Any] = {}
    for reservation in books.list_reservations(state.account):
        if reservation.version != state.version:
            continue  # from an earlier version of the table, with another policy
        request, sealed = vault.find_request(reservation.id), vault.find_answer(reservation.id)
        if request is None:
            continue
        look, sql = request.body.get("look"), request.body["sql"]
        question = (
            parse_question(policy.queries.get(sql.strip(), sql), policy) if look is None else parse_look(look, policy)
        )
        entry = opening_entry(sql, request.body["asked"], secrets.query_salt(question.query))
        if look is not None:
            entry["look"] = look
        if with_answers and sealed is not None and reservation.answer_digest is not None:
            entry |= {"answer": sealed.body, "answer_salt": sealed.salt.hex()}
        records[reservation.id.hex()] = entry
    return {"format": OPENINGS_FORMAT, "account": state.account.hex(), "policy": policy.to_json(), "records": records}
