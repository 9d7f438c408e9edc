"""`Policy`: the public facts about a table, from which alone prices and sensitivities follow; and its `Column`s.

Policy files are read by `policy.file`; this module defines what a valid policy is, and its JSON form.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from fractions import Fraction
from pathlib import Path
from types import MappingProxyType
from typing import Any

from noisebank.core.digests import digest_tagged
from noisebank.core.errors import BadRequest
from noisebank.policy.expectations import Expectation, Workload, expectation_to_json, parse_expectation

MAX_ROWS = 2**40
MAX_CELLS = 2**20
"""Of a cube: the most that the contract can charge by cells."""
MAX_STEPS = 2**31
"""Between zero and a bound, and between bounds. Noise that 64 bits cannot hold even so is refused before anything
is charged."""


class EngineKind(Enum):
    """The engine that reads a table."""

    DUCKDB = "duckdb"
    POSTGRESQL = "postgresql"
    SPARK = "spark"


@dataclass(frozen=True, slots=True)
class Table:
    """A table that is not just a file for DuckDB: in a DuckDB database, in PostgreSQL, for Spark, or a CSV file without
    a header.

    `name_parts` is its name, catalogue and schema first; empty where `path` is the table. `address` is
    that of a server, never with a password; empty where the environment gives it. `column_names` are
    those of a CSV file without a header: its first line is a row like any other.
    """

    engine: EngineKind
    name_parts: tuple[str, ...] = ()
    path: Path | None = None
    address: str = ""
    column_names: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The last part of its name, or the name of its file."""
        return self.name_parts[-1] if self.name_parts else self.path.name if self.path else ""

    def __str__(self) -> str:
        if not self.name_parts and self.engine is EngineKind.DUCKDB:
            return str(self.path)
        where = {EngineKind.DUCKDB: str(self.path), EngineKind.POSTGRESQL: "PostgreSQL", EngineKind.SPARK: "Spark"}[
            self.engine
        ]
        return f"{'.'.join(self.name_parts) or self.path} in {where}"

    def to_json(self) -> dict[str, Any]:
        """Returns the table as JSON, for the vault."""
        return {
            "keeper": self.engine.value,
            "parts": list(self.name_parts),
            "path": None if self.path is None else str(self.path),
            "address": self.address,
            **({"column_names": list(self.column_names)} if self.column_names else {}),
        }


Source = Path | Table
"""Where a table is; never public. A plain path is a Parquet file, or a CSV file with a header, that DuckDB reads."""


def source_to_json(source: Source) -> str | dict[str, Any]:
    """Returns a source as JSON, for the vault."""
    return source.to_json() if isinstance(source, Table) else str(source)


def source_from_json(data: str | Mapping[str, Any]) -> Source:
    """Returns the source that `source_to_json` wrote."""
    if isinstance(data, str):
        return Path(data)
    path = data["path"]
    parts = tuple(data["parts"])
    names = tuple(data.get("column_names", ()))
    return Table(EngineKind(data["keeper"]), parts, None if path is None else Path(path), data["address"], names)


class Neighbours(Enum):
    """Which two tables count as neighbours: what exactly one person can change."""

    REPLACE_ONE = "replace-one"
    ADD_REMOVE = "add-remove"


class Kind(Enum):
    """What a column holds."""

    INTEGER = "integer"
    NUMBER = "number"
    TEXT = "text"
    BOOLEAN = "boolean"
    DATE = "date"
    TIMESTAMP = "timestamp"


