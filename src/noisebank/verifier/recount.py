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
from noisebank.ledger.chunks import CellCharges
from noisebank.ledger.evm import Event

WEEK = 7 * 86_400
MAX_MEASUREMENTS = 2**20
WHOLE_WEIGHT = 2**32
ZERO_ADDRESS = "0x" + "00" * 20
Arguments = dict[str, Any]


@dataclass
class Tally:
    """One account, recounted."""

    owner: str
    curator: str
    unit: int
    budget: int
    raise_delay: int
    version: int = 1
    base: int = 0
    """What earlier versions of the table have spent."""
    paused: bool = False
    naive_cost: int = 0
    """What the same requests would have cost without reuse."""
    measurements: int = 0
    published: int = 0
    burnt: int = 0
    refused: int = 0
    cube_sizes: list[int] = field(default_factory=list)
    """Cells of cube 1, 2, ..."""
    cases: Counter[Case] = field(default_factory=Counter)
    limits: dict[bytes, int] = field(default_factory=dict)
    used: dict[bytes, int] = field(default_factory=lambda: defaultdict(int))
    spent_on: dict[int, int] = field(default_factory=lambda: defaultdict(int))
    pending_raise: tuple[int, int] | None = None
    """(budget, ready) of an announced raise."""
    next_owner: str = ZERO_ADDRESS
    next_curator: str = ZERO_ADDRESS
    # What a new version empties:
    plain_spent: int = 0
    """Spent in cube 0: by plain reuse."""
    records: dict[object, list[int]] = field(default_factory=lambda: defaultdict(list))
    cell_charges: dict[int, CellCharges] = field(default_factory=lambda: defaultdict(CellCharges))
    seen_levels: dict[object, int] = field(default_factory=lambda: defaultdict(int))
    open_ids: set[bytes] = field(default_factory=set)

    @property
    def spent(self) -> int:
        """Units spent: the base, plus cube 0, plus the largest cell of every other cube."""
        return self.base + self.plain_spent + sum(cube.largest for cube in self.cell_charges.values())


