"""The doubles at which one step ends and the next begins: exact, in the arithmetic that the engines use."""

from __future__ import annotations

import math
from fractions import Fraction


def step_nearest(value: float, step: Fraction) -> int:
    """Returns the step that engines round to: value * denominator / numerator in doubles, halves away from zero.

    >>> step_nearest(1.005, Fraction(1, 100)), step_nearest(-2.5, Fraction(1))
    (100, -3)
    """
    scaled = value * float(step.denominator) / float(step.numerator)
    whole = math.trunc(scaled)
    rest = scaled - whole  # exact: both have the same sign, and whole is the nearer half
    return whole + (rest >= 0.5) - (rest <= -0.5)


def first_double(place: int, step: Fraction) -> float:
    """Returns the smallest double that is rounded to `step_number` steps or more.

    Requires: |step_number| at most 2^32, a step whose numerator and denominator doubles can hold.
    Guarantees: for every double x, x >= first_double(n, step) iff nearest_step(x, step) >= n.
    Argument: each operation rounds monotonically, so the doubles that qualify have a first one; all
    errors together are a few units in the last place, so it lies that near to (n - 1/2) * step.

    >>> first_double(3, Fraction(1)), first_double(1, Fraction(1, 100)), first_double(0, Fraction(1))
    (2.5, 0.005, -0.49999999999999994)
    """
    edge = float((Fraction(place) - Fraction(1, 2)) * step)
    while step_nearest(edge, step) >= place:
        edge = math.nextafter(edge, -math.inf)
    while step_nearest(edge, step) < place:
        edge = math.nextafter(edge, math.inf)
    return edge
