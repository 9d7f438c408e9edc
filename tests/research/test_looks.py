"""A search for relative accuracy: properties of one decision, and simulations of whole runs that catch wrong rules."""

from __future__ import annotations

from fractions import Fraction
from math import inf, isfinite, sqrt
from statistics import NormalDist

import pytest
from hypothesis import given
from hypothesis import strategies as st

from noisebank import Precision
from research.accuracy.looks import LEAST_LOOK, REACH, SEARCH_SHARE, Goal, Step, next_step
from research.accuracy.sound import look_until_decided
from support.internals import floor_to_ladder, simulation_rng

relatives = st.fractions(Fraction(1, 10**6), Fraction(999, 1000))
confidences = st.fractions(Fraction(1, 2), Fraction(999_999, 1_000_000))
goals = st.builds(Goal, relatives, confidences)
numbers = st.integers(1, 70)
looks = st.integers(LEAST_LOOK, 95).map(lambda power: Precision(2**power))
estimates = st.floats(-1e18, 1e18)
signs = st.booleans()


@given(goals, numbers, looks, estimates, signs)
def test_a_target_is_a_power_of_two_and_never_below_what_is_needed(
    wanted: Goal, number: int, look: Precision, estimate: float, nonnegative: bool
) -> None:
    step = next_step(wanted, number, look, estimate, nonnegative)
    assert (step.target is None) == (step.needed > REACH * float(look))
    if step.target is None:
        return
    units = step.target.units
    assert units & (units - 1) == 0
    assert step.target.exact >= Fraction(step.needed)
    assert units == 2**LEAST_LOOK or step.target.exact < 2 * Fraction(step.needed)
    assert floor_to_ladder(step.target) == step.target


@given(goals, relatives, numbers, looks, estimates, signs)
def test_a_smaller_relative_error_never_needs_less(
    wanted: Goal, other: Fraction, number: int, look: Precision, estimate: float, nonnegative: bool
) -> None:
    smaller, larger = sorted([wanted.relative, other])
    fine = next_step(Goal(smaller, wanted.confidence), number, look, estimate, nonnegative)
    coarse = next_step(Goal(larger, wanted.confidence), number, look, estimate, nonnegative)
    assert fine.needed >= coarse.needed and fine.at_least >= coarse.at_least
    assert _target(fine) >= _target(coarse)


@given(goals, confidences, numbers, looks, estimates, signs)
def test_more_confidence_never_needs_less(
    wanted: Goal, other: Fraction, number: int, look: Precision, estimate: float, nonnegative: bool
) -> None:
    lower, higher = sorted([wanted.confidence, other])
    sure = next_step(Goal(wanted.relative, higher), number, look, estimate, nonnegative)
    unsure = next_step(Goal(wanted.relative, lower), number, look, estimate, nonnegative)
    assert sure.needed >= unsure.needed * (1 - 1e-9)


@given(goals, numbers, looks, estimates, estimates)
def test_a_larger_answer_never_needs_more(wanted: Goal, number: int, look: Precision, one: float, two: float) -> None:
    small, large = sorted([one, two])
    assert next_step(wanted, number, look, large, True).needed <= next_step(wanted, number, look, small, True).needed


@given(goals, numbers, looks, estimates)
def test_without_a_known_sign_both_signs_cost_the_same_and_more(
    wanted: Goal, number: int, look: Precision, estimate: float
) -> None:
    either = next_step(wanted, number, look, estimate, False)
    assert either == next_step(wanted, number, look, -estimate, False)
    assert either.needed >= next_step(wanted, number, look, abs(estimate), True).needed


@given(goals, looks, estimates, signs)
def test_what_is_needed_is_never_below_the_least_that_the_bounds_allow(
    wanted: Goal, look: Precision, estimate: float, nonnegative: bool
) -> None:
    step = next_step(wanted, 1, look, estimate, nonnegative)
    assert 0 < step.at_least <= step.needed


@given(goals, st.booleans())
def test_the_looks_spend_at_most_their_share_of_the_error(wanted: Goal, two_sided: bool) -> None:
    beta = float(1 - wanted.confidence)
    sides = 2 if two_sided else 1
    spent = sum(sides * NormalDist().cdf(-wanted.look_quantile(number, two_sided)) for number in range(1, 99))
    assert spent <= SEARCH_SHARE * beta * (1 + 1e-6)
    assert spent + 2 * NormalDist().cdf(-wanted.final_quantile) <= beta * (1 + 1e-6)


