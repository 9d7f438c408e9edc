"""Design rows: records as numbers in [-1, 1], by public bounds only. Nothing here is estimated from the data.

A number is scaled by its declared range and clipped. A category of k values becomes k - 1 numbers: 1 at its own value,
-1 at the others; the last value is -1 everywhere. The row ends with 1, the intercept.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from noisebank.core.errors import BadRequest
from noisebank.federated.ldp import Category, Number, Schema

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Design:
    """The attributes of a record, and which of them (`target`) is to be predicted from the others."""

    schema: Schema
    target: str

    def __post_init__(self) -> None:
        names = [attribute.name for attribute in self.schema.attributes]  # different: the schema checks that
        if self.target not in names:
            raise BadRequest("target", self.target, f"is no attribute; there are {', '.join(names)}")
        if len(names) < 2:
            raise BadRequest("schema", f"only {self.target}", "needs something to predict it from")

    @property
    def target_attribute(self) -> Number | Category:
        """The attribute to be predicted."""
        return next(attribute for attribute in self.schema.attributes if attribute.name == self.target)

    @property
    def input_attributes(self) -> tuple[Number | Category, ...]:
        """All other attributes, in order."""
        return tuple(attribute for attribute in self.schema.attributes if attribute.name != self.target)

    @property
    def column_names(self) -> tuple[str, ...]:
        """What each number of a row stands for; the last one is the intercept."""
        names: list[str] = []
        for attribute in self.input_attributes:
            if isinstance(attribute, Number):
                names.append(attribute.name)
            else:
                names.extend(f"{attribute.name} = {value}" for value in attribute.values[:-1])
        return (*names, "1")

    @property
    def dimension(self) -> int:
        """How many numbers a row, and a gradient, has."""
        return len(self.column_names)

    def build_row(self, record: Mapping[str, object]) -> tuple[Floats, float]:
        """Returns one record as numbers, and its target. Never fails.

        What is missing or not listed counts as the mean over all listed values: 0 for a number (the middle of its
        range), 2/k - 1 for each number of a category of k values, 0 for a target of two classes: no gradient then.
        """
        names = (attribute.name for attribute in self.schema.attributes)
        values = dict(zip(names, self.schema.encode_record(record), strict=True))
        row: list[float] = []
        for attribute in self.input_attributes:
            value = values[attribute.name]
            if isinstance(attribute, Number):
                row.append(float(value or 0.0))
            else:  # in the same time whatever the value is
                count = len(attribute.values)
                block = [2.0 / count - 1.0 if value is None else -1.0] * count
                if value is not None:
                    block[int(value)] = 1.0
                row.extend(block[:-1])
        target = values[self.target]
        return np.array([*row, 1.0]), 0.0 if target is None else self._encode_target(float(target))

    def build_rows(self, table: Mapping[str, Sequence[object]]) -> tuple[Floats, Floats]:
        """Returns a whole table, given by columns: one row per record, and the targets. For simulations only."""
        missing = [attribute.name for attribute in self.schema.attributes if attribute.name not in table]
        if missing:
            raise BadRequest("table", f"without {', '.join(missing)}", "must have every attribute of the schema")
        blocks = [_encode_column(attribute, table[attribute.name]) for attribute in self.input_attributes]
        ones = np.ones((len(table[self.target]), 1))
        return np.concatenate([*blocks, ones], axis=1), self._encode_targets(table[self.target])

    def _encode_targets(self, values: Sequence[object]) -> Floats:
        if isinstance(self.target_attribute, Number):
            return _scale_column(self.target_attribute, values)
        return np.array([self._encode_target(float(index)) for index in _index_column(self.target_attribute, values)])

    def _encode_target(self, value: float) -> float:
        """Returns a number as it is; of two categories the first is -1, the second 1."""
        return value if isinstance(self.target_attribute, Number) else 2.0 * value - 1.0


def _encode_column(part: Number | Category, values: Sequence[object]) -> Floats:
    """Returns the columns of a row that stand for one attribute."""
    if isinstance(part, Number):
        return _scale_column(part, values)[:, None]
    return np.where(_index_column(part, values)[:, None] == np.arange(len(part.values) - 1), 1.0, -1.0)


def _scale_column(part: Number, values: Sequence[object]) -> Floats:
    """As `Number.scale_value`, for a column."""
    try:
        array = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise BadRequest(part.name, "a value of the table", "must be a number") from None
    if np.isnan(array).any():
        raise BadRequest(part.name, "a missing value", "must be a number, and not NaN")
    return np.asarray(2.0 * ((np.clip(array, part.low, part.high) - part.low) / (part.high - part.low)) - 1.0)


def _index_column(part: Category, values: Sequence[object]) -> NDArray[np.int64]:
    indices = {value: index for index, value in enumerate(part.values)}
    try:
        return np.array([indices[str(value)] for value in values], dtype=np.int64)
    except KeyError:
        raise BadRequest(part.name, "a value of the table", f"must be one of {', '.join(part.values)}") from None
