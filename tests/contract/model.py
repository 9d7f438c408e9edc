"""A second, independent ledger: what `budget_ledger.vy` promises, in plain Python.

Written from the contract's documentation. It shares no code with the package, so that one mistake
cannot hide in both.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import astuple, dataclass, field

from Crypto.Hash import keccak

NOBODY = "0x" + "00" * 20
NOTHING = bytes(32)
FIRST, REPEAT, REFINE, BLUR = 1, 2, 4, 8
WEEK, YEAR = 7 * 86400, 365 * 86400
MAX_BUDGET = 2**96
MAX_MEASUREMENTS = 2**20

Logged = tuple[str, dict[str, object]]


class Revert(Exception):
    """The call is refused and changes nothing."""


@dataclass
class Account:
    owner: str
    curator: str
    budget: int
    policy: bytes
    data: bytes
    raise_delay: int
    spent: int = 0
    measurements: int = 0
    next_owner: str = NOBODY
    next_curator: str = NOBODY
    pending: tuple[int, int, int] = (0, 0, 0)
    """Budget, ready, expires."""
    records: dict[bytes, list[tuple[int, bytes]]] = field(default_factory=dict)
    """Per query, by rising precision: (precision, reservation)."""


@dataclass
class Reservation:
    account: bytes
    published: bool = False


class Model:
    """All accounts of one contract."""

    def __init__(self, chain_id: int, contract: str) -> None:
        self.chain_id, self.contract = chain_id, contract
        self.accounts: dict[bytes, Account] = {}
        self.reservations: dict[bytes, Reservation] = {}
        self.opened: dict[str, int] = {}

    def call(self, sender: str, now: int, function: str, *arguments: object) -> tuple[tuple[object, ...], list[Logged]]:
        """What the call returns and logs; `Revert` if it is refused."""
        return getattr(self, function)(sender, now, *arguments)  # type: ignore[no-any-return]

    # -- the contract's functions ----------------------------------------------------------------

    def open_account(self, sender, now, curator, budget, policy, data, raise_delay):
        require(curator != NOBODY, "no curator")
        require(budget >= 1, "budget of zero")
        require(budget <= MAX_BUDGET, "budget too large")
        require(raise_delay <= YEAR, "delay too long")
        id = self._account_id(sender)
        self.opened[sender] = self.opened.get(sender, 0) + 1
        self.accounts[id] = Account(sender, curator, budget, policy, data, raise_delay)
        terms = {"owner": sender, "curator": curator, "budget": budget}
        digests = {"policy": policy, "data": data, "raise_delay": raise_delay}
        return (id,), [("AccountOpened", {"account": id, **terms, **digests})]

    def reserve(self, sender, now, account, id, query, analyst, about, wanted, limit):
        books = self._of_curator(sender, account)
        require(id not in self.reservations, "id already used")
        require(wanted >= 1, "nothing wanted")
        require(wanted <= MAX_BUDGET, "too much wanted")
        require(0 <= about <= 255, "about is one byte")
        known = books.records.get(query, [])
        enough = [record for record in known if record[0] >= wanted]
        if enough:
            precision, reused = min(enough)
            case, fresh = (REPEAT if precision == wanted else BLUR), 0
        elif known:
            best, reused = max(known)
            case, fresh = REFINE, wanted - best
        else:
            case, fresh, reused = FIRST, wanted, NOTHING
        if fresh:
            require(fresh <= limit, "price above limit")
            require(fresh <= books.budget - books.spent, "budget exhausted")
            require(books.measurements < MAX_MEASUREMENTS, "too many measurements")
            books.measurements += 1
            books.spent += fresh
            books.records.setdefault(query, []).append((wanted, id))
        self.reservations[id] = Reservation(account)
        asked = {"account": account, "id": id, "query": query, "analyst": analyst, "about": about, "wanted": wanted}
        decided = {"case": case, "fresh": fresh, "reused": reused, "spent": books.spent}
        return (case, fresh, reused), [("Reserved", asked | decided)]

    def publish(self, sender, now, account, id, answer):
        self._of_curator(sender, account)
        reservation = self.reservations.get(id)
        require(reservation is not None and reservation.account == account, "no such reservation")
        require(not reservation.published, "already published")
        require(answer != NOTHING, "no answer")
        reservation.published = True
        return (), [("Published", {"account": account, "id": id, "answer": answer})]

    def lower_budget(self, sender, now, account, budget):
        books = self._of_owner(sender, account)
        require(budget < books.budget, "not lower")
        require(budget >= books.spent, "below what is spent")
        books.budget, books.pending = budget, (0, 0, 0)
        return (), [("BudgetLowered", {"account": account, "budget": budget})]

    def propose_raise(self, sender, now, account, budget):
        books = self._of_owner(sender, account)
        require(budget > books.budget, "not higher")
        require(budget <= MAX_BUDGET, "budget too large")
        ready = now + books.raise_delay
        books.pending = (budget, ready, ready + WEEK)
        window = {"ready": ready, "expires": ready + WEEK}
        return (), [("RaiseProposed", {"account": account, "budget": budget, **window})]

    def finish_raise(self, sender, now, account):
        books = self._of_owner(sender, account)
        budget, ready, expires = books.pending
        require(budget > 0, "no raise pending")
        require(now >= ready, "raise not ready")
        require(now < expires, "raise expired")
        books.budget, books.pending = budget, (0, 0, 0)
        return (), [("BudgetRaised", {"account": account, "budget": budget})]

    def propose_owner(self, sender, now, account, owner):
        self._of_owner(sender, account).next_owner = owner
        return (), [("OwnerProposed", {"account": account, "owner": owner})]

    def accept_owner(self, sender, now, account):
        books = self.accounts.get(account)
        require(books is not None and books.next_owner == sender, "not proposed")
        books.owner, books.next_owner = sender, NOBODY
        books.next_curator, books.pending = NOBODY, (0, 0, 0)
        return (), [("OwnerChanged", {"account": account, "owner": sender})]

    def propose_curator(self, sender, now, account, curator):
        self._of_owner(sender, account).next_curator = curator
        return (), [("CuratorProposed", {"account": account, "curator": curator})]

    def accept_curator(self, sender, now, account):
        books = self.accounts.get(account)
        require(books is not None and books.next_curator == sender, "not proposed")
        books.curator, books.next_curator = sender, NOBODY
        return (), [("CuratorChanged", {"account": account, "curator": sender})]

    # -- what anybody may read -------------------------------------------------------------------

    def visible(
        self, people: Iterable[str], accounts: Iterable[bytes], queries: Iterable[bytes], ids: Iterable[bytes]
    ) -> dict[tuple[object, ...], tuple[object, ...]]:
        """Everything that the contract's views would answer about these."""
        seen: dict[tuple[object, ...], tuple[object, ...]] = {}
        queries = list(queries)
        for person in people:
            seen["opened_by", person] = (self.opened.get(person, 0),)
        for id in ids:
            seen["reservations", id] = astuple(self.reservations.get(id, Reservation(NOTHING)))
        for id in accounts:
            books = self.accounts.get(id, Account(NOBODY, NOBODY, 0, NOTHING, NOTHING, 0))
            money = (books.budget, books.spent, books.measurements)
            seen["accounts", id] = (
                books.owner, books.curator, *money, books.policy, books.data, books.raise_delay
            )  # fmt: skip
            seen["pending_raise", id] = books.pending
            seen["pending_owner", id] = (books.next_owner,)
            seen["pending_curator", id] = (books.next_curator,)
            for query in queries:
                records = books.records.get(query, [])
                seen["record_count", id, query] = (len(records),)
                for place, record in enumerate([*records, (0, NOTHING)]):
                    seen["records", id, query, place] = record
        return seen

    # -- parts -----------------------------------------------------------------------------------

    def _of_curator(self, sender: str, account: bytes) -> Account:
        books = self.accounts.get(account)
        require(books is not None and books.curator == sender, "not the curator")
        return books

    def _of_owner(self, sender: str, account: bytes) -> Account:
        books = self.accounts.get(account)
        require(books is not None and books.owner == sender, "not the owner")
        return books

    def _account_id(self, sender: str) -> bytes:
        addresses = (int(self.contract, 16), int(sender, 16))
        words = (self.chain_id, *addresses, self.opened.get(sender, 0))
        return keccak.new(digest_bits=256, data=b"".join(word.to_bytes(32, "big") for word in words)).digest()


def require(condition: bool, reason: str) -> None:
    if not condition:
        raise Revert(f"ledger: {reason}")