@given(goals, st.floats(1, 1e12))
def test_the_first_look_is_not_already_more_than_the_largest_value_needs(wanted: Goal, largest: float) -> None:
    first = Precision(2 ** wanted.first_look(largest))
    assert first.units == 2**LEAST_LOOK or float(first) <= wanted.needed(largest) / REACH * (1 + 1e-9)


# -- simulations of whole runs ------------------------------------------------------------------


def _failures(wanted: Goal, truth: float, nonnegative: bool, runs: int, depth: int) -> int:
    """Runs of `depth` looks in which any lower bound was above the true size."""
    generator, failures = simulation_rng(3), 0
    for _ in range(runs):
        walk, before, failed = 0.0, 0.0, False
        for number in range(1, depth + 1):
            look = Precision(2 ** (39 + number))
            now = float(look)
            walk += truth * (now - before) + float(generator.standard_normal()) * sqrt(now - before)
            needed = next_step(wanted, number, look, walk / now, nonnegative).needed
            failed |= isfinite(needed) and wanted.final_quantile / (float(wanted.relative) * sqrt(needed)) > abs(truth)
            before = now
        failures += failed
    return failures


@pytest.mark.parametrize(("truth", "nonnegative"), [(200.0, True), (-200.0, False), (0.0, True)])
def test_lower_bounds_fail_together_at_most_as_often_as_promised(truth: float, nonnegative: bool) -> None:
    wanted, runs = Goal(Fraction(1, 50), Fraction(3, 4)), 2000
    allowed = SEARCH_SHARE * 0.25
    failures = _failures(wanted, truth, nonnegative, runs, depth=15)
    assert failures <= runs * allowed + 3 * sqrt(runs * allowed)


def test_that_check_catches_looks_that_do_not_share_their_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def unshared(self: Goal, number: int, two_sided: bool) -> float:
        error = SEARCH_SHARE * float(1 - self.confidence)
        return -NormalDist().inv_cdf(error / 2.0 if two_sided else error)

    monkeypatch.setattr(Goal, "look_quantile", unshared)
    wanted, runs = Goal(Fraction(1, 50), Fraction(3, 4)), 2000
    allowed = SEARCH_SHARE * 0.25
    assert _failures(wanted, 200.0, True, runs, depth=15) > 3 * runs * allowed


def test_the_fresh_increment_covers_and_an_interval_from_all_data_does_not() -> None:
    """The last look was selected for being high, so averaging it in shifts the answer: .55 becomes .52."""
    wanted, truth, runs = Goal(Fraction(9, 10), Fraction(1, 2)), 200.0, 6000
    generator, z = simulation_rng(4), wanted.final_quantile
    fresh = pooled = 0
    for _ in range(runs):
        walk, before, number, look = 0.0, 0.0, 1, Precision(2**36)
        while True:
            now = float(look)
            walk += truth * (now - before) + float(generator.standard_normal()) * sqrt(now - before)
            step = next_step(wanted, number, look, walk / now, True)
            if step.target is not None:
                break
            before, number, look = now, number + 1, look + look
        final = step.needed
        error = float(generator.standard_normal()) / sqrt(final)
        fresh += abs(error) <= z / sqrt(final)
        all_data = (walk - truth * now + final * error) / (now + final)
        pooled += abs(all_data) <= z / sqrt(now + final)
    margin = 3 * sqrt(0.25 / runs)
    assert abs(fresh / runs - 0.55) <= margin
    assert pooled / runs < 0.55 - margin


def test_deciding_by_the_estimate_instead_of_its_lower_bound_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    wanted, truth, runs = Goal(Fraction(1, 2), Fraction(19, 20)), 200.0, 500
    assert _coverage(wanted, truth, runs) >= 0.95
    monkeypatch.setattr(Goal, "look_quantile", lambda self, number, two_sided: 0.0)
    assert _coverage(wanted, truth, runs) < 0.7


def _coverage(wanted: Goal, truth: float, runs: int) -> float:
    generator, covered = simulation_rng(5), 0
    for _ in range(runs):
        _, step = look_until_decided(wanted, truth, Precision(2**LEAST_LOOK), generator)
        error = float(generator.standard_normal()) / sqrt(_target(step))
        covered += abs(error) <= float(wanted.relative) * truth
    return covered / runs


def _target(step: Step) -> float:
    return inf if step.target is None else float(step.target)
