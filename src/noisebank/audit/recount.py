"""A second opinion on the books, from the signed calls alone.

Written without the contract's code and without its events: it reads who called what, decides
each case and cost by the rules of the design, and compares the result with what was recorded.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from noisebank.errors import Tampered
from noisebank.ledger.abi import Word, budget_ledger
from noisebank.ledger.block import Block
from noisebank.ledger.machine import Event
from noisebank.records import Case

WEEK = 7 * 86_400
MOST_MEASUREMENTS = 2**20


@dataclass
class Tally:
    """One account, recounted."""

    owner: str
    curator: str
    budget: int
    delay: int
    spent: int = 0
    naive: int = 0
    """What the same requests would have cost without reuse."""
    measurements: int = 0
    cases: Counter[Case] = field(default_factory=Counter)
    published: int = 0
    best: dict[Word, list[tuple[int, Word]]] = field(default_factory=dict)
    pending: tuple[int, int] | None = None
    """(budget, ready) of an announced raise."""
    heirs: dict[str, str] = field(default_factory=dict)


class Recount:
    """Feeds on blocks whose signatures are already checked."""

    def __init__(self) -> None:
        self.accounts: dict[Word, Tally] = {}
        self._open: dict[Word, Word] = {}
        self._published: set[Word] = set()

    def add(self, block: Block) -> None:
        """Recounts one block; `Tampered` where it disagrees with what the block records."""
        for done in block.executed:
            if not done.transaction.to:
                continue
            try:
                function, arguments = budget_ledger().decode_call(done.transaction.data)
                sender = done.transaction.sender()
                expected = getattr(self, f"_{function}")(sender, arguments, block.time, done.events)
            except (ValueError, KeyError, AttributeError, StopIteration):
                raise Tampered("a call cannot be recounted", block.number) from None
            recorded = {name: value for event in done.events for name, value in event.arguments.items()}
            for name, value in expected.items():
                if recorded.get(name) != value:
                    raise Tampered(
                        f"{function}: {name} is recorded as {recorded.get(name)!r}, recounted {value!r}", block.number
                    )
        for account, budget, spent in block.balances:
            tally = self.accounts[account]
            if (tally.budget, tally.spent) != (budget, spent) or tally.spent > tally.budget:
                raise Tampered(f"the balance of {account.hex()[:12]} does not add up", block.number)

    # One method a function of the contract: what the event must say.

    def _open_account(self, sender: str, a: dict[str, Word], time: int, events: tuple[Event, ...]) -> dict[str, Word]:
        account = next(iter(events)).arguments["account"]
        if account in self.accounts:
            raise ValueError("opened twice")
        self.accounts[account] = Tally(sender, str(a["curator"]), _number(a["budget"]), _number(a["raise_delay"]))
        return {"owner": sender, **a}

    def _reserve(self, sender: str, a: dict[str, Word], time: int, events: tuple[Event, ...]) -> dict[str, Word]:
        tally = self.accounts[a["account"]]
        wanted, records = _number(a["wanted"]), tally.best.setdefault(a["query"], [])
        if sender != tally.curator or a["id"] in self._open:
            raise ValueError("not the curator, or a used id")
        best, best_id = records[-1] if records else (0, bytes(32))
        fresh = max(0, wanted - best)
        if fresh:
            case, reused = (Case.REFINE, best_id) if records else (Case.FIRST, bytes(32))
            records.append((wanted, a["id"]))
            tally.measurements += 1
        else:
            found, reused = next((p, id) for p, id in records if p >= wanted)
            case = Case.REPEAT if found == wanted else Case.BLUR
        tally.spent += fresh
        tally.naive += wanted
        tally.cases[case] += 1
        self._open[a["id"]] = a["account"]
        if fresh > _number(a["limit"]) or tally.spent > tally.budget or tally.measurements > MOST_MEASUREMENTS:
            raise ValueError("more than was allowed")
        named = {name: a[name] for name in ("account", "id", "query", "analyst", "about", "wanted")}
        return {**named, "case": case.value, "fresh": fresh, "reused": reused, "spent": tally.spent}

    def _publish(self, sender: str, a: dict[str, Word], time: int, events: tuple[Event, ...]) -> dict[str, Word]:
        tally = self.accounts[a["account"]]
        if sender != tally.curator or self._open[a["id"]] != a["account"] or a["id"] in self._published:
            raise ValueError("not the curator, not reserved, or published twice")
        self._published.add(a["id"])
        tally.published += 1
        return a

    def _lower_budget(self, sender: str, a: dict[str, Word], time: int, events: tuple[Event, ...]) -> dict[str, Word]:
        tally = self._owned(sender, a)
        if not tally.spent <= _number(a["budget"]) < tally.budget:
            raise ValueError("not lower, or below what is spent")
        tally.budget, tally.pending = _number(a["budget"]), None
        return a

    def _propose_raise(self, sender: str, a: dict[str, Word], time: int, events: tuple[Event, ...]) -> dict[str, Word]:
        tally = self._owned(sender, a)
        ready = time + tally.delay
        tally.pending = (_number(a["budget"]), ready)
        return {**a, "ready": ready, "expires": ready + WEEK}

    def _finish_raise(self, sender: str, a: dict[str, Word], time: int, events: tuple[Event, ...]) -> dict[str, Word]:
        tally = self._owned(sender, a)
        if tally.pending is None or not tally.pending[1] <= time < tally.pending[1] + WEEK:
            raise ValueError("not announced, too early or too late")
        tally.budget, tally.pending = max(tally.budget, tally.pending[0]), None
        return {"account": a["account"], "budget": tally.budget}

    def _propose_owner(self, sender: str, a: dict[str, Word], time: int, events: tuple[Event, ...]) -> dict[str, Word]:
        self._owned(sender, a).heirs["owner"] = str(a["owner"])
        return a

    def _propose_curator(
        self, sender: str, a: dict[str, Word], time: int, events: tuple[Event, ...]
    ) -> dict[str, Word]:
        self._owned(sender, a).heirs["curator"] = str(a["curator"])
        return a

    def _accept_owner(self, sender: str, a: dict[str, Word], time: int, events: tuple[Event, ...]) -> dict[str, Word]:
        tally = self.accounts[a["account"]]
        if tally.heirs.get("owner") != sender:
            raise ValueError("not proposed")
        tally.owner, tally.heirs, tally.pending = sender, {}, None
        return {"account": a["account"], "owner": sender}

    def _accept_curator(self, sender: str, a: dict[str, Word], time: int, events: tuple[Event, ...]) -> dict[str, Word]:
        tally = self.accounts[a["account"]]
        if tally.heirs.pop("curator", "") != sender:
            raise ValueError("not proposed")
        tally.curator = sender
        return {"account": a["account"], "curator": sender}

    def _owned(self, sender: str, a: dict[str, Word]) -> Tally:
        tally = self.accounts[a["account"]]
        if tally.owner != sender:
            raise ValueError("not the owner")
        return tally


def _number(word: Word) -> int:
    if type(word) is not int:
        raise ValueError("no number")
    return word
