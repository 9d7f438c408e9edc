"""Sums of what an account has spent, by question, analyst and category, and over time; for the statement page.

Kept in memory: only entries that are new are read.
"""

from __future__ import annotations

import threading
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from noisebank.account.account import Account
from noisebank.account.savings import Savings, is_look, plain_price
from noisebank.core.units import Precision
from noisebank.ledger.protocol import Reservation
from noisebank.queries.query import PART_OF_TABLE_BIT, describe_category
from noisebank.vault.vault import Request

CurvePoint = tuple[int, int, float, float, float]
"""Number of entries, time, precision spent, what it would have been without reuse, what of it is for looks."""
MAX_POINTS = 1_200
DAY_SECONDS = 86_400
RECENT_DAYS = 30
"""The pace of this many days is taken for the future."""


@dataclass(slots=True)
class SpendingTotal:
    """The sums for one question, one analyst or one category."""

    name: str
    requests: int = 0
    measured: int = 0
    """How many of the requests measured the data."""
    units: int = 0
    naive_units: int = 0
    look_units: int = 0
    """What looks at cubes have cost, a part of `units`."""
    last_time: int = 0

    def add_entry(self, entry: Reservation, request: Request | None) -> None:
        """Add one entry of the ledger, with its request. A look at a cube is no answer."""
        look = is_look(request)
        self.requests += not look
        self.measured += bool(entry.fresh_precision)
        self.units += entry.cost.units
        self.look_units += entry.cost.units if look else 0
        self.naive_units += plain_price(entry, request).units
        self.last_time = max(self.last_time, entry.time)

    @property
    def cost(self) -> Precision:
        """What was paid, as precision."""
        return Precision(self.units)

    @property
    def saved_share(self) -> float:
        """The share of their plain price that answers have not cost, 0 to 1; looks at cubes apart."""
        return max(0.0, 1 - (self.units - self.look_units) / self.naive_units) if self.naive_units else 0.0

    def to_facts(self) -> dict[str, Any]:
        """Return the sums as templates show them."""
        return {
            "name": self.name, "asked": self.requests, "paid": self.measured, "cost": self.cost,
            "saved": self.saved_share, "last": self.last_time, "is_look": bool(self.look_units) and not self.requests,
        }  # fmt: skip


@dataclass(slots=True)
class SpendingCurve:
    """Precision spent, what it would have been without reuse, and what looks have cost, after each answer; thinned out
    when it gets long."""

    every: int = 1
    points: list[CurvePoint] = field(default_factory=list)

    def add_point(self, index: int, point: CurvePoint) -> None:
        """Add the point after one more entry."""
        if index % self.every == 0:
            self.points.append(point)
        if len(self.points) > MAX_POINTS:
            self.points, self.every = self.points[::2], self.every * 2


class AccountSpending:
    """The sums for one account. Call `update` before reading them."""

    def __init__(self, account: Account) -> None:
        self.account = account
        self.by_query: dict[bytes, SpendingTotal] = {}
        self.by_analyst: dict[bytes, SpendingTotal] = {}
        self.by_category: dict[int, SpendingTotal] = {}
        self.whole_table, self.part_of_table = SpendingTotal("whole table"), SpendingTotal("part of the table")
        self.all = SpendingTotal("all")
        self.savings = Savings()
        self.case_counts: Counter[str] = Counter()
        self.curve = SpendingCurve()
        self.first_time = 0
        self._units_by_day: Counter[int] = Counter()
        self._entries_read = 0
        self._last_point: CurvePoint | None = None
        self._lock = threading.Lock()

    def update(self) -> AccountSpending:
        """Read the entries that are new."""
        books = self.account.ledger.books
        with self._lock:
            while self._entries_read < (count := books.count_reservations(self.account.id)):
                for entry in books.page_reservations(
                    self.account.id, self._entries_read, min(count, self._entries_read + 2_000)
                ):
                    self._add_entry(entry)
        return self

    def curve_points(self) -> list[CurvePoint]:
        """Return the points of the curve; the newest answer is always the last."""
        points = list(self.curve.points)
        if self._last_point is not None and (not points or points[-1][0] != self._last_point[0]):
            points.append(self._last_point)
        return points

    def estimate_life(self, now: float) -> tuple[float, float, float] | None:
        """Return precision per day lately, over how many days, and days left at it; None if nothing was spent."""
        days = min(float(RECENT_DAYS), (now - self.first_time) / DAY_SECONDS)
        today = int(now // DAY_SECONDS)
        recent = sum(units for day, units in self._units_by_day.items() if day > today - RECENT_DAYS)
        if not self.first_time or not recent or days <= 0:
            return None
        pace = recent / 1e18 / max(days, 1 / 24)
        return pace, days, float(self.account.state.remaining_budget) / pace

    def questions_left(self) -> int | None:
        """Return how many more questions like those so far the balance would pay for."""
        if not self.all.units:
            return None
        return self.account.state.remaining_budget.units * self.all.requests // self.all.units

    def _add_entry(self, entry: Reservation) -> None:
        is_new = entry.query not in self.by_query or entry.analyst not in self.by_analyst
        # The vault is only asked for what is new, which is little, and in cubes, where it alone knows the target.
        request = self.account.vault.find_request(entry.id) if is_new or entry.cube else None
        if entry.query not in self.by_query:
            self.by_query[entry.query] = SpendingTotal(_find_label(request, question=True))
        if entry.analyst not in self.by_analyst:
            self.by_analyst[entry.analyst] = SpendingTotal(_find_label(request, question=False))
        if entry.category not in self.by_category:
            self.by_category[entry.category] = SpendingTotal(describe_category(entry.category))
        half = self.part_of_table if entry.category & PART_OF_TABLE_BIT else self.whole_table
        for row in (
            self.by_query[entry.query],
            self.by_analyst[entry.analyst],
            self.by_category[entry.category],
            half,
            self.all,
        ):
            row.add_entry(entry, request)
        self.savings.add_entry(entry, request)
        if not is_look(request):
            self.case_counts[entry.case.name] += 1
        self.first_time = self.first_time or entry.time
        self._units_by_day[entry.time // DAY_SECONDS] += entry.cost.units
        amounts = (entry.spent_after.units, self.savings.plain_units, self.savings.look_units)
        spent, plain, looks = (units / 1e18 for units in amounts)
        self._last_point = (self._entries_read + 1, entry.time, spent, plain, looks)
        self.curve.add_point(self._entries_read, self._last_point)
        self._entries_read += 1


def _find_label(request: Request | None, question: bool) -> str:
    if request is None:
        return "(not in this vault)"
    return str(request.body.get("sql", "")) if question else request.analyst


class SpendingCache:
    """The sums of every account."""

    def __init__(self) -> None:
        self._by_account: dict[bytes, AccountSpending] = {}
        self._lock = threading.Lock()

    def get_spending(self, account: Account) -> AccountSpending:
        """Return the sums of an account, up to date."""
        with self._lock:
            known = self._by_account.setdefault(account.id, AccountSpending(account))
        known.account = account  # a new version of the table is another object
        return known.update()
