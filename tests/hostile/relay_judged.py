"""Judges what a hostile relay host has seen: exactly where noise is left out, statistically where it is real."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction
from itertools import zip_longest
from math import log
from typing import Any
from unittest.mock import patch

import numpy as np
from scipy.stats import beta

from assurance.planting import plant_bug
from hostile.relay_host import VICTIM, HostileHost, Order, Seen, rehearse
from noisebank.core.entropy import Entropy
from noisebank.core.errors import Refused
from noisebank.federated.relay import RelayTerms, attempt, grid, member, min_variance, terms
from noisebank.federated.relay.grid import STEPS_PER_BOUND
from noisebank.federated.relay.messages import Message

TWO_RECORDS = ([0.0, 0.0, 1.0, -1.0], [1e300, -5e-324, 0.0, 0.5])
"""Everything that arithmetic may trip over is in one and not in the other."""


def broken_promises(order: Order, seen_by: list[int] | None = None) -> list[str]:
    """How this order tells two records apart beyond what was promised; empty if it does not.

    Everything that the host hears, and when, must be the same, the goodbye included. Without noise a release must be a
    vector that the terms allow, and its noise must be asked for as planned: then it is the mechanism that the promise
    is proved for. `seen_by` counts the vectors that were released.
    """
    seen = [rehearse(order, record) for record in TWO_RECORDS]
    if seen_by is not None:
        seen_by[0] += sum(len(one.releases) for one in seen)
    wrong = _first_difference(*seen)
    for one in seen:
        wrong += _too_long(one) + _other_noise(one)
        wrong += ["a sum that its receiver cannot open"] if one.unreadable else []
    return wrong


def _first_difference(one: Seen, other: Seen) -> list[str]:
    for number, lines in enumerate(zip_longest(one.transcript, other.transcript)):
        if lines[0] != lines[1]:
            return [f"the conversations differ from line {number} on: {lines[0]} and {lines[1]}"]
    if len(one.releases) != len(other.releases):
        return [f"{len(one.releases)} vectors released and {len(other.releases)}"]
    return []


def _too_long(seen: Seen) -> list[str]:
    wrong = []
    for release in seen.releases:
        plain = [int(number) for number in release.steps]
        if max(abs(number) for number in plain) > STEPS_PER_BOUND:
            wrong.append(f"a number of {max(map(abs, plain))} steps where {STEPS_PER_BOUND} are the most")
        max_square = Fraction(release.reach) ** 2 * STEPS_PER_BOUND**2 * (1 + Fraction(1, 2**40))
        if sum(number**2 for number in plain) > max_square:
            wrong.append("a vector that is longer than the terms allow")
    return wrong


def _other_noise(seen: Seen) -> list[str]:
    """Every release has its noise, and none is drawn that no plan has: an attempt may end before all of it is sent."""
    planned, released = Counter[float](), Counter[float]()
    for plan in seen.plans:
        if plan.terms.mode == "masked":
            planned[float(plan.member_scale)] += plan.terms.dimension
        for chain in plan.chains:
            planned[float(chain.scales[chain.order.index(VICTIM.address)])] += chain.size
    for release in seen.releases:
        released[release.scale] += len(release.steps)
    del planned[0.0], released[0.0]  # nothing is drawn
    return [] if released <= Counter(seen.scales) <= planned else ["noise of another size than was planned"]


def private_terms(epsilon: int, dimension: int = 4) -> RelayTerms:
    """Masked; whoever plays all others sees the member's noise alone, which is sized for that."""
    variance = min_variance(Fraction(epsilon), Fraction(1, 10**6), dimension, 1)
    floor = Fraction(-(-variance.numerator * 10**6 // variance.denominator), 10**6)
    return RelayTerms(dimension, floor=floor, attempts=1)


def least_epsilon(order: Order, runs: int, false_alarm: float = 1e-7) -> tuple[float, float]:
    """A lower bound, but for a false alarm, of the epsilon at which the host tells two records apart; and the promise.

    Two tests, fixed beforehand: the best one against noise, which is linear, and whether a number is far beyond what
    noise can do. From the rates of right and wrong guesses: epsilon >= log((right - delta)/wrong).
    """
    records = ([1.0, 1.0, 1.0, 1.0], [-1.0, -1.0, -1.0, 0.0])
    promised, guesses = 0.0, np.zeros((2, 2), dtype=int)
    for side, record in enumerate(records):
        for _ in range(runs):
            seen = HostileHost(order).play(record)
            promised = max(promised, seen.promise.epsilon) if seen.plans else promised
            numbers = np.concatenate([one.steps.astype(np.float64) for one in seen.releases]) if seen.releases else None
            if numbers is not None:
                guesses[side] += [numbers.mean() < 0.0, np.abs(numbers).max() > 2.0**59]
    least = 0.0
    for wrong, right in guesses.T.tolist():
        low = float(beta.ppf(false_alarm / 4, right, runs - right + 1)) if right else 0.0
        high = float(beta.ppf(1 - false_alarm / 4, wrong + 1, runs - wrong)) if wrong < runs else 1.0
        least = max(least, log((low - 1e-6) / high) if low > high else 0.0)
    return least, promised


@contextmanager
def floats_decide() -> Iterator[None]:
    """Planted: terms and grid as they were, with floats where a number decides something."""

    def contribution(vector: Any, bound: Fraction, dimension: int) -> grid.Contribution:
        with np.errstate(all="ignore"):
            relative = np.asarray(vector, dtype=np.float64) / float(bound)
            steps = np.trunc(np.clip(relative, -1.0, 1.0) * STEPS_PER_BOUND).astype(np.int64).view(np.uint64)
        return grid.Contribution(steps, 0)

    with (
        patch.object(terms, "_parse_rational", lambda name, text: Fraction(text)),
        patch.object(terms, "BOUND_RANGE", (Fraction(0), Fraction(10**12))),
        patch.object(attempt, "quantize_vector", contribution),
        patch.object(member, "quantize_vector", contribution),
        patch.object(attempt, "clip_steps", lambda steps: steps),
    ):
        yield


@contextmanager
def complains_by_record() -> Iterator[None]:
    """Planted: a member whose first number is 0 cannot go on, and complains."""
    add_contribution = attempt.Attempt.add_contribution

    def fail_at_zero(self: attempt.Attempt, chain_number: int, before: Any, steps: Any, entropy: Entropy) -> Any:
        if not steps[0]:
            raise Refused("the first number is 0")
        return add_contribution(self, chain_number, before, steps, entropy)

    with plant_bug(attempt.Attempt, "add_contribution", fail_at_zero):
        yield


@contextmanager
def delays_by_record() -> Iterator[None]:
    """Planted: a member whose first number is 0 takes a tenth of a second longer, and sends the same."""
    forward_sum = member.RelayMember._forward_sum

    def linger_at_zero(self: member.RelayMember, agreed: attempt.Attempt, chain_number: int, before: Any) -> None:
        if not self._steps[0]:
            self._runtime.wait_for_event(threading.Event(), 0.1)
        forward_sum(self, agreed, chain_number, before)

    with plant_bug(member.RelayMember, "_forward_sum", linger_at_zero):
        yield


@contextmanager
def parts_by_record() -> Iterator[None]:
    """Planted: a member whose first number is 0 refuses the host's goodbye."""
    handle_end = member.RelayMember._handle_end

    def refuse_at_zero(self: member.RelayMember, message: Message) -> Message:
        reply = handle_end(self, message)
        if not self._steps[0]:
            raise Refused("the first number is 0")
        return reply

    with plant_bug(member.RelayMember, "_handle_end", refuse_at_zero):
        yield
