"""What the SDK returns: frozen objects that print well, in a terminal and in a notebook."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from math import nan
from typing import TYPE_CHECKING, Any

from noisebank.client import rendering
from noisebank.core.errors import BadRequest
from noisebank.core.intervals import confidence_interval
from noisebank.core.records import Case
from noisebank.core.units import UNITS_PER_PRECISION, ZERO_PRECISION, Precision

if TYPE_CHECKING:
    import pandas
    import pyarrow

AMOUNTS = frozenset({"budget", "spent", "left", "cost", "wanted", "remaining", "naive", "view_limit", "view_used",
                     "view_left", "first_look", "limit", "used"})  # fmt: skip


def parse_precision(text: str) -> Precision:
    """Parses an exact decimal of the HTTP API.

    >>> parse_precision("1.5"), parse_precision("0.000000000000000001")
    (Precision(units=1500000000000000000), Precision(units=1))
    """
    whole, _, rest = text.partition(".")
    return Precision(int(whole) * UNITS_PER_PRECISION + int(rest.ljust(18, "0") or "0"))


@dataclass(frozen=True, slots=True)
class Group:
    """One group of a grouped answer."""

    keys: tuple[str, ...]
    value: float
    exact: Fraction | None


@dataclass(frozen=True, slots=True, repr=False)
class Answer:
    """A noisy answer of any kind, as a service gave it. `kind` says which fields are set.

    answer: one number. grouped: `groups`, each with the same `stddev`. derived: computed from `parts`. relative: one
    number, and whether it was `reached`. several: one of `parts` for each result of the SELECT.
    """

    kind: str
    sql: str
    cost: Precision
    remaining: Precision
    id: str | None = None
    name: str | None = None
    value: float = nan
    exact: Fraction | None = None
    """The released value as a rational; `value` is its nearest float."""
    stddev: float = nan
    case: Case | None = None
    in_words: str = ""
    by: tuple[str, ...] = ()
    groups: tuple[Group, ...] = ()
    key: str | None = None
    """Of a derived answer: the most frequent key, or the bin of a quantile."""
    reached: bool | None = None
    """Of a relative answer: whether its interval shows that it is as close to the true value as requested."""
    message: str | None = None
    floor: float | None = None
    """Of a relative answer: the smallest true value for which the accuracy was promised."""
    next_cost: Precision | None = None
    """Of a relative answer: what half the floor would cost now."""
    inferred: str | None = None
    parts: tuple[Answer, ...] = ()
    receipts: tuple[dict[str, Any], ...] = ()
    bounds: tuple[float, float] | None = None
    """The interval that the service sent, at `confidence`."""
    confidence: float = 0.95
    raw: dict[str, Any] = field(default_factory=dict, compare=False)
    """The whole JSON object, as the service sent it."""

    @classmethod
    def read(cls, raw: dict[str, Any]) -> Answer:
        """Reads the service's JSON object."""
        value, stddev, bounds, exact = (raw.get(name) for name in ("value", "stddev", "interval", "exact"))
        return cls(
            kind=raw["kind"],
            sql=raw["sql"],
            cost=parse_precision(raw["cost"]),
            remaining=parse_precision(raw["remaining"]),
            id=raw.get("id"),
            name=raw.get("name"),
            value=nan if value is None else value,
            exact=None if exact is None else Fraction(exact),
            stddev=nan if stddev is None else stddev,
            case=Case[raw["case"]] if raw.get("case") else None,
            in_words=raw.get("in_words") or "",
            by=tuple(raw.get("by", ())),
            groups=tuple(
                Group(tuple(group["keys"]), group["value"], Fraction(group["exact"]) if group.get("exact") else None)
                for group in raw.get("groups", ())
            ),
            key=raw.get("key"),
            reached=raw.get("reached"),
            message=raw.get("message"),
            floor=raw.get("floor"),
            next_cost=None if raw.get("next_cost") is None else parse_precision(raw["next_cost"]),
            inferred=raw.get("inferred"),
            parts=tuple(cls.read(part) for part in raw.get("parts", ())),
            receipts=tuple(raw.get("receipts", ())),
            bounds=None if bounds is None else (bounds[0], bounds[1]),
            confidence=raw.get("confidence") or 0.95,
            raw=raw,
        )

    @property
    def receipt(self) -> dict[str, Any]:
        """Proof that it is on the ledger, for `noisebank.verify(..., receipts=[...])`; of the last part if several."""
        receipts = self.receipts or tuple(receipt for part in self.parts for receipt in part.receipts)
        if not receipts:
            raise BadRequest("receipt", self.kind, "this answer has none")
        return receipts[-1]

    def interval(self, confidence: float = 0.95) -> tuple[float, float]:
        """Returns the interval that holds the true value with this confidence; derived answers have one at 95% only."""
        if self.kind in ("answer", "relative"):
            return confidence_interval(self.value, self.stddev, confidence)
        if self.bounds is None or confidence != self.confidence:
            raise BadRequest(
                "confidence", confidence, f"a {self.kind} answer has an interval at {self.confidence} only"
            )
        return self.bounds

    def to_pandas(self) -> pandas.DataFrame:
        """Returns one row per group, with the keys as columns; or one row per result."""
        pd = rendering.import_optional("pandas")
        frame: pandas.DataFrame = pd.DataFrame(self._table_columns())
        return frame

    def to_arrow(self) -> pyarrow.Table:
        """Returns the same as an Arrow table."""
        pa = rendering.import_optional("pyarrow")
        table: pyarrow.Table = pa.table(self._table_columns())
        return table

    def _table_columns(self) -> dict[str, list[Any]]:
        if self.groups:
            keys = {name: [group.keys[index] for group in self.groups] for index, name in enumerate(self.by)}
            values = [group.value for group in self.groups]
            return {**keys, "value": values, "stddev": [self.stddev] * len(values)}
        rows = self.parts if self.kind == "several" else (self,)
        return {
            "name": [row.name or row.sql for row in rows],
            "value": [row.value for row in rows],
            "stddev": [row.stddev for row in rows],
            "case": [row.case.name if row.case else "" for row in rows],
        }

    def __float__(self) -> float:
        return self.value

    def __repr__(self) -> str:
        return rendering.answer_text(self)

    def _repr_html_(self) -> str:
        return rendering.answer_html(self)


