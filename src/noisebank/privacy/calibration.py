"""Converts (epsilon, delta) to precision and back, with proven rounding.

Every inequality is decided in ball arithmetic (python-flint): a comparison counts only when it
holds for the whole ball, so "rounded down" is a theorem and not a hope. No float is involved.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from fractions import Fraction
from math import ceil

from flint import arb, ctx, fmpq

from noisebank.core.errors import BadRequest
from noisebank.core.records import MAX_DRAWS
from noisebank.core.units import UNITS_PER_PRECISION, ZERO_PRECISION, Precision

# Working precision in bits, set once: changing it per call would race between threads.
ctx.prec = 256

EPSILON_RANGE = (Fraction(1, 10**5), Fraction(100))
DELTA_RANGE = (Fraction(1, 10**30), Fraction(1, 2))
EPSILON_STEP = Fraction(1, 10**9)
"""Reported epsilons are rounded up to a multiple of this."""

DISCRETE_RATIO = Fraction(1, 2**43)
"""Log-ratio between one discrete and one rounded Gaussian draw: docs/proofs/discrete_gaussian.md."""
EPSILON_MARGIN = 2 * MAX_DRAWS * DISCRETE_RATIO
DELTA_MARGIN = Fraction(1, 2**22)
"""What all discrete draws of an account may add together: 2^-22 to epsilon, and this share of delta."""


class Calibration(Enum):
    """How a pair (epsilon, delta) names a noise level."""

    ANALYTIC = "analytic"
    CLASSICAL = "classical"


def check_epsilon(epsilon: Fraction) -> Fraction:
    """Returns `epsilon` if it lies in the range that the proofs cover, else raises `BadRequest`."""
    low, high = EPSILON_RANGE
    if not low <= epsilon <= high:
        raise BadRequest("epsilon", _format_number(epsilon), f"must lie in [{float(low):g}, {float(high):g}]")
    return epsilon


def check_delta(delta: Fraction) -> Fraction:
    """Returns `delta` if it lies in the range that the proofs cover, else raises `BadRequest`."""
    low, high = DELTA_RANGE
    if not low <= delta <= high:
        raise BadRequest(
            "delta", _format_number(delta), f"must lie in (0, 1), here in [{float(low):g}, {float(high):g}]"
        )
    return delta


def gaussian_delta(precision: Precision, epsilon: Fraction) -> arb:
    """Returns a ball around the exact delta(epsilon) of Gaussian noise of this precision.

    Guarantees: contains Phi(mu/2 - eps/mu) - e^eps Phi(-mu/2 - eps/mu) with mu^2 = precision.
    Source: Balle and Wang 2018 (arXiv 1805.06530v2), Theorem 8; Dong, Roth, Su 2022, Corollary 2.13.
    """
    if not precision:
        return arb(0)
    mu = to_ball(precision.exact).sqrt()
    eps = to_ball(epsilon)
    return _upper_tail(eps / mu - mu / 2) - eps.exp() * _upper_tail(eps / mu + mu / 2)


def request_precision(epsilon: Fraction, delta: Fraction, calibration: Calibration = Calibration.ANALYTIC) -> Precision:
    """Returns the precision of the noise that (epsilon, delta) asks for, rounded down.

    ANALYTIC is the least noise that is (epsilon, delta)-private. CLASSICAL is Lemma 1 of the
    reuse paper, sigma = Delta sqrt(2 ln(1.25/delta))/epsilon: honoured as the noise level it
    names even where (from epsilon of about 8) it is not (epsilon, delta)-private.
    """
    check_epsilon(epsilon), check_delta(delta)
    if calibration is Calibration.CLASSICAL:
        square = to_ball(epsilon) ** 2 / (2 * (to_ball(Fraction(5, 4) / delta)).log())
        return _floor_units(square)
    return _largest_precision(lambda precision: gaussian_delta(precision, epsilon) <= to_ball(delta))


def budget_precision(epsilon: Fraction, delta: Fraction) -> Precision:
    """Returns the largest precision that an account may spend and still be (epsilon, delta)-private.

    Requires: at most MAX_DRAWS discrete Gaussian draws that one person can affect, each as in docs/proofs; a budget
    that is fixed before the first answer.
    Guarantees: rounded down; the discreteness of the noise is paid from the margins.
    """
    check_epsilon(epsilon), check_delta(delta)
    inner_epsilon, inner_delta = epsilon - EPSILON_MARGIN, delta * (1 - DELTA_MARGIN)
    return _largest_precision(lambda precision: gaussian_delta(precision, inner_epsilon) <= to_ball(inner_delta))


def account_epsilon(spent: Precision, delta: Fraction) -> Fraction:
    """Returns the epsilon at `delta` of an account that spends at most this much, rounded up to 1e-9.

    Requires: `spent` was fixed before the first answer, as a budget or a list of requests is. A spend that depends on
    answers, as it does at the moment when somebody stops, needs `odometer.raised_epsilon`: docs/proofs/odometer.md.
    The inverse of `budget_precision`: margins included, zero for an untouched account.
    """
    check_delta(delta)
    if not spent:
        return Fraction(0)
    limit = to_ball(delta * (1 - DELTA_MARGIN))

    def is_private(steps: int) -> bool:
        return bool(gaussian_delta(spent, steps * EPSILON_STEP - EPSILON_MARGIN) <= limit)

    low = high = ceil(EPSILON_MARGIN / EPSILON_STEP)
    while not is_private(high):
        high *= 2
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if is_private(middle) else (middle + 1, high)
    return high * EPSILON_STEP


def classical_epsilon(spent: Precision, delta: Fraction) -> float:
    """Returns the reuse paper's figure, sqrt(precision) sqrt(2 ln(1.25/delta)): for comparison only."""
    check_delta(delta)
    return float((to_ball(spent.exact) * 2 * to_ball(Fraction(5, 4) / delta).log()).sqrt())


def _largest_precision(holds: Callable[[Precision], bool]) -> Precision:
    """Returns the largest precision for which a monotone, provable property holds (bisection on units)."""
    high = 1
    while holds(Precision(high)):
        high *= 2
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if holds(Precision(middle)) else (low, middle)
    return Precision(low) if low else ZERO_PRECISION


def _floor_units(value: arb) -> Precision:
    units = (value * UNITS_PER_PRECISION).lower().floor().unique_fmpz()
    if units is None:
        raise ArithmeticError("the working precision does not decide this rounding")
    return Precision(int(units))


def to_ball(value: Fraction) -> arb:
    """Returns a ball that contains the number."""
    return arb(fmpq(value.numerator, value.denominator))


def _upper_tail(x: arb) -> arb:
    """Returns P(N(0,1) > x), accurate in both tails."""
    return (x / arb(2).sqrt()).erfc() / 2


def _format_number(value: Fraction) -> str:
    try:
        return f"{float(value):g}"
    except OverflowError:
        return "a huge number"
