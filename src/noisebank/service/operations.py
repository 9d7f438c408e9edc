"""Operations on a bank that both the HTTP API and the web pages offer.

Each method returns plain dictionaries as the API shows them (see `schemas`); answers are given by `answering`. Who may
call what is decided before, by `authenticator`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from noisebank.account.account import Account
from noisebank.account.parsing import parse_max_cost
from noisebank.account.statement import make_history_entry
from noisebank.bank.bank import Bank
from noisebank.core.asks import OWNER, Ask
from noisebank.core.digests import keccak, to_canonical_json
from noisebank.core.errors import BadRequest, NotFound, Tampered
from noisebank.core.receipts import read_receipt
from noisebank.core.result import Result
from noisebank.core.spend import Spend
from noisebank.core.units import Precision, parse_exact
from noisebank.ledger.books import Books
from noisebank.ledger.chain import Ledger
from noisebank.ledger.protocol import Head
from noisebank.privacy.calibration import budget_precision
from noisebank.service import serializers
from noisebank.service.errors import ApiError
from noisebank.service.roles import Caller, Person, Role
from noisebank.service.schemas import AskIn, QuoteIn
from noisebank.service.wallet import check_spend
from noisebank.verifier.comparison import Comparison

Question = TypeVar("Question", bound=QuoteIn)
PAGE_ROWS = 50
MAX_PAGE_ROWS = 500


@dataclass(frozen=True, slots=True)
class RequestTime:
    """The time of a request and how far the clocks of callers may be off, in seconds."""

    now: float
    skew: float


class Operations:
    """The operations of one bank. Safe for many threads."""

    def __init__(self, bank: Bank) -> None:
        self.bank = bank

    # -- for everybody -------------------------------------------------------------------------

    def find_account(self, name: str) -> Account:
        """Return an account by name; raises not-found if there is none."""
        for account in self.bank.accounts():
            if account.name == name:
                return account
        names = ", ".join(sorted(account.name for account in self.bank.accounts())) or "none yet"
        raise ApiError("not-found", f"there is no data set of this name; this bank has {names}")

    def describe_dataset(self, account: Account) -> dict[str, Any]:
        """Return an account's public facts."""
        state = account.state
        return {
            "name": account.name,
            "account": account.id.hex(),
            "version": state.version,
            "epsilon": account.epsilon,
            "delta": float(account.context.policy.delta),
            "budget": state.budget.to_decimal(),
            "spent": state.spent.to_decimal(),
            "left": state.remaining_budget.to_decimal(),
            "paused": state.paused,
            "answers": account.ledger.books.count_reservations(account.id),
            "measurements": state.measurements,
            "policy": account.context.policy.to_json(),
        }

    def list_entries(self, name: str, cursor: str | None, limit: int) -> dict[str, Any]:
        """Return a page of an account's entries on the public ledger, newest first."""
        account = self.find_account(name)
        start, stop, following = _page_bounds(cursor, limit, account.ledger.books.count_reservations(account.id))
        reservations = account.ledger.books.page_reservations(account.id, start, stop)
        rows = [
            serializers.entry_to_json(number, reservation) for number, reservation in enumerate(reservations, start)
        ]
        return {"entries": rows[::-1], "next": following}

    def get_head(self) -> dict[str, Any]:
        """Return the newest block."""
        head, ledger = self.bank.head(), self.bank.ledger
        return {
            "number": head.number, "digest": head.digest.hex(), "chain_id": ledger.chain_id, "contract": ledger.contract
        }  # fmt: skip

    def export_journal(self) -> Iterator[str]:
        """Return all that a verifier needs, line by line."""
        return self.bank.export()

    def check_receipt(self, fields: dict[str, Any]) -> dict[str, Any]:
        """Return whether a receipt is on this ledger, in the verifier's words."""
        receipt = read_receipt(json.dumps(fields))
        if receipt is None:
            return {"holds": False, "detail": "this is no receipt of this version"}
        compared = Comparison()
        try:
            compared.compare_receipt(receipt, _LiveHistory(self.bank.ledger))
        except Tampered as error:
            return {"holds": False, "detail": str(error)}
        return {"holds": True, "detail": compared.compared_with[0]}

    # -- for analysts --------------------------------------------------------------------------

    def quote(self, name: str, caller: Caller, body: QuoteIn) -> dict[str, Any]:
        """Return what an answer would cost now."""
        account = self.find_account(name)
        quoted = account.quote(body.sql, **body.accuracy_options(), analyst=analyst_name(caller.person))
        return replace(quoted, view_left=self._view_left(account, caller)).to_json()

    def quote_many(self, name: str, caller: Caller, questions: Sequence[QuoteIn]) -> list[dict[str, Any] | Exception]:
        """Return what each answer would cost now, or why there is none."""
        outcomes: list[dict[str, Any] | Exception] = []
        for question in questions:
            try:
                outcomes.append(self.quote(name, caller, question))
            except Exception as error:  # a mistake of ours in one question is not the others'
                outcomes.append(error)
        return outcomes

    def quote_together(self, name: str, caller: Caller, questions: Sequence[QuoteIn]) -> dict[str, Any]:
        """Return what all answers together would cost now."""
        account = self.find_account(name)
        analyst = analyst_name(caller.person)
        asks = [Ask(question.sql, question.accuracy_options(), analyst=analyst) for question in questions]
        return replace(account.quote_together(asks), view_left=self._view_left(account, caller)).to_json()

    def spread_spend(self, name: str, questions: Sequence[Question], spend: str | float) -> list[Question]:
        """Return questions with what each of them may spend: together at most a share of the budget."""
        asks = [Ask(question.sql, question.accuracy_options()) for question in questions]
        spread = self.find_account(name).spread_spend(asks, spend)
        return [
            question.model_copy(update={"spend": ask.accuracy.get("spend")})
            for question, ask in zip(questions, spread, strict=True)
        ]

    def _view_left(self, account: Account, caller: Caller) -> Precision | None:
        """Return how much an analyst may still learn; None for the owner."""
        analyst = analyst_name(caller.person)
        if analyst == OWNER:
            return None
        view = account.view(analyst)
        return Precision(max(0, view.limit.units - view.used.units))

    def make_ask(self, account: Account, caller: Caller, body: AskIn, key: str, clock: RequestTime) -> Ask:
        """Return a request as the account takes it. A wallet's signature is checked before anything else happens."""
        max_cost = self._check_agreement(account, caller.person, body, key, clock)
        analyst = analyst_name(caller.person)
        return Ask(body.sql, body.accuracy_options(), max_cost, key, analyst, body.mode == "best")

    def recall_answer(self, name: str, caller: Caller, id: str) -> Result:
        """Return a published answer of the caller again, with its receipt. Other people's answers are not found."""
        account = self.find_account(name)
        raw = _parse_answer_id(id)
        reservation = account.ledger.find_reservation(account.id, raw)
        analyst = account.analyst(analyst_name(caller.person))
        if reservation is None or (reservation.analyst != analyst and caller.person.role is not Role.OWNER):
            raise ApiError("not-found", "there is no such answer of yours")
        try:
            return account.recall(raw)
        except NotFound:
            raise ApiError("not-found", "this answer is not published, or of an earlier version of the table") from None

    def list_answers(self, name: str, caller: Caller, cursor: str | None, limit: int) -> dict[str, Any]:
        """Return a page of the caller's answers, newest first. Reads a bounded number of entries."""
        account = self.find_account(name)
        analyst, books = account.analyst(analyst_name(caller.person)), account.ledger.books
        stop = _parse_cursor(cursor, books.count_reservations(account.id))
        rows: list[dict[str, Any]] = []
        entries_read = 0
        while stop > 0 and len(rows) < limit and entries_read < 20_000:
            start = max(0, stop - 500)
            for reservation in reversed(books.page_reservations(account.id, start, stop)):
                stop, entries_read = stop - 1, entries_read + 1
                if reservation.analyst == analyst:
                    rows.append(self._describe_entry(account, reservation.id))
                    if len(rows) == limit:
                        break
        return {"answers": rows, "next": str(stop) if stop else None}

    def get_balance(self, name: str, caller: Caller) -> dict[str, Any]:
        """Return the account's balance and how much the caller has learned."""
        account = self.find_account(name)
        state, analyst = account.state, analyst_name(caller.person)
        view = None if analyst == OWNER else account.view(analyst)
        return {
            "budget": state.budget.to_decimal(),
            "spent": state.spent.to_decimal(),
            "left": state.remaining_budget.to_decimal(),
            "share": account.share(state.spent),
            "epsilon": account.epsilon,
            "view_limit": None if view is None else view.limit.to_decimal(),
            "view_used": None if view is None else view.used.to_decimal(),
        }

    # -- for owners ----------------------------------------------------------------------------

    def get_statement(self, name: str, cursor: str | None, limit: int) -> dict[str, Any]:
        """Return balance, cases, and a page of entries with their questions, newest first."""
        account = self.find_account(name)
        whole = account.statement()
        start, stop, following = _page_bounds(cursor, limit, len(whole.entries))
        page = replace(whole, entries=whole.entries[start:stop][::-1])
        return page.to_json() | {"next": following}

    def list_newest_entries(self, account: Account, limit: int) -> list[dict[str, Any]]:
        """Return the newest entries with their questions, newest first. Reads no others."""
        count = account.ledger.books.count_reservations(account.id)
        newest = account.ledger.books.page_reservations(account.id, max(0, count - limit), count)
        requests = [(entry.id, account.vault.find_request(entry.id)) for entry in reversed(newest)]
        return [
            self._describe_entry(account, id) | {"analyst": request.analyst if request else "(not in this vault)"}
            for id, request in requests
        ]

    def get_statement_tag(self, name: str, cursor: str | None, limit: int) -> str:
        """Return an ETag that changes whenever the statement does."""
        account = self.find_account(name)
        reservations = account.ledger.books.count_reservations(account.id)
        newest = account.ledger.books.page_reservations(account.id, reservations - 500, reservations)
        published = sum(entry.is_finished for entry in newest)
        facts = [
            account.id.hex(),
            reservations,
            published,
            len(account.ledger.books.list_changes(account.id)),
            cursor,
            limit,
        ]
        return f'"{keccak(to_canonical_json(facts).encode()).hex()[:32]}"'

    def set_limit(self, name: str, person: Person, epsilon: str | float) -> dict[str, Any]:
        """Set how much an analyst may learn from an account; signed with the owner's key, which must be in the bank."""
        account = self.find_account(name)
        if person.role is not Role.ANALYST:
            raise BadRequest("analyst", person.name, "only analysts have limits")
        value, digest = parse_exact(epsilon, "epsilon"), account.analyst(person.name)
        if value < 0:
            raise BadRequest("epsilon", epsilon, "must not be negative")
        units = (
            budget_precision(value, account.context.policy.delta).units
            if value
            else account.view(person.name).used.units
        )
        account.ledger.set_limit(account.id, digest, units)
        account.vault.save_analyst(account.id, digest, person.name)
        return self.describe_view(account, person)

    def get_view_limits(self, person: Person) -> dict[str, int]:
        """Return how much an analyst may learn, in ledger units by account; nothing for other roles."""
        if person.role is not Role.ANALYST:
            return {}
        return {account.id.hex(): account.view(person.name).limit.units for account in self.bank.accounts()}

    def describe_view(self, account: Account, person: Person) -> dict[str, Any]:
        """Return how much a person may learn from an account, and has learned."""
        view = account.view(analyst_name(person))
        return {
            "dataset": account.name,
            "limit": view.limit.to_decimal(),
            "used": view.used.to_decimal(),
        }

    # -- parts ---------------------------------------------------------------------------------

    def _describe_entry(self, account: Account, id: bytes) -> dict[str, Any]:
        entry = account.ledger.find_reservation(account.id, id)
        assert entry is not None
        return make_history_entry(account, entry).to_json()

    def _check_agreement(self, account: Account, person: Person, body: AskIn, key: str, clock: RequestTime) -> Any:
        """Return the most that a request may cost: what it says itself, and what the wallet has signed."""
        if body.agreed is None:
            if person.must_sign:
                raise ApiError("bad-signature", "every request of this analyst needs a signature of the wallet")
            return body.max_cost
        if person.wallet is None:
            raise ApiError("bad-signature", "this analyst has no wallet to agree with")
        spend = Spend(
            account.id, body.sql, signed_accuracy(body), key, int(body.agreed.max_cost_units), body.agreed.deadline
        )
        ledger = account.ledger
        check_spend(
            spend, body.agreed.signature, person.wallet, ledger.chain_id, ledger.contract, clock.now, clock.skew
        )
        signed = Precision(spend.max_cost).exact
        if body.max_cost is None:
            return signed
        return min(signed, parse_max_cost(body.max_cost, account.state.budget).exact)