@dataclass(frozen=True, slots=True, repr=False)
class Facts:
    """Any other JSON object of a service, with its fields as attributes and amounts as `Precision`."""

    what: str
    raw: dict[str, Any]

    def __getattr__(self, name: str) -> Any:
        try:
            value = self.raw[name]
        except KeyError:
            raise AttributeError(f"{self.what} has no {name}; it has {', '.join(self.raw)}") from None
        return _parse_fact(name, value)

    def __dir__(self) -> list[str]:
        return [*object.__dir__(self), *self.raw]

    def __repr__(self) -> str:
        return rendering.facts_text(self.what, {name: _parse_fact(name, value) for name, value in self.raw.items()})

    def _repr_html_(self) -> str:
        return rendering.facts_html(self.what, {name: _parse_fact(name, value) for name, value in self.raw.items()})


@dataclass(frozen=True, slots=True, repr=False)
class Quote:
    """The price of an answer. Costs nothing and depends on no data."""

    sql: str
    case: Case
    cost: Precision
    target: Precision
    left: Precision
    stddev: float
    share_now: float
    share_after: float
    affordable: bool
    how_many: int
    first_look: Precision = ZERO_PRECISION
    view_left: Precision | None = None
    in_words: str = ""
    parts: tuple[Quote, ...] = ()
    floor: float | None = None
    """Of a relative request: the smallest true value for which its promise holds."""
    raw: dict[str, Any] = field(default_factory=dict, compare=False)

    @classmethod
    def read(cls, raw: dict[str, Any]) -> Quote:
        """Reads the service's JSON object."""
        view_left = raw.get("view_left")
        return cls(
            sql=raw["sql"],
            case=Case[raw["case"]],
            cost=parse_precision(raw["cost"]),
            target=parse_precision(raw["wanted"]),
            left=parse_precision(raw["left"]),
            stddev=nan if raw["stddev"] is None else raw["stddev"],
            share_now=raw["share_now"],
            share_after=raw["share_after"],
            affordable=raw["affordable"],
            how_many=raw["how_many"],
            first_look=parse_precision(raw["first_look"]) if "first_look" in raw else ZERO_PRECISION,
            view_left=None if view_left is None else parse_precision(view_left),
            in_words=raw.get("in_words", ""),
            parts=tuple(cls.read(part) for part in raw["parts"]),
            floor=raw.get("floor"),
            raw=raw,
        )

    def interval_half_width(self, confidence: float = 0.95) -> float:
        """Returns how far the answer may be off at this confidence, in the answer's unit."""
        return confidence_interval(0.0, self.stddev, confidence)[1]

    def __repr__(self) -> str:
        return rendering.quote_text(self)

    def _repr_html_(self) -> str:
        return rendering.quote_html(self)


def _parse_fact(name: str, value: Any) -> Any:
    if name in AMOUNTS and isinstance(value, str):
        return parse_precision(value)
    if name == "case" and isinstance(value, str):
        return Case[value]
    if isinstance(value, list):
        return tuple(Facts(name, item) if isinstance(item, dict) else item for item in value)
    return value
