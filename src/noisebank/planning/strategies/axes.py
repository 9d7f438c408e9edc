"""The rows of one axis: `SquareRootRows` for ordered values, and what sets of unordered ones cost.

Rows are whole numbers: what is charged is computed from them exactly, whatever floats they were derived from. Divided
by `scale` they have the best known price: at precision 1 every set of values (unordered) or every range (ordered) has
the variance 1 at most. Proof: docs/proofs/strategies.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import sqrt
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from noisebank.planning.linear import Vector

Whole = NDArray[np.object_]
"""Python's integers, which do not overflow."""
SCALE_BITS = 16
"""Of the rows of an axis: rounding changes the price by about 2^-16."""
MAX_SET_SIZE = 64
"""Ordered values up to which sets may cost less than ranges."""
GRID_ENDS = 48
"""Ends of ranges among which the worst one is searched for."""


@dataclass(frozen=True, slots=True)
class Axis:
    """One attribute of a cube: its bins or keys."""

    size: int
    ordered: bool


class AxisRows(Protocol):
    """A matrix H of whole numbers, one column per value. All methods work along the last axis of an array."""

    @property
    def row_count(self) -> int:
        """Number of rows."""
        ...

    @property
    def scale(self) -> int:
        """What the rows are multiples of."""
        ...

    @property
    def squares(self) -> Whole:
        """The sum of squares of each column, exactly."""
        ...

    def multiply(self, values: Whole) -> Whole:
        """Returns H v, exactly."""
        ...

    def multiply_transposed(self, values: Whole) -> Whole:
        """Returns H^T v, exactly."""
        ...

    def combine(self, values: Vector) -> Vector:
        """Returns H^T v / scale, by floats."""
        ...

    def solve_transposed(self, weights: Vector) -> Vector:
        """Returns u with H^T u = scale * weights."""
        ...


class SquareRootRows:
    """A Toeplitz square root of the running sums, with columns of equal length: each value is charged the same."""

    def __init__(self, size: int) -> None:
        self.row_count = size
        steps = np.arange(1, size)
        root = np.concatenate(([1.0], np.cumprod((2 * steps - 1) / (2 * steps))))
        self._root = [round(value * (1 << SCALE_BITS)) for value in root]
        lengths = np.sqrt(np.cumsum(root * root)[::-1])
        self._set_columns(1 << SCALE_BITS, lengths)
        self._set_columns(int(sqrt(self._worst_variance()) * (1 << SCALE_BITS)), lengths)

    def multiply(self, values: Whole) -> Whole:
        """See `AxisRows`."""
        return _convolve(self._root, values * self._columns)

    def multiply_transposed(self, values: Whole) -> Whole:
        """See `AxisRows`."""
        product: Whole = _convolve(self._root, values[..., ::-1])[..., ::-1] * self._columns
        return product

    def combine(self, values: Vector) -> Vector:
        """See `AxisRows`."""
        return self._correlate(self._root_transform, values) / self._reciprocals

    def solve_transposed(self, weights: Vector) -> Vector:
        """See `AxisRows`."""
        return self._correlate(self._inverse_transform, weights * self._reciprocals)

    def _correlate(self, transform: NDArray[np.complex128], values: Vector) -> Vector:
        size, padded = self.row_count, 2 * (len(transform) - 1)
        product = np.fft.irfft(transform * np.fft.rfft(values[..., ::-1], padded), padded)
        return np.ascontiguousarray(product[..., :size][..., ::-1])

    def _set_columns(self, height: int, lengths: Vector) -> None:
        """Sets the factors of the columns so that all have the length `height` * 2^SCALE_BITS, about."""
        self.scale = 1 << 2 * SCALE_BITS
        self._columns: Whole = np.array([max(1, round(height / length)) for length in lengths], dtype=object)
        sums = np.cumsum(np.array([value * value for value in self._root], dtype=object))[::-1]
        self.squares: Whole = self._columns * self._columns * sums
        self._reciprocals: Vector = (1 << SCALE_BITS) / self._columns.astype(np.float64)
        root = np.array(self._root, dtype=np.float64) / (1 << SCALE_BITS)
        padded = max(2, 1 << (2 * self.row_count - 1).bit_length())
        self._root_transform = np.fft.rfft(root, padded)
        self._inverse_transform = np.fft.rfft(_invert_series(root), padded)

    def _worst_variance(self) -> float:
        """Returns the largest variance of a range at precision 1, over ranges between the ends of a grid."""
        ends = np.unique(np.linspace(0, self.row_count, GRID_ENDS + 1).astype(int))[1:]
        sums = (np.arange(self.row_count) < ends[:, None]).astype(np.float64)
        errors = np.concatenate((np.zeros((1, self.row_count)), self.solve_transposed(sums)))
        gram = errors @ errors.T
        return float((gram.diagonal()[:, None] + gram.diagonal() - 2 * gram).max())