class Recount:
    """Takes events in the chain's order. `Tampered` where a logged number is not what the rules give."""

    def __init__(self) -> None:
        self.accounts: dict[bytes, Tally] = {}
        self._ids: dict[bytes, set[bytes]] = defaultdict(set)

    def add_event(self, event: Event, time: Callable[[], int]) -> None:
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
        _require(a["account"] not in self.accounts, "opened twice")
        _require(a["budget"] > 0 and a["unit"] in (1, 2) and a["curator"] != ZERO_ADDRESS, "no budget, unit or curator")
        self.accounts[a["account"]] = Tally(a["owner"], a["curator"], a["unit"], a["budget"], a["raise_delay"])
        return {}

    def _on_CubeAdded(self, a: Arguments, time: Callable[[], int]) -> Arguments:  # noqa: N802
        tally = self.accounts[a["account"]]
        _require(a["cells"] in {2**power for power in range(21)}, "not a power of two up to 2^20")
        tally.cube_sizes.append(a["cells"])
        return {"cube": len(tally.cube_sizes)}

    def _on_VersionOpened(self, a: Arguments, time: Callable[[], int]) -> Arguments:  # noqa: N802
        tally = self.accounts[a["account"]]
        tally.base, tally.plain_spent, tally.version = tally.spent, 0, tally.version + 1
        tally.burnt += len(tally.open_ids)
        for emptied in (tally.records, tally.cell_charges, tally.seen_levels, tally.open_ids):
            emptied.clear()
        return {"version": tally.version, "base": tally.base}

    def _on_LimitSet(self, a: Arguments, time: Callable[[], int]) -> Arguments:  # noqa: N802
        tally = self.accounts[a["account"]]
        _require(any(a["analyst"]) and a["limit"] >= tally.used[a["analyst"]], "no analyst, or below what is used")
        tally.limits[a["analyst"]] = a["limit"]
        return {}

    def _on_Reserved(self, a: Arguments, time: Callable[[], int]) -> Arguments:  # noqa: N802
        tally, id = self.accounts[a["account"]], a["id"]
        _require(not tally.paused, "paused")
        _require(id not in self._ids[a["account"]], "an id that was used before")
        _require(0 <= a["about"] < 256, "the public byte is none")
        _require(0 <= a["cube"] <= len(tally.cube_sizes), "an undeclared cube")
        records = tally.records[a["cube"], a["query"], a["runs"]]
        target, best = a["wanted"], records[-1] if records else 0
        _require(bool(a["runs"]) == (a["cube"] > 0 and target > 0), "runs where there are none, or none")
        fresh, reused = max(0, target - best), len(records)
        if not target:
            _require(a["cube"] > 0, "nothing wanted")
            case, reused = Case.INFER, 0
        elif fresh:
            case = Case.REFINE if records else Case.FIRST
            self._charge_account(tally, a, fresh)
            records.append(target)
        else:
            reused = next(number for number, precision in enumerate(records, 1) if precision >= target)
            case = Case.REPEAT if records[reused - 1] == target else Case.BLUR
        if case is not Case.REPEAT:  # the contract stores no id of a REPEAT
            self._ids[a["account"]].add(id)
            tally.open_ids.add(id)
        tally.naive_cost += target
        tally.cases[case] += 1
        used = self._charge_view(tally, a)
        return {"case": case.value, "fresh": fresh, "reused": reused, "spent": tally.spent, "used": used}

    def _on_Published(self, a: Arguments, time: Callable[[], int]) -> Arguments:  # noqa: N802
        tally = self.accounts[a["account"]]
        _require(a["id"] in tally.open_ids, "not reserved, burnt, or published twice")
        _require(any(a["answer"]), "no answer")
        tally.open_ids.remove(a["id"])
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
        _require(tally.spent <= a["budget"] < tally.budget, "not lower, or below what is spent")
        tally.budget, tally.pending_raise = a["budget"], None
        return {}

    def _on_RaiseProposed(self, a: Arguments, time: Callable[[], int]) -> Arguments:  # noqa: N802
        tally = self.accounts[a["account"]]
        _require(a["budget"] > tally.budget, "not higher")
        ready = time() + tally.raise_delay
        tally.pending_raise = (a["budget"], ready)
        return {"ready": ready, "expires": ready + WEEK}

    def _on_BudgetRaised(self, a: Arguments, time: Callable[[], int]) -> Arguments:  # noqa: N802
        tally = self.accounts[a["account"]]
        if tally.pending_raise is None or not tally.pending_raise[1] <= time() < tally.pending_raise[1] + WEEK:
            raise ValueError("not announced, too early or too late")
        tally.budget, tally.pending_raise = tally.pending_raise[0], None
        return {"budget": tally.budget}

    def _on_OwnerProposed(self, a: Arguments, time: Callable[[], int]) -> Arguments:  # noqa: N802
        self.accounts[a["account"]].next_owner = a["owner"]
        return {}

    def _on_CuratorProposed(self, a: Arguments, time: Callable[[], int]) -> Arguments:  # noqa: N802
        self.accounts[a["account"]].next_curator = a["curator"]
        return {}

    def _on_OwnerChanged(self, a: Arguments, time: Callable[[], int]) -> Arguments:  # noqa: N802
        tally = self.accounts[a["account"]]
        _require(tally.next_owner != ZERO_ADDRESS, "nobody was proposed")
        heir, tally.next_owner, tally.next_curator, tally.pending_raise = (
            tally.next_owner,
            ZERO_ADDRESS,
            ZERO_ADDRESS,
            None,
        )
        tally.owner = heir
        return {"owner": heir}

    def _on_CuratorChanged(self, a: Arguments, time: Callable[[], int]) -> Arguments:  # noqa: N802
        tally = self.accounts[a["account"]]
        _require(tally.next_curator != ZERO_ADDRESS, "nobody was proposed")
        tally.curator, tally.next_curator = tally.next_curator, ZERO_ADDRESS
        return {"curator": tally.curator}

    def _charge_account(self, tally: Tally, a: Arguments, fresh: int) -> None:
        before, free = tally.spent, 0
        if a["cube"] == 0:
            tally.plain_spent += fresh
        for start, stop, weight in a["runs"]:
            _require(free <= start < stop <= tally.cube_sizes[a["cube"] - 1], "runs that overlap or lie outside")
            _require(0 < weight <= 2**64, "a weight out of range")
            tally.cell_charges[a["cube"]].add(start, stop, -(-fresh * weight // WHOLE_WEIGHT))
            free = stop
        tally.spent_on[a["about"]] += tally.spent - before
        tally.measurements += 1
        _require(tally.spent <= tally.budget, "more is spent than the budget")
        _require(tally.measurements <= MAX_MEASUREMENTS, "too many measurements")

    def _charge_view(self, tally: Tally, a: Arguments) -> int:
        analyst = a["analyst"]
        if not any(analyst):
            return 0  # the owner has no view: the account's spend is the bound
        entry, level = (analyst, a["query"]), a["wanted"]
        if a["cube"]:
            entry, level = (analyst, a["cube"]), tally.cell_charges[a["cube"]].largest
        tally.used[analyst] += max(0, level - tally.seen_levels[entry])
        tally.seen_levels[entry] = max(level, tally.seen_levels[entry])
        _require(tally.limits.get(analyst, 0) > 0, "an analyst without a limit")
        _require(tally.used[analyst] <= tally.limits[analyst], "a view beyond its limit")
        return tally.used[analyst]


def _require(condition: bool, otherwise: str) -> None:
    if not condition:
        raise ValueError(otherwise)
