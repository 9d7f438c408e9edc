"""Judges what a hostile relay host has seen: exactly where noise is left out, statistically where it is real."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction
from math import exp, log
from typing import Any
from unittest.mock import patch

import numpy as np
from scipy.stats import beta

from hostile.relay_host import HostileHost, Order, Seen
from noisebank.federated.relay import Terms, attempt, grid, least_variance, member, terms
from noisebank.federated.relay.grid import STEPS

TWO_RECORDS = ([0.0, 0.0, 1.0, -1.0], [1e300, -5e-324, 0.0, 0.5])
"""Everything that arithmetic may trip over is in one and not in the other."""


def broken_promises(order: Order, records: tuple[Any, Any] = TWO_RECORDS) -> list[str]:
    """How this order tells two records apart beyond what was promised; empty if it does not.

    Without noise a release must be a vector that the terms allow, and its noise must be asked for as planned: then it
    is the mechanism that the promise is proved for.
    """
    seen = [HostileHost(order).play(record, silent=True) for record in records]
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
    for plan in seen.plans[: len(seen.plans)]:
        if plan.terms.mode == "masked":
            planned += [float(plan.scale)] * plan.terms.dimension
            continue
        for chain in plan.chains:
            place = next(i for i, who in enumerate(chain.order) if who == _victim())
            planned += [float(chain.scales[place])] * chain.size if chain.scales[place] else []
    return [] if sorted(planned) == sorted(seen.scales) else ["noise of another size than was planned"]


def _victim() -> str:
    from hostile.relay_host import VICTIM

    return VICTIM.address


def private_terms(epsilon: int, dimension: int = 4) -> Terms:
    """Masked; whoever plays all others sees the member's noise alone, which is sized for that."""
    wanted = least_variance(Fraction(epsilon), Fraction(1, 10**6), dimension, 1)
    floor = Fraction(-(-wanted.numerator * 10**6 // wanted.denominator), 10**6)
    return Terms(dimension, floor=floor, attempts=1)


def least_epsilon(order: Order, runs: int, false_alarm: float = 1e-7) -> tuple[float, float]:
    """A lower bound, at this confidence, of the epsilon at which the host tells two records apart; and the promise.

    The host's best test of one known vector against another is linear; an output off the grid of what noise can do
    decides at once. From the rates of right and wrong guesses: epsilon >= log((hit - delta)/false).
    """
    records = ([1.0, 1.0, 1.0, 1.0], [-1.0, -1.0, -1.0, 0.0])
    guesses = [[], []]  # type: list[list[bool]]
    promised = 0.0
    for side, record in enumerate(records):
        for _ in range(runs):
            seen = HostileHost(order).play(record)
            promised = max(promised, seen.promise.epsilon) if seen.plans else promised
            guesses[side].append(bool(seen.releases) and _guess(seen))
    hits, misses = sum(guesses[1]), sum(guesses[0])
    low = float(beta.ppf(false_alarm / 2, hits, runs - hits + 1)) if hits else 0.0
    high = float(beta.ppf(1 - false_alarm / 2, misses + 1, runs - misses)) if misses < runs else 1.0
    return (log(max(low - 1e-6, exp(-50.0)) / high) if low > high else 0.0), promised


def _guess(seen: Seen) -> bool:
    """Whether it was the second record: all its numbers are low, and the old break made one of them -2^63."""
    return float(np.mean([float(np.mean(one.astype(np.float64))) for one in seen.releases])) < -0.5 * STEPS


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
