"""Sums of what an account has spent, by question, analyst and category, and over time; for the statement page.

Kept in memory: only entries that are new are read.
"""

from __future__ import annotations

import threading
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from noisebank.account.account import Account
from noisebank.core.units import Precision
from noisebank.ledger.protocol import Reservation
from noisebank.queries.query import PART_OF_TABLE, about_in_words

MOST_POINTS = 1_200
DAY = 86_400
LOOK_BACK = 30
"""The pace of this many days is taken for the future."""


@dataclass(slots=True)
class Row:
    """The sums for one question, one analyst or one category."""

    name: str
    asked: int = 0
    paid: int = 0
    """How many of the requests measured the data."""
    units: int = 0
    naive: int = 0
    last: int = 0

    def add(self, found: Reservation) -> None:
        """Add one entry of the ledger."""
        self.asked += 1
        self.paid += bool(found.fresh)
        self.units += found.cost.units
        self.naive += found.wanted.units
        self.last = max(self.last, found.time)

    @property
    def cost(self) -> Precision:
        """What was paid, as precision."""
        return Precision(self.units)

    @property
    def saved(self) -> float:
        """The share that reuse has saved, 0 to 1."""
        return max(0.0, 1 - self.units / self.naive) if self.naive else 0.0

    def to_facts(self) -> dict[str, Any]:
        """Return the sums as templates show them."""
        return {
            "name": self.name, "asked": self.asked, "paid": self.paid, "cost": self.cost,
            "saved": self.saved, "last": self.last,
        }  # fmt: skip


@dataclass(slots=True)
class Curve:
    """Precision spent, and what it would have been without reuse, after each answer; thinned out when it gets long."""

    every: int = 1
    points: list[tuple[int, int, float, float]] = field(default_factory=list)
    """Number of answers, time, spent, spent without reuse."""

    def add(self, place: int, time: int, spent: int, naive: int) -> None:
        """Add the point after one more answer; `spent` and `naive` are ledger units."""
        if place % self.every == 0:
            self.points.append((place + 1, time, spent / 1e18, naive / 1e18))
        if len(self.points) > MOST_POINTS:
            self.points, self.every = self.points[::2], self.every * 2


class Spending:
    """The sums for one account. Call `update` before reading them."""

    def __init__(self, account: Account) -> None:
        self.account = account
        self.queries: dict[bytes, Row] = {}
        self.analysts: dict[bytes, Row] = {}
        self.kinds: dict[int, Row] = {}
        self.whole, self.part = Row("whole table"), Row("part of the table")
        self.all = Row("all")
        self.cases: Counter[str] = Counter()
        self.curve = Curve()
        self.first_time = 0
        self._days: Counter[int] = Counter()
        self._read = 0
        self._last: tuple[int, int, float, float] | None = None
        self._turn = threading.Lock()

    def update(self) -> Spending:
        """Read the entries that are new."""
        books = self.account.ledger.books
        with self._turn:
            while self._read < (count := books.count(self.account.id)):
                for entry in books.page(self.account.id, self._read, min(count, self._read + 2_000)):
                    self._add(entry)
        return self

    def points(self) -> list[tuple[int, int, float, float]]:
        """Return the points of the curve; the newest answer is always the last."""
        points = list(self.curve.points)
        if self._last is not None and (not points or points[-1][0] != self._last[0]):
            points.append(self._last)
        return points

    def life(self, now: float) -> tuple[float, float, float] | None:
        """Return precision per day lately, over how many days, and days left at it; None if nothing was spent."""
        days = min(float(LOOK_BACK), (now - self.first_time) / DAY)
        today = int(now // DAY)
        recent = sum(units for day, units in self._days.items() if day > today - LOOK_BACK)
        if not self.first_time or not recent or days <= 0:
            return None
        pace = recent / 1e18 / max(days, 1 / 24)
        return pace, days, float(self.account.state.left) / pace

    def questions_left(self) -> int | None:
        """Return how many more questions like those so far the balance would pay for."""
        if not self.all.units:
            return None
        return self.account.state.left.units * self.all.asked // self.all.units

    def _add(self, found: Reservation) -> None:
        if found.query not in self.queries:  # the vault is only asked for new questions, which are few
            self.queries[found.query] = Row(self._named(found, question=True))
        if found.analyst not in self.analysts:
            self.analysts[found.analyst] = Row(self._named(found, question=False))
        if found.about not in self.kinds:
            self.kinds[found.about] = Row(about_in_words(found.about))
        half = self.part if found.about & PART_OF_TABLE else self.whole
        for row in (self.queries[found.query], self.analysts[found.analyst], self.kinds[found.about], half, self.all):
            row.add(found)
        self.cases[found.case.name] += 1
        self.first_time = self.first_time or found.time
        self._days[found.time // DAY] += found.cost.units
        self._last = (self._read + 1, found.time, found.spent.units / 1e18, self.all.naive / 1e18)
        self.curve.add(self._read, found.time, found.spent.units, self.all.naive)
        self._read += 1

    def _named(self, found: Reservation, question: bool) -> str:
        request = self.account.vault.request(found.id)
        if request is None:
            return "(not in this vault)"
        return str(request.body.get("sql", "")) if question else request.analyst


class Spendings:
    """The sums of every account."""

    def __init__(self) -> None:
        self._known: dict[bytes, Spending] = {}
        self._access = threading.Lock()

    def of(self, account: Account) -> Spending:
        """Return the sums of an account, up to date."""
        with self._access:
            known = self._known.setdefault(account.id, Spending(account))
        known.account = account  # a new version of the table is another object
        return known.update()
