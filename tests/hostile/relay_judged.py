"""Judges what a hostile relay host has seen: exactly where noise is left out, statistically where it is real."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction
from math import log
from typing import Any
from unittest.mock import patch

import numpy as np
from scipy.stats import beta

from hostile.relay_host import VICTIM, HostileHost, Order, Seen
from noisebank.federated.relay import Terms, attempt, grid, member, terms
from support.internals import STEPS, least_variance

TWO_RECORDS = ([0.0, 0.0, 1.0, -1.0], [1e300, -5e-324, 0.0, 0.5])
"""Everything that arithmetic may trip over is in one and not in the other."""


def broken_promises(order: Order, seen_by: list[int] | None = None) -> list[str]:
    """How this order tells two records apart beyond what was promised; empty if it does not.

    Without noise a release must be a vector that the terms allow, and its noise must be asked for as planned: then it
    is the mechanism that the promise is proved for. `seen_by` counts the vectors that were released.
    """
    seen = [HostileHost(order).play(record, silent=True) for record in TWO_RECORDS]
    if seen_by is not None:
        seen_by[0] += sum(len(one.releases) for one in seen)
    wrong = []
    if seen[0].public != seen[1].public:
        wrong.append(f"the conversations differ: {seen[0].public} and {seen[1].public}")
    for one in seen:
        wrong += _too_long(one) + _other_noise(one)
    return wrong


def _too_long(seen: Seen) -> list[str]:
    found = []
    for release, reach in zip(seen.releases, seen.reaches, strict=True):
        plain = [int(number) for number in release]
        if max(abs(number) for number in plain) > STEPS:
            found.append(f"a number of {max(map(abs, plain))} steps where {STEPS} are the most")
        if sum(number**2 for number in plain) > Fraction(reach) ** 2 * STEPS**2 * (1 + Fraction(1, 2**40)):
            found.append("a vector that is longer than the terms allow")
    return found


def _other_noise(seen: Seen) -> list[str]:
    planned: list[float] = []
    for plan in seen.plans:
        if plan.terms.mode == "masked":
            planned += [float(plan.scale)] * plan.terms.dimension
            continue
        for chain in plan.chains:
            place = chain.order.index(VICTIM.address)
            planned += [float(chain.scales[place])] * chain.size if chain.scales[place] else []
    return [] if sorted(planned) == sorted(seen.scales) else ["noise of another size than was planned"]


def private_terms(epsilon: int, dimension: int = 4) -> Terms:
    """Masked; whoever plays all others sees the member's noise alone, which is sized for that."""
    wanted = least_variance(Fraction(epsilon), Fraction(1, 10**6), dimension, 1)
    floor = Fraction(-(-wanted.numerator * 10**6 // wanted.denominator), 10**6)
    return Terms(dimension, floor=floor, attempts=1)


def least_epsilon(order: Order, runs: int, false_alarm: float = 1e-7) -> tuple[float, float]:
    """A lower bound, but for a false alarm, of the epsilon at which the host tells two records apart; and the promise.

    Two tests, fixed beforehand: the best one against noise, which is linear, and whether a number is far beyond what
    noise can do. From the rates of right and wrong guesses: epsilon >= log((right - delta)/wrong).
    """
    records = ([1.0, 1.0, 1.0, 1.0], [-1.0, -1.0, -1.0, 0.0])
    promised, told = 0.0, np.zeros((2, 2), dtype=int)
    for side, record in enumerate(records):
        for _ in range(runs):
            seen = HostileHost(order).play(record)
            promised = max(promised, seen.promise.epsilon) if seen.plans else promised
            numbers = np.concatenate([one.astype(np.float64) for one in seen.releases]) if seen.releases else None
            if numbers is not None:
                told[side] += [numbers.mean() < 0.0, np.abs(numbers).max() > 2.0**59]
    found = 0.0
    for wrong, right in told.T.tolist():
        low = float(beta.ppf(false_alarm / 4, right, runs - right + 1)) if right else 0.0
        high = float(beta.ppf(1 - false_alarm / 4, wrong + 1, runs - wrong)) if wrong < runs else 1.0
        found = max(found, log((low - 1e-6) / high) if low > high else 0.0)
    return found, promised


@contextmanager
def floats_decide() -> Iterator[None]:
    """Planted: terms and grid as they were, with floats where a number decides something."""

    def contribution(vector: Any, bound: Fraction, dimension: int) -> grid.Contribution:
        with np.errstate(all="ignore"):
            relative = np.asarray(vector, dtype=np.float64) / float(bound)
            steps = np.trunc(np.clip(relative, -1.0, 1.0) * STEPS).astype(np.int64).view(np.uint64)
        return grid.Contribution(steps, 0)

    with (
        patch.object(terms, "_rational", lambda name, text: Fraction(text)),
        patch.object(terms, "BOUND_RANGE", (Fraction(0), Fraction(10**12))),
        patch.object(attempt, "contribution", contribution),
        patch.object(member, "contribution", contribution),
        patch.object(attempt, "clipped_steps", lambda steps: steps),
    ):
        yield
