"""Exact numbers: precision as integers, and values on a dyadic grid.

The currency is *precision*, Delta^2/sigma^2 (dimensionless, additive; mu^2 of Gaussian DP, 2 rho
of zCDP). The ledger holds it as an integer of 1e-18. Charges round up and budgets round down; no
float ever decides an amount, so the constructors here refuse floats and name their direction.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from math import ceil, floor

from noisebank.core.errors import BadRequest

UNITS_PER_PRECISION = 10**18
MAX_BITS = 4096
"""Bits of a numerator or denominator that callers pass in."""

Exact = int | str | float | Decimal | Fraction
"""What callers may pass as an exact number. A float stands for the decimal that it prints as."""


def parse_exact(value: Exact, parameter: str = "value") -> Fraction:
    """Returns the rational that `value` is written as: 0.1 is 1/10, not the nearest binary fraction.

    >>> parse_exact(0.1), parse_exact("1e-6"), parse_exact("1/3")
    (Fraction(1, 10), Fraction(1, 1000000), Fraction(1, 3))
    """
    if isinstance(value, bool):
        raise BadRequest(parameter, value, "must be a number")
    if isinstance(value, (int, Fraction)):
        return _check_size(Fraction(value), parameter)
    text = float.__repr__(value) if isinstance(value, float) else str(value)
    if text.isascii() and text.isdigit() and len(text) < 40:  # what people write most
        return Fraction(int(text))
    try:
        if "/" in text:
            return _check_size(Fraction(text), parameter)
        number = Decimal(text)
        if not number.is_finite() or abs(number.adjusted()) > 400:
            raise BadRequest(parameter, text[:40], "must be a finite number of ordinary size")
        return _check_size(Fraction(number), parameter)
    except (InvalidOperation, ValueError, ZeroDivisionError):
        raise BadRequest(parameter, text[:40], "must be a number") from None


@dataclass(frozen=True, order=True, slots=True)
class Precision:
    """An amount of precision in units of 1e-18; never negative.

    >>> Precision.ceil(Fraction(1, 3)) + Precision.floor(Fraction(2, 3))
    Precision(units=1000000000000000000)
    """

    units: int

    def __post_init__(self) -> None:
        if type(self.units) is not int:
            raise TypeError(f"precision is counted in whole units, not {self.units!r}")
        if self.units < 0:
            raise ValueError(f"precision cannot be negative: {self.units}")

    @classmethod
    def ceil(cls, value: Fraction) -> Precision:
        """Rounds up: for charges, never below the true loss."""
        return cls(ceil(_require_rational(value) * UNITS_PER_PRECISION))

    @classmethod
    def floor(cls, value: Fraction) -> Precision:
        """Rounds down: for budgets and targets, never above what was granted."""
        return cls(floor(_require_rational(value) * UNITS_PER_PRECISION))

    @property
    def exact(self) -> Fraction:
        """The amount as a rational number."""
        return Fraction(self.units, UNITS_PER_PRECISION)

    def to_decimal(self) -> str:
        """Returns the amount as an exact decimal, as JSON has it.

        >>> Precision(1_500_000_000_000_000_000).to_decimal(), Precision(1).to_decimal(), Precision(0).to_decimal()
        ('1.5', '0.000000000000000001', '0')
        """
        whole, rest = divmod(self.units, UNITS_PER_PRECISION)
        return f"{whole}.{rest:018d}".rstrip("0").rstrip(".") if rest else str(whole)

    @classmethod
    def parse_decimal(cls, text: str) -> Precision:
        """Returns the amount that `to_decimal` wrote.

        >>> Precision.parse_decimal("1.5"), Precision.parse_decimal("0.000000000000000001")
        (Precision(units=1500000000000000000), Precision(units=1))
        """
        whole, _, rest = text.partition(".")
        return cls(int(whole) * UNITS_PER_PRECISION + int(rest.ljust(18, "0") or "0"))

    def __add__(self, other: Precision) -> Precision:
        return Precision(self.units + other.units)

    def __sub__(self, other: Precision) -> Precision:
        return Precision(self.units - other.units)

    def __bool__(self) -> bool:
        return self.units > 0

    def __float__(self) -> float:
        return self.units / UNITS_PER_PRECISION

    def __str__(self) -> str:
        return f"{float(self):.6g}"


ZERO_PRECISION = Precision(0)

LADDER_BITS = 32
MIN_PRECISION = Precision(10**9)
"""1e-9: a count with noise of 31,623. Below it, noise might not fit 64 bits (see privacy.noise)."""
MAX_PRECISION = Precision(2**96 - 2**64)
"""The largest ladder step below the contract's MAX_BUDGET of 2^96 - 1: no account can ever pay for more."""


def floor_to_ladder(precision: Precision) -> Precision:
    """Returns the largest ladder step not above `precision`. Ladder steps are integers of at most 32 significant bits.

    Two different steps differ by at least 2^-32 of themselves. So the noise of a bridge or of a
    refinement is within a factor of about 2^16 of the noise that was asked for.

    >>> floor_to_ladder(Precision(2**40 + 1)) == Precision(2**40)
    True
    """
    spare = max(0, precision.units.bit_length() - LADDER_BITS)
    return Precision(precision.units >> spare << spare)


def ceil_to_ladder(precision: Precision) -> Precision:
    """Returns the smallest ladder step not below `precision`.

    >>> ceil_to_ladder(Precision(2**40 + 1)) == Precision(2**40 + 2**9)
    True
    """
    below = floor_to_ladder(precision)
    if below == precision:
        return below
    spare = precision.units.bit_length() - LADDER_BITS
    return floor_to_ladder(Precision(below.units + (1 << spare)))


@dataclass(frozen=True, slots=True)
class GridValue:
    """The number `numerator / 2^shift`, in steps of the query (a step is 1 for counts)."""

    numerator: int
    shift: int

    @property
    def exact(self) -> Fraction:
        """The value as a rational number of steps."""
        return Fraction(self.numerator, 1 << self.shift)

    @classmethod
    def nearest(cls, value: Fraction, shift: int) -> GridValue:
        """Rounds `value` to the grid of spacing 2^-shift; halves go to the even neighbour."""
        return cls(round(_require_rational(value) * (1 << shift)), shift)


def _check_size(value: Fraction, parameter: str) -> Fraction:
    """Returns the value; refuses numbers of thousands of digits, which attack the arithmetic and cannot be printed."""
    if max(value.numerator.bit_length(), value.denominator.bit_length()) > MAX_BITS:
        raise BadRequest(parameter, "a number of thousands of bits", "must be a finite number of ordinary size")
    return value


def _require_rational(value: Fraction) -> Fraction:
    if not isinstance(value, (int, Fraction)):
        raise TypeError(f"an exact rational is needed here, not {value!r}")
    return Fraction(value)
