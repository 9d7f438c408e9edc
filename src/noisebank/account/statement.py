"""Makes statements (balance and every entry), histories of one analyst, and openings, to recompute charges with."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from noisebank.account.requests import read_question
from noisebank.account.savings import Savings, is_look, plain_price
from noisebank.core.records import Case
from noisebank.core.statement import HistoryEntry, Statement, StatementEntry
from noisebank.ledger.books import Books
from noisebank.ledger.protocol import AccountState, Reservation
from noisebank.policy.model import Policy
from noisebank.vault.secrets import AccountSecrets
from noisebank.vault.vault import Vault
from noisebank.verifier.bundle import OPENINGS_FORMAT
from noisebank.verifier.openings import opening_entry

if TYPE_CHECKING:
    from noisebank.account.account import Account

PAGE_ENTRIES = 500
UNKNOWN = "(not in this vault)"
"""Instead of a question that was asked before this vault was restored."""


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
                analyst=request.analyst if request else UNKNOWN,
                sql=request.body["sql"] if request else UNKNOWN,
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
        delta=float(account.context.policy.delta),
        raised=budgets.raised,
        lowered=budgets.lowered,
        measurements=state.measurements,
        cases={case: cases[case] for case in Case},
        entries=tuple(entries),
        changes=tuple(
            f"block {change.block}: {change.event.name}" for change in account.ledger.books.list_changes(account.id)
        ),
    )


def cut_statement(statement: Statement, last: int | None) -> Statement:
    """Returns a statement with its newest `last` entries only; all if not said."""
    entries = statement.entries
    return statement if last is None else replace(statement, entries=entries[max(0, len(entries) - last) :])


def list_history(account: Account, analyst: str) -> Iterator[HistoryEntry]:
    """Yields an analyst's answers, newest first."""
    digest, books = account.analyst(analyst), account.ledger.books
    stop = books.count_reservations(account.id)
    while stop > 0:
        start = max(0, stop - PAGE_ENTRIES)
        for reservation in reversed(books.page_reservations(account.id, start, stop)):
            if reservation.analyst == digest:
                yield make_history_entry(account, reservation)
        stop = start


def make_history_entry(account: Account, reservation: Reservation) -> HistoryEntry:
    """Returns one line of an analyst's history."""
    request = account.vault.find_request(reservation.id)
    return HistoryEntry(
        id=reservation.id.hex(),
        time=reservation.time,
        sql=request.body.get("sql", "") if request else UNKNOWN,
        case=reservation.case,
        target=reservation.target,
        cost=reservation.cost,
        published=reservation.is_finished,
    )


def make_openings(account: Account, with_answers: bool = True) -> dict[str, Any]:
    """Returns policy, questions and salts: with them anybody can recompute every charge from the policy.

    They reveal what was asked, and with `with_answers` what was answered. Each salt opens one
    query and no other.
    """
    return collect_openings(
        account.state, account.context.policy, account.secrets, account.ledger.books, account.vault, with_answers
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
        question = read_question(request, policy)
        entry = opening_entry(sql, request.body["asked"], secrets.query_salt(question.query))
        if look is not None:
            entry["look"] = look
        if with_answers and sealed is not None and reservation.answer_digest is not None:
            entry |= {"answer": sealed.body, "answer_salt": sealed.salt.hex()}
        records[reservation.id.hex()] = entry
    return {"format": OPENINGS_FORMAT, "account": state.account.hex(), "policy": policy.to_json(), "records": records}