@dataclass(frozen=True, slots=True)
class Column:
    """One declared column.

    A numeric value is *defined* as its nearest step inside the bounds, everywhere: in sums and in
    predicates. `low` and `high` are the bounds in steps. Without bounds a column cannot be used
    as a number. `keys` are the declared values of a text column, or of an integer column that holds codes;
    any other value is "none of them". Where a column is `complete`, a row with any other value counts nowhere.
    """

    name: str
    kind: Kind
    step: Fraction = Fraction(1)
    low: int | None = None
    high: int | None = None
    keys: tuple[str | int, ...] = ()
    """In rising order."""
    bins: tuple[int, ...] = ()
    nullable: bool = False
    complete: bool = False
    """Whether its keys are all that there is."""
    zone: str = ""
    """Of a timestamp: the time zone whose clock it shows."""

    @property
    def is_date(self) -> bool:
        """Whether it holds dates, in days since 1970, or timestamps, in steps of the clock since 1970."""
        return self.kind in (Kind.DATE, Kind.TIMESTAMP)

    @property
    def step_days(self) -> Fraction:
        """Of a date or timestamp: how many days a step is."""
        return Fraction(1) if self.kind is Kind.DATE else self.step / 86_400

    @property
    def is_numeric(self) -> bool:
        """Whether it holds numbers to add up. Codes are no numbers."""
        return self.kind in (Kind.INTEGER, Kind.NUMBER) and not self.keys

    @property
    def is_keyed(self) -> bool:
        """Whether its values count as the position of a key: texts, and integers that are codes."""
        return self.kind is Kind.TEXT or bool(self.keys)

    @property
    def key_names(self) -> tuple[str, ...]:
        """The keys as texts, as groups are labelled by them."""
        return tuple(map(str, self.keys))

    @property
    def bounds(self) -> tuple[int, int]:
        """The bounds in steps; only for columns that have them."""
        if self.low is None or self.high is None:
            raise ValueError(f"column {self.name} has no bounds")
        return self.low, self.high

    @property
    def piece_count(self) -> int:
        """Number of pieces into which its keys, bins or truth values cut its domain; 0 if it has none."""
        if self.kind is Kind.BOOLEAN:
            groups = 2
        elif self.is_keyed:
            groups = len(self.keys) + (0 if self.complete else 1) if self.keys else 0  # "none of the keys" is one
        else:
            groups = len(self.bins) + 1 if self.bins else 0
        return groups + (1 if groups and self.nullable else 0)

    def to_json(self) -> dict[str, Any]:
        """Returns the column as JSON of texts and integers, for digests and pages."""
        facts: dict[str, Any] = {"kind": self.kind.value, "nullable": self.nullable}
        if self.kind in (Kind.INTEGER, Kind.NUMBER):
            facts["step"] = str(self.step)
        if self.low is not None and self.high is not None:
            facts["bounds"] = [self.low, self.high]
        if self.keys:
            facts["keys"] = list(self.keys)
        if self.bins:
            facts["bins"] = list(self.bins)
        if self.kind is Kind.TIMESTAMP:
            facts |= {"step": str(self.step), "zone": self.zone}
        if self.complete:  # policies without it keep their digests
            facts["complete"] = True
        return facts


