"""`Result`: what `ask` returns, always. A small table with intervals, and the charge beside it.

One row for a plain question, one per group for GROUP BY; for every item of the SELECT an `Estimate`. Bank and client
return the same class. How it prints is in `rendering`, how it is drawn in `plots`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from importlib import import_module
from typing import TYPE_CHECKING, Any

from noisebank.core import plots, rendering
from noisebank.core.charges import Charge, ChargedQuestion
from noisebank.core.errors import BadRequest
from noisebank.core.estimates import CONFIDENCE, Estimate, Row, Verdict, require_number
from noisebank.core.intervals import confidence_interval
from noisebank.core.receipts import Receipt
from noisebank.core.records import Case
from noisebank.core.units import Precision

if TYPE_CHECKING:
    import pandas
    import pyarrow
    from matplotlib.figure import Figure

NUMBER_FIELDS = ("low", "high", "stddev")
"""What a table has beside each value: in columns called like the value's with these endings."""


@dataclass(frozen=True, slots=True, repr=False)
class Result:
    """A table of noisy numbers with their intervals, what it cost, and the receipts that prove it.

    `value`, `low`, `high`, `stddev` and `interval()` are for a result of one row and one item; iterate over the rows
    otherwise. `to_pandas` and `to_arrow` have the columns in the order of the SELECT, under the names written there.
    """

    sql: str
    columns: tuple[str, ...]
    """The names of keys and items, in the order of the SELECT; keys that it does not name come first."""
    by: tuple[str, ...]
    """The names of the keys."""
    items: tuple[str, ...]
    """The names of the numbers."""
    rows: tuple[Row, ...]
    charge: Charge
    parts: tuple[ChargedQuestion, ...]
    """The questions that it was computed from, each on the ledger by itself."""
    confidence: float = CONFIDENCE
    """Of the interval of each estimate by itself."""
    notes: tuple[str, ...] = ()
    """What a reader must know besides, in sentences."""

    # -- a result of one row and one item --------------------------------------------------------

    @property
    def estimate(self) -> Estimate:
        """The one estimate of a result of one row and one item."""
        if len(self.rows) != 1 or len(self.items) != 1:
            size = f"{len(self.rows)} rows of {', '.join(self.items)}"
            raise BadRequest("value", size, "a single number needs one row and one item: iterate over the rows")
        return self.rows[0].estimates[0]

    @property
    def value(self) -> float:
        """The best estimate, as a float."""
        return require_number(self.estimate.value, self.items[0])

    @property
    def exact(self) -> Fraction:
        """The released value as a rational; computed results have none."""
        if self.estimate.exact is None:
            raise BadRequest("exact", self.items[0], "is computed from several answers: their receipts have theirs")
        return self.estimate.exact

    @property
    def low(self) -> float:
        """The lower end of the interval."""
        return require_number(self.estimate.low, f"low of {self.items[0]}")

    @property
    def high(self) -> float:
        """The upper end of the interval."""
        return require_number(self.estimate.high, f"high of {self.items[0]}")

    @property
    def stddev(self) -> float:
        """The noise's standard deviation; computed results have an interval instead."""
        return require_number(self.estimate.stddev, f"standard deviation of {self.items[0]}")

    @property
    def verdict(self) -> Verdict | None:
        """Of a relative request: whether the answer is seen to be as close as requested."""
        return self.estimate.verdict

    def interval(self, confidence: float | None = None) -> tuple[float, float]:
        """Returns the interval that holds the true value; for Gaussian noise, at any confidence."""
        if confidence is None or confidence == self.confidence:
            return self.low, self.high
        stddev = self.estimate.stddev
        if stddev is None:
            raise BadRequest(
                "confidence",
                confidence,
                f"this interval is known at {self.confidence:g} only: ask with this confidence",
            )
        return confidence_interval(self.value, stddev, confidence)

    def __getitem__(self, name: str) -> Estimate:
        """Returns the estimate of an item, of a result of one row."""
        if len(self.rows) != 1:
            raise BadRequest("item", name, f"stands in {len(self.rows)} rows: iterate over them")
        return self.rows[0][name]

    def __float__(self) -> float:
        return self.value

    # -- the charge ------------------------------------------------------------------------------

    @property
    def case(self) -> Case:
        """The most expensive case among its questions."""
        return self.charge.case

    @property
    def cost(self) -> Precision:
        """The cost of all its questions together."""
        return self.charge.cost

    @property
    def remaining(self) -> Precision:
        """What was left in the account afterwards."""
        return self.charge.remaining

    @property
    def receipts(self) -> tuple[Receipt, ...]:
        """Proofs that its questions are on the ledger, one each: for `noisebank.verify(..., receipts=...)`."""
        return tuple(part.receipt for part in self.parts)

    @property
    def receipt(self) -> Receipt:
        """The receipt of a result of one question."""
        if len(self.parts) != 1:
            raise BadRequest("receipt", f"{len(self.parts)} questions", "each has its own: see receipts")
        return self.parts[0].receipt

    # -- as a table ------------------------------------------------------------------------------

    def __iter__(self) -> Iterator[Row]:
        return iter(self.rows)

    def to_pandas(self) -> pandas.DataFrame:
        """Returns one row per group: key columns, and for each item its value, name_low, name_high and name_stddev."""
        pd = _import_optional("pandas")
        text = self._text_columns()
        series = {
            name: pd.array(values, dtype="Float64") if None in values and name not in text else values
            for name, values in self._table_columns().items()
        }  # a nullable column has no NaN where nothing can be said
        frame: pandas.DataFrame = pd.DataFrame(series)
        return frame

    def to_arrow(self) -> pyarrow.Table:
        """Returns the same as an Arrow table."""
        pa = _import_optional("pyarrow")
        text = self._text_columns()
        table: pyarrow.Table = pa.table(
            {
                name: pa.array(values, pa.string() if name in text else pa.float64())
                for name, values in self._table_columns().items()
            }
        )
        return table

    def to_csv(self) -> str:
        """Returns the same as CSV text, with all digits; empty where nothing can be said."""
        return rendering.write_csv(self._table_columns())

    def _text_columns(self) -> set[str]:
        return {*self.by, *(f"{name}_label" for name in self.items)}

    def _table_columns(self) -> dict[str, list[Any]]:
        columns: list[tuple[str, list[Any]]] = []
        for name in self.columns:
            if name in self.by:
                columns.append((name, [row.keys[self.by.index(name)] for row in self.rows]))
                continue
            cells = [row[name] for row in self.rows]
            columns.append((name, [cell.value for cell in cells]))
            columns += [(f"{name}_{field}", [getattr(cell, field) for cell in cells]) for field in NUMBER_FIELDS]
            if any(cell.label is not None for cell in cells):
                columns.append((f"{name}_label", [cell.label for cell in cells]))
        table = dict(columns)
        if len(table) < len(columns):
            raise BadRequest("column", ", ".join(self.columns), "has a name twice in the table: choose others with AS")
        return table

    def plot(self) -> Figure:
        """Draws bars with intervals for groups, a bell for one number with Gaussian noise, else its interval."""
        return plots.plot_result(self)

    def __repr__(self) -> str:
        return rendering.result_text(self, rendering.MAX_ROWS)

    def _repr_html_(self) -> str:
        return rendering.result_html(self)

    # -- over the wire ---------------------------------------------------------------------------

    def to_json(self) -> dict[str, object]:
        """Returns a JSON object: rows are objects by column name, a key is text and a number an estimate's object."""
        return {**self.table_to_json(), "charge": self.charge.to_json()}

    def table_to_json(self) -> dict[str, object]:
        """Returns `to_json` without the charge: what stays the same when the answer is given again."""
        rows = []
        for row in self.rows:
            cells: dict[str, object] = {**dict(zip(self.by, row.keys, strict=True))}
            cells |= {name: cell.to_json() for name, cell in zip(row.items, row.estimates, strict=True)}
            rows.append({name: cells[name] for name in self.columns})
        return {
            "sql": self.sql,
            "columns": list(self.columns),
            "by": list(self.by),
            "rows": rows,
            "confidence": self.confidence,
            "notes": list(self.notes),
            "parts": [part.to_json() for part in self.parts],
        }

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> Result:
        """Returns the result that `to_json` wrote."""
        columns, by = tuple(fields["columns"]), tuple(fields["by"])
        items = tuple(name for name in columns if name not in by)
        rows = tuple(
            Row(tuple(row[name] for name in by), tuple(Estimate.from_json(row[name]) for name in items), items)
            for row in fields["rows"]
        )
        parts = tuple(ChargedQuestion.from_json(part) for part in fields["parts"])
        charge = Charge.from_json(fields["charge"])
        return cls(fields["sql"], columns, by, items, rows, charge, parts, fields["confidence"], tuple(fields["notes"]))


def _import_optional(name: str) -> Any:
    """Imports a module of the extra [client]; says how to install it if it is missing."""
    try:
        return import_module(name)
    except ImportError:
        raise BadRequest("output", name, "is not installed: pip install 'noisebank[client]'") from None
