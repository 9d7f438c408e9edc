"""Operations on a bank that both the HTTP API and the web pages offer.

Each method returns plain dictionaries as the API shows them (see `schemas`); `ask` alone returns an answer, which
`serializers` encodes. Who may call what is decided before, by `authenticator`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from noisebank.account.account import Account
from noisebank.account.answers import read_receipt
from noisebank.account.plain import OWNER
from noisebank.account.statement import statement
from noisebank.bank.bank import Bank
from noisebank.core.digests import canonical, keccak
from noisebank.core.errors import BadRequest, Tampered
from noisebank.core.units import Precision, exact
from noisebank.ledger.books import Books
from noisebank.ledger.chain import Chain
from noisebank.ledger.protocol import Head
from noisebank.privacy.calibration import budget_precision
from noisebank.service import serializers as shown
from noisebank.service.errors import Turned
from noisebank.service.roles import Caller, Part, Person
from noisebank.service.schemas import AskIn, WishIn
from noisebank.service.wallet import Spend, check_spend
from noisebank.verifier.comparison import Compared

PAGE = 50
MOST_ROWS = 500


@dataclass(frozen=True, slots=True)
class Clock:
    """The time of a request and how far the clocks of callers may be off, in seconds."""

    now: float
    skew: float


class Desk:
    """The operations of one bank. Safe for many threads."""

    def __init__(self, bank: Bank) -> None:
        self.bank = bank

    # -- for everybody -------------------------------------------------------------------------

    def account(self, name: str) -> Account:
        """Return an account by name; raises not-found if there is none."""
        for account in self.bank.accounts():
            if account.name == name:
                return account
        raise Turned("not-found", "there is no data set of this name")

    def dataset(self, account: Account) -> dict[str, Any]:
        """Return an account's public facts."""
        state = account.state
        return {
            "name": account.name,
            "account": account.id.hex(),
            "version": state.version,
            "epsilon": account.epsilon,
            "delta": float(account.policy.delta),
            "budget": shown.amount(state.budget),
            "spent": shown.amount(state.spent),
            "left": shown.amount(state.left),
            "paused": state.paused,
            "answers": account.ledger.books.count(account.id),
            "measurements": state.measurements,
            "policy": account.policy.public(),
        }

    def entries(self, name: str, cursor: str | None, limit: int) -> dict[str, Any]:
        """Return a page of an account's entries on the public ledger, newest first."""
        account = self.account(name)
        start, stop, following = _page(cursor, limit, account.ledger.books.count(account.id))
        reservations = account.ledger.books.page(account.id, start, stop)
        rows = [shown.entry(number, reservation) for number, reservation in enumerate(reservations, start)]
        return {"entries": rows[::-1], "next": following}

    def head(self) -> dict[str, Any]:
        """Return the newest block."""
        head, ledger = self.bank.head(), self.bank.ledger
        return {
            "number": head.number, "digest": head.digest.hex(), "chain_id": ledger.chain_id, "contract": ledger.contract
        }  # fmt: skip

    def journal(self) -> Iterator[str]:
        """Return all that a verifier needs, line by line."""
        return self.bank.export()

    def check_receipt(self, fields: dict[str, Any]) -> dict[str, Any]:
        """Return whether a receipt is on this ledger, in the verifier's words."""
        receipt = read_receipt(json.dumps(fields))
        if receipt is None:
            return {"holds": False, "detail": "this is no receipt of this version"}
        compared = Compared()
        try:
            compared.receipt(receipt, _Live(self.bank.ledger))
        except Tampered as error:
            return {"holds": False, "detail": str(error)}
        return {"holds": True, "detail": compared.with_what[0]}

    # -- for analysts --------------------------------------------------------------------------

    def quote(self, name: str, caller: Caller, asked: WishIn) -> dict[str, Any]:
        """Return what an answer would cost now."""
        account = self.account(name)
        analyst = analyst_of(caller.person)
        view = account.view(analyst)
        left = None if analyst == OWNER else Precision(max(0, view.limit.units - view.used.units))
        return shown.quote(account.quote(asked.sql, **asked.wished()), left)

    def ask(self, name: str, caller: Caller, asked: AskIn, key: str, clock: Clock) -> shown.Result:
        """Answer a question through `Account.ask`. A wallet's signature is checked before anything else happens."""
        account = self.account(name)
        max_cost = self._agreed(account, caller.person, asked, key, clock)
        analyst, options = analyst_of(caller.person), asked.wished()
        answer: shown.Result = account.ask(
            asked.sql, key=key, at_most=max_cost, analyst=analyst, best=asked.mode == "best", **options
        )
        return answer

    def recall(self, name: str, caller: Caller, id: str) -> dict[str, Any]:
        """Return a published answer of the caller again, with its receipt. Other people's answers are not found."""
        account = self.account(name)
        raw = _identifier(id)
        reservation = account.ledger.reservation(account.id, raw)
        analyst = account.analyst(analyst_of(caller.person))
        if reservation is None or (reservation.analyst != analyst and caller.person.part is not Part.OWNER):
            raise Turned("not-found", "there is no such answer of yours")
        answer = account.recall(raw)
        if answer is None:
            raise Turned("not-found", "this answer is not published, or of an earlier version of the table")
        return shown.result(answer)

    def history(self, name: str, caller: Caller, cursor: str | None, limit: int) -> dict[str, Any]:
        """Return a page of the caller's answers, newest first. Reads a bounded number of entries."""
        account = self.account(name)
        analyst, books = account.analyst(analyst_of(caller.person)), account.ledger.books
        stop = _place(cursor, books.count(account.id))
        rows: list[dict[str, Any]] = []
        entries_read = 0
        while stop > 0 and len(rows) < limit and entries_read < 20_000:
            start = max(0, stop - 500)
            for reservation in reversed(books.page(account.id, start, stop)):
                stop, entries_read = stop - 1, entries_read + 1
                if reservation.analyst == analyst:
                    rows.append(self._own(account, reservation.id))
                    if len(rows) == limit:
                        break
        return {"answers": rows, "next": str(stop) if stop else None}

    def balance(self, name: str, caller: Caller) -> dict[str, Any]:
        """Return the account's balance and how much the caller has learned."""
        account = self.account(name)
        state, analyst = account.state, analyst_of(caller.person)
        view = None if analyst == OWNER else account.view(analyst)
        return {
            "budget": shown.amount(state.budget),
            "spent": shown.amount(state.spent),
            "left": shown.amount(state.left),
            "share": account.share(state.spent),
            "epsilon": account.epsilon,
            "view_limit": None if view is None else shown.amount(view.limit),
            "view_used": None if view is None else shown.amount(view.used),
        }

    # -- for owners ----------------------------------------------------------------------------

    def statement(self, name: str, cursor: str | None, limit: int) -> dict[str, Any]:
        """Return balance, cases, and a page of entries with their questions, newest first."""
        account = self.account(name)
        whole = statement(account)
        start, stop, following = _page(cursor, limit, len(whole.entries))
        entries = [
            {
                "id": entry.id, "time": entry.time, "analyst": entry.analyst, "sql": entry.sql, "case": entry.case.name,
                "cost": shown.amount(entry.cost), "spent": shown.amount(entry.spent),
                "published": entry.published,
            }
            for entry in reversed(whole.entries[start:stop])
        ]  # fmt: skip
        return {
            "name": whole.name,
            "account": whole.account,
            "budget": shown.amount(whole.budget),
            "spent": shown.amount(whole.spent),
            "left": shown.amount(whole.left),
            "naive": shown.amount(whole.naive),
            "share": whole.share,
            "epsilon": whole.epsilon,
            "delta": whole.delta,
            "raised": whole.raised,
            "lowered": whole.lowered,
            "measurements": whole.measurements,
            "cases": {case.name: count for case, count in whole.cases.items()},
            "changes": list(whole.changes),
            "entries": entries,
            "next": following,
        }

    def statement_page(self, account: Account, limit: int) -> list[dict[str, Any]]:
        """Return the newest entries with their questions, newest first. Reads no others."""
        count = account.ledger.books.count(account.id)
        newest = account.ledger.books.page(account.id, max(0, count - limit), count)
        requests = [(entry.id, account.vault.request(entry.id)) for entry in reversed(newest)]
        return [
            self._own(account, id) | {"analyst": request.analyst if request else "(not in this vault)"}
            for id, request in requests
        ]

    def statement_tag(self, name: str, cursor: str | None, limit: int) -> str:
        """Return an ETag that changes whenever the statement does."""
        account = self.account(name)
        reservations = account.ledger.books.count(account.id)
        newest = account.ledger.books.page(account.id, reservations - 500, reservations)
        published = sum(entry.finished for entry in newest)
        facts = [
            account.id.hex(),
            reservations,
            published,
            len(account.ledger.books.changes(account.id)),
            cursor,
            limit,
        ]
        return f'"{keccak(canonical(facts).encode()).hex()[:32]}"'

    def set_limit(self, name: str, person: Person, epsilon: str | float) -> dict[str, Any]:
        """Set how much an analyst may learn from an account; signed with the owner's key, which must be in the bank."""
        account = self.account(name)
        if person.part is not Part.ANALYST:
            raise BadRequest("analyst", person.name, "only analysts have limits")
        value, digest = exact(epsilon, "epsilon"), account.analyst(person.name)
        if value < 0:
            raise BadRequest("epsilon", epsilon, "must not be negative")
        units = budget_precision(value, account.policy.delta).units if value else account.view(person.name).used.units
        account.ledger.set_limit(account.id, digest, units)
        account.vault.save_analyst(account.id, digest, person.name)
        return self.view(account, person)

    def limits(self, person: Person) -> dict[str, int]:
        """Return how much an analyst may learn, in ledger units by account; nothing for other roles."""
        if person.part is not Part.ANALYST:
            return {}
        return {account.id.hex(): account.view(person.name).limit.units for account in self.bank.accounts()}

    def view(self, account: Account, person: Person) -> dict[str, Any]:
        """Return how much a person may learn from an account, and has learned."""
        view = account.view(analyst_of(person))
        return {"dataset": account.name, "limit": shown.amount(view.limit), "used": shown.amount(view.used)}

    # -- parts ---------------------------------------------------------------------------------

    def _own(self, account: Account, id: bytes) -> dict[str, Any]:
        entry, request = account.ledger.reservation(account.id, id), account.vault.request(id)
        assert entry is not None
        return {
            "id": id.hex(),
            "time": entry.time,
            "sql": request.body.get("sql", "") if request else "(not in this vault)",
            "case": entry.case.name,
            "wanted": shown.amount(entry.wanted),
            "cost": shown.amount(entry.cost),
            "published": entry.finished,
        }

    def _agreed(self, account: Account, person: Person, asked: AskIn, key: str, clock: Clock) -> Any:
        """Return the most that a request may cost: what it says itself, and what the wallet has signed."""
        if asked.agreed is None:
            if person.must_sign:
                raise Turned("bad-signature", "every request of this analyst needs a signature of the wallet")
            return asked.max_cost
        if person.wallet is None:
            raise Turned("bad-signature", "this analyst has no wallet to agree with")
        spend = Spend(
            account.id, asked.sql, wish_text(asked), key, int(asked.agreed.max_cost_units), asked.agreed.deadline
        )
        ledger = account.ledger
        check_spend(
            spend, asked.agreed.signature, person.wallet, ledger.chain_id, ledger.contract, clock.now, clock.skew
        )
        signed = Precision(spend.max_cost).exact
        return signed if asked.max_cost is None else min(signed, exact(asked.max_cost, "max_cost"))