@dataclass(frozen=True, slots=True)
class Policy:
    """All public facts about one table."""

    name: str
    source: Source
    neighbours: Neighbours
    row_cap: int
    """The most rows that the table may have; where one row replaces another, its exact number: see `public_rows`."""
    columns: Mapping[str, Column]
    epsilon: Fraction
    delta: Fraction
    unit: str = "row"
    max_rows: int = 1
    raise_delay: int = 86_400
    queries: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    cubes: tuple[tuple[str, ...], ...] = ()
    """Sets of columns with keys, bins or truth values, whose cells are tabulated at opening."""
    first_look: Fraction = Fraction(1, 4)
    """Of policies that an earlier release has opened: what a look might cost, 0 for none. No file says it any more."""
    first_look_at: str = "profit"
    """Of the same policies: kept for their digest."""
    hide_questions: bool = False
    """Whether the public page hides what was asked."""
    expect: tuple[Expectation, ...] = ()
    """What analysts will probably ask; kinds of questions first."""

    @property
    def has_fixed_rows(self) -> bool:
        """Whether the table has exactly `row_cap` rows: neighbours share their number where one replaces another."""
        return self.neighbours is Neighbours.REPLACE_ONE and self.unit == "row"

    @property
    def complete_columns(self) -> tuple[str, ...]:
        """The columns in which a row with a value that is none of the keys counts nowhere."""
        return tuple(name for name, column in self.columns.items() if column.complete)

    @property
    def public_rows(self) -> int | None:
        """The public number of rows that count, if it is public: see `has_fixed_rows`. How many rows count nowhere
        because of a complete column is not public."""
        return self.row_cap if self.has_fixed_rows and not self.complete_columns else None

    @property
    def expected_sql(self) -> tuple[str, ...]:
        """The example questions among what is expected, as SQL."""
        return tuple(self.resolve_sql(item) for item in self.expect if not isinstance(item, Workload))

    def resolve_sql(self, sql: str) -> str:
        """Returns the SQL behind the name of one of the policy's queries, or the SQL itself."""
        if not isinstance(sql, str):
            raise BadRequest("sql", type(sql).__name__, "must be text")
        return self.queries.get(sql.strip(), sql)

    def to_json(self) -> dict[str, Any]:
        """Returns all public facts, without the source, as JSON of texts and integers."""
        return {
            "name": self.name,
            "neighbours": self.neighbours.value,
            "row_cap": self.row_cap,
            "unit": self.unit,
            "max_rows": self.max_rows,
            "epsilon": str(self.epsilon),
            "delta": str(self.delta),
            "raise_delay": self.raise_delay,
            "columns": {name: column.to_json() for name, column in self.columns.items()},
            "queries": dict(self.queries),
            **self._cubes_json(),
            # Only where they are set: other policies keep their digests.
            **({"hide_questions": True} if self.hide_questions else {}),
            **({"expect": [expectation_to_json(item) for item in self.expect]} if self.expect else {}),
        }

    def _cubes_json(self) -> dict[str, Any]:
        if not self.cubes:
            return {}
        facts = {"cubes": [list(names) for names in self.cubes], "first_look": str(self.first_look)}
        if self.first_look_at != "profit":  # policies without it keep their digests
            facts["first_look_at"] = self.first_look_at
        return facts

    @property
    def digest(self) -> bytes:
        """What the ledger records. The policy is public, so no salt."""
        return digest_tagged("policy 1", self.to_json())


def policy_from_json(facts: Mapping[str, Any], source: Source) -> Policy:
    """Returns the policy that `Policy.to_json` wrote; used by the vault and by verifiers."""
    columns = {name: _column_from_json(name, column) for name, column in facts["columns"].items()}
    return Policy(
        name=facts["name"],
        source=source,
        neighbours=Neighbours(facts["neighbours"]),
        row_cap=facts["row_cap"],
        columns=MappingProxyType(columns),
        epsilon=Fraction(facts["epsilon"]),
        delta=Fraction(facts["delta"]),
        unit=facts["unit"],
        max_rows=facts["max_rows"],
        raise_delay=facts["raise_delay"],
        queries=MappingProxyType(dict(facts["queries"])),
        cubes=tuple(tuple(names) for names in facts.get("cubes", ())),
        first_look=Fraction(facts.get("first_look", "1/4")),
        first_look_at=facts.get("first_look_at", "profit"),
        hide_questions=facts.get("hide_questions", False),
        expect=tuple(parse_expectation(text) for text in facts.get("expect", ())),
    )


def _column_from_json(name: str, facts: Mapping[str, Any]) -> Column:
    low, high = facts.get("bounds", (None, None))
    return Column(
        name=name,
        kind=Kind(facts["kind"]),
        step=Fraction(facts.get("step", "1")),
        low=low,
        high=high,
        keys=tuple(facts.get("keys", ())),
        bins=tuple(facts.get("bins", ())),
        nullable=facts["nullable"],
        complete=facts.get("complete", False),
        zone=facts.get("zone", ""),
    )
