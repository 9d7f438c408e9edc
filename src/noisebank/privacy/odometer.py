"""The privacy odometer: the epsilon of a budget that was raised after answers were given, valid at every moment.

A conversion such as `budget_precision` is true for an amount that was fixed before the first answer. How far a budget
is raised may depend on the answers. The bound here holds at every moment: a line that the privacy loss seldom crosses.
Proof: docs/proofs/odometer.md.
"""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache

from flint import arb

from noisebank.core.units import UNITS_PER_PRECISION, ZERO_PRECISION, Precision
from noisebank.privacy.calibration import (
    DELTA_MARGIN,
    EPSILON_MARGIN,
    EPSILON_STEP,
    account_epsilon,
    check_delta,
    to_ball,
)

SLOPE_STEPS = 2**64
"""Any slope gives a valid line, so the rounding does not matter; it must only be the same always."""


@lru_cache(256)
def promised_epsilon(fixed: Precision, largest: Precision, delta: Fraction) -> Fraction:
    """Returns the epsilon that an account promises at `delta`, rounded up to 1e-9.

    `fixed` is the budget that was known before the first answer, `largest` the largest that ever held. A budget that
    is lowered later promises what it did before: when it was lowered may depend on answers.
    """
    return account_epsilon(fixed, delta) if largest <= fixed else raised_epsilon(fixed, largest, delta)


def raised_epsilon(fixed: Precision, raised: Precision, delta: Fraction) -> Fraction:
    """Returns the epsilon at `delta` of a budget raised from `fixed` after answers were given, rounded up to 1e-9.

    Guarantees: whatever decides when and how far budgets are raised, with probability 1 - delta the privacy loss is at
    no moment above what this says for the largest budget until then.
    """
    check_delta(delta)
    if not fixed or raised < fixed:
        raise ValueError(f"a raise from {fixed} to {raised}")
    slope = _line_slope(fixed, delta)
    loss = _log_inverse_delta(delta) / to_ball(slope) + to_ball((1 + slope) * raised.exact / 2 + EPSILON_MARGIN)
    return _to_integer((loss / to_ball(EPSILON_STEP)).upper().ceil()) * EPSILON_STEP


def raised_precision(fixed: Precision, epsilon: Fraction, delta: Fraction) -> Precision:
    """Returns the largest budget that a raise to `epsilon` may grant after answers were given: rounded down, or 0."""
    check_delta(delta)
    slope = _line_slope(fixed, delta)
    room = to_ball(epsilon - EPSILON_MARGIN) - _log_inverse_delta(delta) / to_ball(slope)
    units = _to_integer((room * 2 / to_ball(1 + slope) * UNITS_PER_PRECISION).lower().floor())
    return Precision(units) if units > 0 else ZERO_PRECISION


def _log_inverse_delta(delta: Fraction) -> arb:
    """Returns log(1/delta), with the part of delta that discreteness takes left out."""
    return -to_ball(delta * (1 - DELTA_MARGIN)).log()


def _line_slope(fixed: Precision, delta: Fraction) -> Fraction:
    """Returns the slope of the line that is lowest at `fixed`: a rational near sqrt(2 log(1/delta) / fixed)."""
    best = (2 * _log_inverse_delta(delta) / to_ball(fixed.exact)).sqrt()
    return Fraction(max(1, _to_integer((best * SLOPE_STEPS).mid().floor())), SLOPE_STEPS)


def _to_integer(value: arb) -> int:
    integer = value.unique_fmpz()
    if integer is None:
        raise ArithmeticError("the working precision does not decide this rounding")
    return int(integer)
