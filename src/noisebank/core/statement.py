"""`Statement` and `HistoryEntry`: an account's balance and entries, the same from an open bank and over HTTP."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from html import escape
from typing import Any

from noisebank.core.records import Case
from noisebank.core.units import Precision
from noisebank.core.wording import budget_share, describe_promise, describe_savings, format_percent

SHOWN_ENTRIES = 10
"""Of a statement that is printed."""


@dataclass(frozen=True, slots=True)
class HistoryEntry:
    """One answer of an analyst."""

    id: str
    """To `recall` it by."""
    time: int
    sql: str
    case: Case
    target: Precision
    cost: Precision
    published: bool

    def to_json(self) -> dict[str, Any]:
        """Returns a JSON object."""
        return {
            "id": self.id,
            "time": self.time,
            "sql": self.sql,
            "case": self.case.name,
            "wanted": self.target.to_decimal(),
            "cost": self.cost.to_decimal(),
            "published": self.published,
        }

    @classmethod
    def from_json(cls, entry: Mapping[str, Any]) -> HistoryEntry:
        """Returns the entry that `to_json` wrote."""
        target, cost = (Precision.parse_decimal(entry[name]) for name in ("wanted", "cost"))
        return cls(entry["id"], entry["time"], entry["sql"], Case[entry["case"]], target, cost, entry["published"])


@dataclass(frozen=True, slots=True)
class StatementEntry:
    """One line of the history."""

    id: str
    time: int
    analyst: str
    sql: str
    case: Case
    cost: Precision
    spent: Precision
    published: bool
    plain: Precision
    """What this answer alone would have cost without reuse; nothing for a look at a cube, which answers nobody."""
    look: bool
    """Whether it is a look at a cube: an investment."""

    def to_json(self) -> dict[str, Any]:
        """Returns a JSON object."""
        return {field.name: _to_json(getattr(self, field.name)) for field in fields(self)}

    @classmethod
    def from_json(cls, entry: Mapping[str, Any]) -> StatementEntry:
        """Returns the entry that `to_json` wrote."""
        amounts = {name: Precision.parse_decimal(entry[name]) for name in ("cost", "spent", "plain")}
        return cls(**{**entry, **amounts, "case": Case[entry["case"]]})


@dataclass(frozen=True, slots=True, repr=False)
class Statement:
    """An account's balance, its promise, and every entry behind them."""

    name: str
    account: str
    budget: Precision
    spent: Precision
    left: Precision
    naive: Precision
    """What the same answers would have cost one by one, without reuse and without cubes."""
    saved: Precision
    """How much less they have cost; looks at cubes apart."""
    looks: Precision
    """What looks at cubes have cost, a part of what is spent: an investment."""
    returned: Precision
    """What answers in these cubes have saved since they were looked at; a part of what is saved."""
    share: float
    """The share of the budget that is spent, from 0 to 1."""
    epsilon: float
    """Of all answers together, at every moment. What is spent so far has no valid epsilon of its own."""
    delta: float
    raised: bool
    """Whether the budget was raised after answers were given: the promise is then an odometer's."""
    lowered: bool
    """Whether it was lowered after answers were given: the promise stays that of the larger budget."""
    measurements: int
    cases: dict[Case, int]
    """Of answers."""
    entries: tuple[StatementEntry, ...]
    changes: tuple[str, ...]

    def describe_lines(self) -> list[tuple[str, str]]:
        """Returns the balance as pairs of a name and what is said about it: shares of the budget first."""
        unchanged = None if self.raised or self.lowered else self.budget
        share, left = (format_percent(budget_share(amount, self.budget)) for amount in (self.spent, self.left))
        cases = ", ".join(f"{case.name} {count}" for case, count in self.cases.items() if count)
        return [
            ("budget", f"{share} is spent, {left} left"),
            ("promise", f"{describe_promise(self.epsilon, self.delta, unchanged)}, for the whole budget"),
            ("saved", describe_savings(self.saved, self.looks, self.returned, self.budget)),
            ("answers", f"{sum(self.cases.values())} ({cases})" if cases else "none yet"),
        ]

    def __repr__(self) -> str:
        facts = [f"{name:<7}  {text}" for name, text in self.describe_lines()]
        newest = [f"  {_spend_text(entry, self.budget):>8}  {entry.case.name:<6}  {entry.sql}" for entry in self.newest]
        return "\n".join([f"statement of {self.name}", *facts, *newest])

    def _repr_html_(self) -> str:
        facts = "".join(f"<div><b>{escape(name)}</b> {escape(text)}</div>" for name, text in self.describe_lines())
        head = "".join(f'<th scope="col">{name}</th>' for name in ("analyst", "question", "case", "of the budget"))
        rows = "".join(
            f"<tr>{''.join(f'<td>{escape(text)}</td>' for text in cells)}</tr>"
            for entry in self.newest
            for cells in [(entry.analyst, entry.sql, entry.case.name, _spend_text(entry, self.budget))]
        )
        return f'{facts}<table class="result"><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>'

    @property
    def newest(self) -> tuple[StatementEntry, ...]:
        """The entries that are shown when it is printed, newest first."""
        return self.entries[: -SHOWN_ENTRIES - 1 : -1]

    def to_json(self) -> dict[str, Any]:
        """Returns a JSON object."""
        return {field.name: _to_json(getattr(self, field.name)) for field in fields(self)}

    @classmethod
    def from_json(cls, statement: Mapping[str, Any]) -> Statement:
        """Returns the statement that `to_json` wrote."""
        amounts = {name: Precision.parse_decimal(statement[name]) for name in STATEMENT_AMOUNTS}
        entries = tuple(StatementEntry.from_json(entry) for entry in statement["entries"])
        cases = {Case[name]: count for name, count in statement["cases"].items()}
        known = {**statement, **amounts, "entries": entries, "cases": cases, "changes": tuple(statement["changes"])}
        return cls(**{field.name: known[field.name] for field in fields(cls)})


def _spend_text(entry: StatementEntry, budget: Precision) -> str:
    return format_percent(budget_share(entry.cost, budget)) if entry.cost else "free"


STATEMENT_AMOUNTS = ("budget", "spent", "left", "naive", "saved", "looks", "returned")


def _to_json(value: Any) -> Any:
    if isinstance(value, Precision):
        return value.to_decimal()
    if isinstance(value, Case):
        return value.name
    if isinstance(value, StatementEntry):
        return value.to_json()
    if isinstance(value, dict):
        return {key.name: count for key, count in value.items()}
    return [_to_json(each) for each in value] if isinstance(value, tuple) else value
