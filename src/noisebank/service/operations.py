"""The desk: what people can do at the counter of a bank, the same for HTTP and for pages."""

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
    """When it is, and how far others may disagree."""

    now: float
    skew: float


class Desk:
    """Answers for one bank. Safe for many threads."""

    def __init__(self, bank: Bank) -> None:
        self.bank = bank

    # -- what everybody may see ----------------------------------------------------------------

    def account(self, name: str) -> Account:
        """An account by name; one that is not there is not found."""
        for account in self.bank.accounts():
            if account.name == name:
                return account
        raise Turned("not-found", "there is no data set of this name")

    def dataset(self, account: Account) -> dict[str, Any]:
        """An account's public facts."""
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
        """The public ledger's entries of an account, newest first."""
        account = self.account(name)
        start, stop, following = _page(cursor, limit, account.ledger.books.count(account.id))
        found = account.ledger.books.page(account.id, start, stop)
        rows = [shown.entry(start + place, each) for place, each in enumerate(found)]
        return {"entries": rows[::-1], "next": following}

    def head(self) -> dict[str, Any]:
        """The newest block."""
        head, ledger = self.bank.head(), self.bank.ledger
        where = {"chain_id": ledger.chain_id, "contract": ledger.contract}
        return {"number": head.number, "digest": head.digest.hex(), **where}

    def journal(self) -> Iterator[str]:
        """All that a verifier needs, line by line."""
        return self.bank.export()

    def check_receipt(self, fields: dict[str, Any]) -> dict[str, Any]:
        """Whether a receipt is on this ledger, as the verifier would say it."""
        receipt = read_receipt(json.dumps(fields))
        if receipt is None:
            return {"holds": False, "detail": "this is no receipt of this version"}
        compared = Compared()
        try:
            compared.receipt(receipt, _Live(self.bank.ledger))
        except Tampered as error:
            return {"holds": False, "detail": str(error)}
        return {"holds": True, "detail": compared.with_what[0]}

    # -- what analysts do ----------------------------------------------------------------------

    def quote(self, name: str, caller: Caller, asked: WishIn) -> dict[str, Any]:
        """What an answer would cost now."""
        account = self.account(name)
        analyst = analyst_of(caller.person)
        view = account.view(analyst)
        left = None if analyst == OWNER else Precision(max(0, view.limit.units - view.used.units))
        return shown.quote(account.quote(asked.sql, **asked.wished()), left)

    def ask(self, name: str, caller: Caller, asked: AskIn, key: str, clock: Clock) -> shown.Result:
        """An answer, by the one path. The caller's signature is checked before anything else happens."""
        account = self.account(name)
        limit = self._agreed(account, caller.person, asked, key, clock)
        wished = asked.wished()
        made: shown.Result = account.ask(
            asked.sql, key=key, at_most=limit, analyst=analyst_of(caller.person), best=asked.mode == "best", **wished
        )
        return made

    def recall(self, name: str, caller: Caller, id: str) -> dict[str, Any]:
        """One's own published answer again, with its receipt. Others' answers are not found."""
        account = self.account(name)
        raw = _identifier(id)
        found = account.ledger.reservation(account.id, raw)
        analyst = account.analyst(analyst_of(caller.person))
        if found is None or (found.analyst != analyst and caller.person.part is not Part.OWNER):
            raise Turned("not-found", "there is no such answer of yours")
        made = account.recall(raw)
        if made is None:
            raise Turned("not-found", "this answer is not published, or of an earlier version of the table")
        return shown.result(made)

    def history(self, name: str, caller: Caller, cursor: str | None, limit: int) -> dict[str, Any]:
        """One's own answers, newest first. A page looks at a bounded number of entries."""
        account = self.account(name)
        analyst, books = account.analyst(analyst_of(caller.person)), account.ledger.books
        place = _place(cursor, books.count(account.id))
        rows: list[dict[str, Any]] = []
        looked = 0
        while place > 0 and len(rows) < limit and looked < 20_000:
            start = max(0, place - 500)
            for found in reversed(books.page(account.id, start, place)):
                place, looked = place - 1, looked + 1
                if found.analyst == analyst:
                    rows.append(self._own(account, found.id))
                    if len(rows) == limit:
                        break
        return {"answers": rows, "next": str(place) if place else None}

    def balance(self, name: str, caller: Caller) -> dict[str, Any]:
        """The account's balance and the caller's view."""
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

    # -- what owners do ------------------------------------------------------------------------

    def statement(self, name: str, cursor: str | None, limit: int) -> dict[str, Any]:
        """Balance, cases, and a page of entries with their questions, newest first."""
        account = self.account(name)
        found = statement(account)
        start, stop, following = _page(cursor, limit, len(found.entries))
        entries = [
            {
                "id": each.id, "time": each.time, "analyst": each.analyst, "sql": each.sql, "case": each.case.name,
                "cost": shown.amount(each.cost), "spent": shown.amount(each.spent), "published": each.published,
            }
            for each in reversed(found.entries[start:stop])
        ]  # fmt: skip
        return {
            "name": found.name,
            "account": found.account,
            "budget": shown.amount(found.budget),
            "spent": shown.amount(found.spent),
            "left": shown.amount(found.left),
            "naive": shown.amount(found.naive),
            "share": found.share,
            "epsilon": found.epsilon,
            "delta": found.delta,
            "raised": found.raised,
            "lowered": found.lowered,
            "measurements": found.measurements,
            "cases": {case.name: count for case, count in found.cases.items()},
            "changes": list(found.changes),
            "entries": entries,
            "next": following,
        }

    def statement_page(self, account: Account, limit: int) -> list[dict[str, Any]]:
        """The newest entries with their questions, newest first. Reads no others."""
        count = account.ledger.books.count(account.id)
        found = account.ledger.books.page(account.id, max(0, count - limit), count)
        requests = [(each, account.vault.request(each.id)) for each in reversed(found)]
        return [
            self._own(account, each.id) | {"analyst": request.analyst if request else "(not in this vault)"}
            for each, request in requests
        ]

    def statement_tag(self, name: str, cursor: str | None, limit: int) -> str:
        """Changes whenever the statement does."""
        account = self.account(name)
        reservations = account.ledger.books.count(account.id)
        published = sum(
            each.finished for each in account.ledger.books.page(account.id, reservations - 500, reservations)
        )
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
        """How much an analyst may learn from an account; signed with the owner's key, which must be here."""
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
        """What an analyst may learn, by account."""
        if person.part is not Part.ANALYST:
            return {}
        return {account.id.hex(): account.view(person.name).limit.units for account in self.bank.accounts()}

    def view(self, account: Account, person: Person) -> dict[str, Any]:
        """What somebody may learn from an account, and has learned."""
        view = account.view(analyst_of(person))
        return {"dataset": account.name, "limit": shown.amount(view.limit), "used": shown.amount(view.used)}

    # -- parts ---------------------------------------------------------------------------------

    def _own(self, account: Account, id: bytes) -> dict[str, Any]:
        found, request = account.ledger.reservation(account.id, id), account.vault.request(id)
        assert found is not None
        return {
            "id": id.hex(),
            "time": found.time,
            "sql": request.body.get("sql", "") if request else "(not in this vault)",
            "case": found.case.name,
            "wanted": shown.amount(found.wanted),
            "cost": shown.amount(found.cost),
            "published": found.finished,
        }

    def _agreed(self, account: Account, person: Person, asked: AskIn, key: str, clock: Clock) -> Any:
        """The most that this request may cost: what it says itself, and what a wallet has signed."""
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
    """The ledger of a bank in use, as the verifier looks at a history."""

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
    """The name under which the ledger knows somebody."""
    return OWNER if person.part is Part.OWNER else person.name


def wish_text(asked: WishIn) -> str:
    """How good an answer shall be, as it is signed: canonical JSON, numbers as text."""
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
    """[start, stop) of a page that ends before the cursor, and the next one."""
    stop = _place(cursor, count)
    start = max(0, stop - limit)
    return start, stop, str(start) if start else None