@dataclass(frozen=True, slots=True)
class _LiveHistory:
    """The ledger of a running bank, as the history that the verifier compares receipts with."""

    chain: Ledger

    @property
    def books(self) -> Books:
        return self.chain.books

    @property
    def contract(self) -> str:
        return self.chain.contract

    @property
    def chain_id(self) -> int:
        return self.chain.chain_id

    @property
    def newest_block(self) -> int:
        return self.head.number

    @property
    def head(self) -> Head:
        return self.chain.head()

    def block_digest(self, number: int) -> bytes | None:
        return self.chain.block_digest(number) if 0 <= number <= self.newest_block else None

    def find_block(self, digest: bytes) -> int | None:
        return self.newest_block if digest == self.head.digest else None


def analyst_name(person: Person) -> str:
    """Return the name under which the ledger knows a person."""
    return OWNER if person.role is Role.OWNER else person.name


def signed_accuracy(body: QuoteIn) -> str:
    """Return the accuracy that a request asks for as it is signed: canonical JSON, numbers as text."""
    return to_canonical_json({name: str(value) for name, value in body.accuracy_options().items()})


def _parse_answer_id(text: str) -> bytes:
    try:
        raw = bytes.fromhex(text)
    except ValueError:
        raw = b""
    if len(raw) != 32:
        raise ApiError("not-found", "an answer's id has 64 hexadecimal digits")
    return raw


def _parse_cursor(cursor: str | None, count: int) -> int:
    if cursor is None:
        return count
    if not cursor.isascii() or not cursor.isdigit() or len(cursor) > 18:
        raise BadRequest("cursor", ascii(cursor)[:40], "take the one that the page before gave")
    return min(int(cursor), count)


def _page_bounds(cursor: str | None, limit: int, count: int) -> tuple[int, int, str | None]:
    """Return start and stop of the page that ends before the cursor, and the cursor of the next page."""
    stop = _parse_cursor(cursor, count)
    start = max(0, stop - limit)
    return start, stop, str(start) if start else None