@lru_cache(maxsize=64)
def find_root(size: int) -> SquareRootRows:
    """Returns the rows that know every range of so many ordered values."""
    return SquareRootRows(size)


@lru_cache(maxsize=256)
def is_cheaper_as_root(axis: Axis) -> bool:
    """Whether an axis is ordered, and its ranges cost less than all of its sets."""
    if not axis.ordered or axis.size > MAX_SET_SIZE:
        return axis.ordered
    whole, own = product_coefficients(axis.size)
    squares = (whole + own) ** 2 + (axis.size - 1) * whole**2
    return price_of(find_root(axis.size)) < float(squares / (1 << 2 * SCALE_BITS))


def product_coefficients(size: int) -> tuple[int, int]:
    """Returns b and a of a I + b J, the square root of p0 J/n + p1 (I - J/n) in units of 2^-16: no mechanism answers
    all sets of n values for less."""
    whole, rest = best_precisions(size)
    unit = 1 << SCALE_BITS
    return round(unit * (sqrt(whole) - sqrt(rest)) / size), round(unit * sqrt(rest))


def price_of(rows: AxisRows) -> float:
    """Returns the largest charge of a value at precision 1."""
    return float(max(rows.squares) / rows.scale**2)


@lru_cache(maxsize=64)
def best_precisions(size: int) -> tuple[float, float]:
    """Returns (p0, p1) of least price p0/n + p1 (1 - 1/n), so that every set of s of n values has the variance
    s^2/(n p0) + (s - s^2/n)/p1 <= 1."""
    if size == 1:
        return 1.0, 1.0
    counts = np.arange(1, size + 1, dtype=np.float64)
    whole, rest = counts * counts / size, counts - counts * counts / size

    def price(p0: float) -> tuple[float, float]:
        p1 = float((rest[:-1] / (1 - whole[:-1] / p0)).max())
        return p0 / size + p1 * (1 - 1 / size), p1

    low, high = float(size), 32.0 * size
    for _ in range(200):  # the price is convex in p0: a search by thirds
        left, right = low + (high - low) / 3, high - (high - low) / 3
        low, high = (low, right) if price(left)[0] <= price(right)[0] else (left, high)
    return high, price(high)[1]


def _convolve(series: list[int], values: Whole) -> Whole:
    """Returns the first terms of the product of two series, exactly, along the last axis.

    Digits of one long number each: its product has all terms at once.
    """
    size = values.shape[-1]
    most = max((abs(int(value)) for value in values.flat), default=0)
    bits = (2 * size * max(series) * (most + 1)).bit_length() + 1
    width = -(-bits // 8)
    packed = int.from_bytes(b"".join(value.to_bytes(width, "little") for value in series), "little")
    half = 1 << (8 * width - 1)
    rows = []
    for row in values.reshape(-1, size):
        total = (
            sum(int(part) << (8 * width * place) for place, part in enumerate(row)) if size < 64 else _pack(row, width)
        )
        rows.append(_unpack(packed * total, size, width, half))
    product: Whole = np.array(rows, dtype=object).reshape(values.shape)
    return product


def _pack(row: Whole, width: int) -> int:
    """Returns the sum of row[i] * 256^(width i), for terms of either sign."""
    positive = b"".join(max(int(value), 0).to_bytes(width, "little") for value in row)
    negative = b"".join(max(-int(value), 0).to_bytes(width, "little") for value in row)
    return int.from_bytes(positive, "little") - int.from_bytes(negative, "little")


def _unpack(number: int, size: int, width: int, half: int) -> list[int]:
    """Returns the first `size` signed digits."""
    shift = int.from_bytes(half.to_bytes(width, "little") * size, "little")
    low = (number + shift) & ((1 << 8 * width * size) - 1)
    digits = low.to_bytes(width * size, "little")
    return [int.from_bytes(digits[at : at + width], "little") - half for at in range(0, width * size, width)]


def _invert_series(series: Vector) -> Vector:
    """Returns the first terms of 1 over a series that begins with 1, by Newton's iteration."""
    inverse, size = np.ones(1), 1
    while size < len(series):
        size = min(2 * size, len(series))
        padded = 1 << (3 * size).bit_length()
        power = np.fft.rfft(inverse, padded)
        inverse = np.fft.irfft(power * (2 - np.fft.rfft(series[:size], padded) * power), padded)[:size]
    return inverse