@dataclass(frozen=True, slots=True)
class _Live:
    """The ledger of a running bank, as the history that the verifier compares receipts with."""

    chain: Chain

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
    def newest(self) -> int:
        return self.head.number

    @property
    def head(self) -> Head:
        return self.chain.head()

    def digest(self, number: int) -> bytes | None:
        return self.chain.block_digest(number) if 0 <= number <= self.newest else None

    def find(self, digest: bytes) -> int | None:
        return self.newest if digest == self.head.digest else None


def analyst_of(person: Person) -> str:
    """Return the name under which the ledger knows a person."""
    return OWNER if person.part is Part.OWNER else person.name


def wish_text(asked: WishIn) -> str:
    """Return the accuracy that a request asks for as it is signed: canonical JSON, numbers as text."""
    return canonical({name: str(value) for name, value in asked.wished().items()})


def _identifier(text: str) -> bytes:
    try:
        raw = bytes.fromhex(text)
    except ValueError:
        raw = b""
    if len(raw) != 32:
        raise Turned("not-found", "an answer's id has 64 hexadecimal digits")
    return raw


def _place(cursor: str | None, count: int) -> int:
    if cursor is None:
        return count
    if not cursor.isascii() or not cursor.isdigit() or len(cursor) > 18:
        raise BadRequest("cursor", ascii(cursor)[:40], "take the one that the page before gave")
    return min(int(cursor), count)


def _page(cursor: str | None, limit: int, count: int) -> tuple[int, int, str | None]:
    """Return start and stop of the page that ends before the cursor, and the cursor of the next page."""
    stop = _place(cursor, count)
    start = max(0, stop - limit)
    return start, stop, str(start) if start else None
