"""`Recount`: an independent recount of the books from the logged inputs alone.

Written without the contract's code: it takes the inputs (query, target, runs, new budgets), decides
each case, cost, balance and date by the rules of the design, and compares with what was logged.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from noisebank.core.errors import Tampered
from noisebank.core.records import Case
from noisebank.ledger.chunks import Pieces
from noisebank.ledger.evm import Event

WEEK = 7 * 86_400
MOST_MEASUREMENTS = 2**20
WHOLE_WEIGHT = 2**32
NOBODY = "0x" + "00" * 20
Arguments = dict[str, Any]


@dataclass
class Tally:
    """One account, recounted."""

    owner: str
    curator: str
    unit: int
    budget: int
    delay: int
    version: int = 1
    base: int = 0
    """What earlier versions of the table have spent."""
    paused: bool = False
    naive: int = 0
    """What the same requests would have cost without reuse."""
    measurements: int = 0
    published: int = 0
    burnt: int = 0
    refused: int = 0
    cells: list[int] = field(default_factory=list)
    """Cells of cube 1, 2, ..."""
    cases: Counter[Case] = field(default_factory=Counter)
    limits: dict[bytes, int] = field(default_factory=dict)
    used: dict[bytes, int] = field(default_factory=lambda: defaultdict(int))
    spent_on: dict[int, int] = field(default_factory=lambda: defaultdict(int))
    pending: tuple[int, int] | None = None
    """(budget, ready) of an announced raise."""
    next_owner: str = NOBODY
    next_curator: str = NOBODY
    # What a new version empties:
    plain: int = 0
    """Spent in cube 0: by plain reuse."""
    records: dict[object, list[int]] = field(default_factory=lambda: defaultdict(list))
    cubes: dict[int, Pieces] = field(default_factory=lambda: defaultdict(Pieces))
    seen: dict[object, int] = field(default_factory=lambda: defaultdict(int))
    open: set[bytes] = field(default_factory=set)

    @property
    def spent(self) -> int:
        """Units spent: the base, plus cube 0, plus the largest cell of every other cube."""
        return self.base + self.plain + sum(cube.largest for cube in self.cubes.values())


class Recount:
    """Takes events in the chain's order. `Tampered` where a logged number is not what the rules give."""

    def __init__(self) -> None:
        self.accounts: dict[bytes, Tally] = {}
        self._ids: dict[bytes, set[bytes]] = defaultdict(set)

    def add(self, event: Event, time: Callable[[], int]) -> None:
        """Recounts one event. `time` returns its block's time and is called only where it matters."""
        arguments = event.arguments
        try:
            expected = getattr(self, f"_on_{event.name}")(arguments, time)
        except (KeyError, AttributeError, ValueError, TypeError, IndexError) as error:
            raise Tampered(f"{event.name} cannot be recounted: {error}") from None
        for name, value in expected.items():
            if arguments[name] != value:
                raise Tampered(f"{event.name}: {name} is recorded as {arguments[name]!r}, recounted {value!r}")

    # One method per event: applies it and returns what its derived arguments must be.

    def _on_AccountOpened(self, a: Arguments, time: Callable[[], int]) -> Arguments:  # noqa: N802
        _must(a["account"] not in self.accounts, "opened twice")
        _must(a["budget"] > 0 and a["unit"] in (1, 2) and a["curator"] != NOBODY, "no budget, unit or curator")
        self.accounts[a["account"]] = Tally(a["owner"], a["curator"], a["unit"], a["budget"], a["raise_delay"])
        return {}

    def _on_CubeAdded(self, a: Arguments, time: Callable[[], int]) -> Arguments:  # noqa: N802
        tally = self.accounts[a["account"]]
        _must(a["cells"] in {2**power for power in range(21)}, "not a power of two up to 2^20")
        tally.cells.append(a["cells"])
        return {"cube": len(tally.cells)}

    def _on_VersionOpened(self, a: Arguments, time: Callable[[], int]) -> Arguments:  # noqa: N802
        tally = self.accounts[a["account"]]
        tally.base, tally.plain, tally.version = tally.spent, 0, tally.version + 1
        tally.burnt += len(tally.open)
        for emptied in (tally.records, tally.cubes, tally.seen, tally.open):
            emptied.clear()
        return {"version": tally.version, "base": tally.base}

    def _on_LimitSet(self, a: Arguments, time: Callable[[], int]) -> Arguments:  # noqa: N802
        tally = self.accounts[a["account"]]
        _must(any(a["analyst"]) and a["limit"] >= tally.used[a["analyst"]], "no analyst, or below what is used")
        tally.limits[a["analyst"]] = a["limit"]
        return {}

    def _on_Reserved(self, a: Arguments, time: Callable[[], int]) -> Arguments:  # noqa: N802
        tally, id = self.accounts[a["account"]], a["id"]
        _must(not tally.paused, "paused")
        _must(id not in self._ids[a["account"]], "an id that was used before")
        _must(0 <= a["about"] < 256, "the public byte is none")
        _must(0 <= a["cube"] <= len(tally.cells), "an undeclared cube")
        records = tally.records[a["cube"], a["query"], a["runs"]]
        target, best = a["wanted"], records[-1] if records else 0
        _must(bool(a["runs"]) == (a["cube"] > 0 and target > 0), "runs where there are none, or none")
        fresh, reused = max(0, target - best), len(records)
        if not target:
            _must(a["cube"] > 0, "nothing wanted")
            case, reused = Case.INFER, 0
        elif fresh:
            case = Case.REFINE if records else Case.FIRST
            self._charge(tally, a, fresh)
            records.append(target)
        else:
            reused = next(number for number, precision in enumerate(records, 1) if precision >= target)
            case = Case.REPEAT if records[reused - 1] == target else Case.BLUR
        if case is not Case.REPEAT:  # the contract stores no id of a REPEAT
            self._ids[a["account"]].add(id)
            tally.open.add(id)
        tally.naive += target
        tally.cases[case] += 1
        used = self._show(tally, a)
        return {"case": case.value, "fresh": fresh, "reused": reused, "spent": tally.spent, "used": used}

    def _on_Published(self, a: Arguments, time: Callable[[], int]) -> Arguments:  # noqa: N802
        tally = self.accounts[a["account"]]
        _must(a["id"] in tally.open, "not reserved, burnt, or published twice")
        _must(any(a["answer"]), "no answer")
        tally.open.remove(a["id"])
        tally.published += 1
        return {}

    def _on_GroupRefused(self, a: Arguments, time: Callable[[], int]) -> Arguments:  # noqa: N802
        self.accounts[a["account"]].refused += 1
        return {}

    def _on_Paused(self, a: Arguments, time: Callable[[], int]) -> Arguments:  # noqa: N802
        self.accounts[a["account"]].paused = True
        return {}

    def _on_Resumed(self, a: Arguments, time: Callable[[], int]) -> Arguments:  # noqa: N802
        self.accounts[a["account"]].paused = False
        return {}

    def _on_BudgetLowered(self, a: Arguments, time: Callable[[], int]) -> Arguments:  # noqa: N802
        tally = self.accounts[a["account"]]
        _must(tally.spent <= a["budget"] < tally.budget, "not lower, or below what is spent")
        tally.budget, tally.pending = a["budget"], None
        return {}

    def _on_RaiseProposed(self, a: Arguments, time: Callable[[], int]) -> Arguments:  # noqa: N802
        tally = self.accounts[a["account"]]
        _must(a["budget"] > tally.budget, "not higher")
        ready = time() + tally.delay
        tally.pending = (a["budget"], ready)
        return {"ready": ready, "expires": ready + WEEK}

    def _on_BudgetRaised(self, a: Arguments, time: Callable[[], int]) -> Arguments:  # noqa: N802
        tally = self.accounts[a["account"]]
        if tally.pending is None or not tally.pending[1] <= time() < tally.pending[1] + WEEK:
            raise ValueError("not announced, too early or too late")
        tally.budget, tally.pending = tally.pending[0], None
        return {"budget": tally.budget}

    def _on_OwnerProposed(self, a: Arguments, time: Callable[[], int]) -> Arguments:  # noqa: N802
        self.accounts[a["account"]].next_owner = a["owner"]
        return {}

    def _on_CuratorProposed(self, a: Arguments, time: Callable[[], int]) -> Arguments:  # noqa: N802
        self.accounts[a["account"]].next_curator = a["curator"]
        return {}

    def _on_OwnerChanged(self, a: Arguments, time: Callable[[], int]) -> Arguments:  # noqa: N802
        tally = self.accounts[a["account"]]
        _must(tally.next_owner != NOBODY, "nobody was proposed")
        heir, tally.next_owner, tally.next_curator, tally.pending = tally.next_owner, NOBODY, NOBODY, None
        tally.owner = heir
        return {"owner": heir}

    def _on_CuratorChanged(self, a: Arguments, time: Callable[[], int]) -> Arguments:  # noqa: N802
        tally = self.accounts[a["account"]]
        _must(tally.next_curator != NOBODY, "nobody was proposed")
        tally.curator, tally.next_curator = tally.next_curator, NOBODY
        return {"curator": tally.curator}

    def _charge(self, tally: Tally, a: Arguments, fresh: int) -> None:
        before, free = tally.spent, 0
        if a["cube"] == 0:
            tally.plain += fresh
        for start, stop, weight in a["runs"]:
            _must(free <= start < stop <= tally.cells[a["cube"] - 1], "runs that overlap or lie outside")
            _must(0 < weight <= 2**64, "a weight out of range")
            tally.cubes[a["cube"]].add(start, stop, -(-fresh * weight // WHOLE_WEIGHT))
            free = stop
        tally.spent_on[a["about"]] += tally.spent - before
        tally.measurements += 1
        _must(tally.spent <= tally.budget, "more is spent than the budget")
        _must(tally.measurements <= MOST_MEASUREMENTS, "too many measurements")

    def _show(self, tally: Tally, a: Arguments) -> int:
        analyst = a["analyst"]
        if not any(analyst):
            return 0  # the owner has no view: the account's spend is the bound
        entry, level = (analyst, a["query"]), a["wanted"]
        if a["cube"]:
            entry, level = (analyst, a["cube"]), tally.cubes[a["cube"]].largest
        tally.used[analyst] += max(0, level - tally.seen[entry])
        tally.seen[entry] = max(level, tally.seen[entry])
        _must(tally.limits.get(analyst, 0) > 0, "an analyst without a limit")
        _must(tally.used[analyst] <= tally.limits[analyst], "a view beyond its limit")
        return tally.used[analyst]


def _must(condition: bool, otherwise: str) -> None:
    if not condition:
        raise ValueError(otherwise)
