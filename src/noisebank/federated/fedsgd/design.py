"""Records as rows of numbers in [-1, 1], by public bounds only: nothing of this is taken from the data.

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
    """The attributes of a record, and which of them is to be predicted from the others."""

    schema: Schema
    target: str

    def __post_init__(self) -> None:
        named = {part.name: part for part in self.schema.attributes}
        if self.target not in named:
            raise BadRequest("target", self.target, f"is no attribute; there are {', '.join(named)}")
        if len(named) < 2:
            raise BadRequest("schema", f"only {self.target}", "needs something to predict it from")

    @property
    def answer(self) -> Number | Category:
        """The attribute to be predicted."""
        return next(part for part in self.schema.attributes if part.name == self.target)

    @property
    def inputs(self) -> tuple[Number | Category, ...]:
        """All the others, in order."""
        return tuple(part for part in self.schema.attributes if part.name != self.target)

    @property
    def columns(self) -> tuple[str, ...]:
        """What each number of a row stands for; the last one is the intercept."""
        names: list[str] = []
        for part in self.inputs:
            if isinstance(part, Number):
                names.append(part.name)
            else:
                names.extend(f"{part.name} = {value}" for value in part.values[:-1])
        return (*names, "1")

    @property
    def dimension(self) -> int:
        """Numbers in a row, and in a gradient."""
        return len(self.columns)

    def row(self, record: Mapping[str, object]) -> tuple[Floats, float]:
        """One record as numbers, and its target. Never fails.

        What is missing or not listed counts as the mean over all listed values: 0 for a number (the middle of its
        range), 2/k - 1 for each number of a category of k values, 0 for a target of two classes: no gradient then.
        """
        values = dict(zip((part.name for part in self.schema.attributes), self.schema.read(record), strict=True))
        row: list[float] = []
        for part in self.inputs:
            value = values[part.name]
            if isinstance(part, Number):
                row.append(float(value or 0.0))
            else:  # in the same time whatever the value is
                block = [2.0 / len(part.values) - 1.0 if value is None else -1.0] * len(part.values)
                if value is not None:
                    block[int(value)] = 1.0
                row.extend(block[:-1])
        target = values[self.target]
        return np.array([*row, 1.0]), 0.0 if target is None else self._targeted(float(target))

    def rows(self, table: Mapping[str, Sequence[object]]) -> tuple[Floats, Floats]:
        """A whole table by columns: one row a record, and the targets. For simulations: a device has `row`."""
        missing = [part.name for part in self.schema.attributes if part.name not in table]
        if missing:
            raise BadRequest("table", f"without {', '.join(missing)}", "must have every attribute of the schema")
        blocks = [_block(part, table[part.name]) for part in self.inputs]
        ones = np.ones((len(table[self.target]), 1))
        return np.concatenate([*blocks, ones], axis=1), self._targets(table[self.target])

    def _targets(self, values: Sequence[object]) -> Floats:
        if isinstance(self.answer, Number):
            return _scaled(self.answer, values)
        return np.array([self._targeted(float(place)) for place in _places(self.answer, values)])

    def _targeted(self, value: float) -> float:
        """A number stays; of two categories the first is -1, the second 1."""
        return value if isinstance(self.answer, Number) else 2.0 * value - 1.0


def _block(part: Number | Category, values: Sequence[object]) -> Floats:
    if isinstance(part, Number):
        return _scaled(part, values)[:, None]
    return np.where(_places(part, values)[:, None] == np.arange(len(part.values) - 1), 1.0, -1.0)


def _scaled(part: Number, values: Sequence[object]) -> Floats:
    """As `Number.scaled`, for a column."""
    try:
        array = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise BadRequest(part.name, "a value of the table", "must be a number") from None
    if np.isnan(array).any():
        raise BadRequest(part.name, "a missing value", "must be a number, and not NaN")
    return np.asarray(2.0 * ((np.clip(array, part.low, part.high) - part.low) / (part.high - part.low)) - 1.0)


def _places(part: Category, values: Sequence[object]) -> NDArray[np.int64]:
    known = {value: place for place, value in enumerate(part.values)}
    try:
        return np.array([known[str(value)] for value in values], dtype=np.int64)
    except KeyError:
        raise BadRequest(part.name, "a value of the table", f"must be one of {', '.join(part.values)}") from None
