"""`Statement` and `HistoryEntry`: an account's balance and entries, the same from an open bank and over HTTP."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from noisebank.core.records import Case
from noisebank.core.units import Precision


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


@dataclass(frozen=True, slots=True)
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
