"""Relative accuracy by one measurement: what is claimed and what is promised, for made-up wishes and answers."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from noisebank.core.errors import BadRequest
from noisebank.core.intervals import quantile_bound
from noisebank.core.units import MIN_PRECISION, floor_to_ladder
from noisebank.planning.pricing import WithinTarget, compute_target, parse_accuracy
from noisebank.planning.relative import DEFAULT_FLOOR_SHARE, RelativeTarget

shares = st.fractions(Fraction(1, 10**6), Fraction(999, 1000), max_denominator=10**6)
confidences = st.fractions(Fraction(1, 2), Fraction(999_999, 1_000_000), max_denominator=10**6)
sizes = st.fractions(Fraction(1, 1000), Fraction(10**9), max_denominator=1000)
wishes = st.builds(RelativeTarget, shares, confidences, sizes)
moves = st.fractions(Fraction(1, 100), Fraction(10**6), max_denominator=100)
numbers = st.fractions(Fraction(-(10**9)), Fraction(10**9), max_denominator=10**6)
places = st.fractions(Fraction(-1), Fraction(1), max_denominator=1000)


@given(wishes, numbers, st.floats(1e-6, 1e9), places)
def test_reached_means_that_every_value_of_the_interval_is_close_enough(
    wanted: RelativeTarget, value: Fraction, stddev: float, place: Fraction
) -> None:
    half = quantile_bound(wanted.confidence) * Fraction(stddev)
    if wanted.is_reached(value, stddev):
        for truth in (value + place * half, value - half, value + half):
            assert abs(value - truth) <= wanted.relative * abs(truth)
    else:  # and not reached means that some value of it is not
        size = abs(value) - half
        assert size <= 0 or half > wanted.relative * size


@given(wishes, moves, st.fractions(Fraction(1), Fraction(10**6), max_denominator=100), places, st.booleans())
def test_a_true_value_above_the_floor_is_seen_to_be_reached_whenever_the_interval_holds(
    wanted: RelativeTarget, sensitivity: Fraction, larger: Fraction, place: Fraction, negative: bool
) -> None:
    assert wanted.floor is not None
    precision = wanted.target_precision(sensitivity)
    truth = wanted.floor * larger * (-1 if negative else 1)
    for where in (place, Fraction(1), Fraction(-1)):
        assert abs(_off(wanted, where)) <= wanted.relative * abs(truth)
        # the noise of the precision that is bought, with a square root that is never too small
        stddev = float(sensitivity / Fraction(float(precision.exact) ** 0.5)) * (1 - 2**-40)
        assert wanted.is_reached(truth + _off(wanted, where), stddev)


def _off(wanted: RelativeTarget, where: Fraction) -> Fraction:
    return where * wanted.within


@given(wishes, moves)
def test_the_price_is_that_of_a_distance_and_on_the_ladder(wanted: RelativeTarget, sensitivity: Fraction) -> None:
    target = wanted.target_precision(sensitivity)
    assert target == max(MIN_PRECISION, WithinTarget(wanted.within, wanted.confidence).target_precision(sensitivity))
    assert floor_to_ladder(target) == target
    assert wanted.with_half_floor().target_precision(sensitivity) >= target


@given(wishes, moves, st.fractions(Fraction(1, 100), Fraction(100), max_denominator=100))
def test_the_unit_does_not_matter(wanted: RelativeTarget, sensitivity: Fraction, unit: Fraction) -> None:
    assert wanted.floor is not None
    scaled = RelativeTarget(wanted.relative, wanted.confidence, wanted.floor * unit)
    assert scaled.target_precision(sensitivity * unit) == wanted.target_precision(sensitivity)


@given(wishes, shares, confidences, sizes, moves)
def test_more_is_never_cheaper(
    wanted: RelativeTarget, share: Fraction, confidence: Fraction, floor: Fraction, sensitivity: Fraction
) -> None:
    assert wanted.floor is not None
    best = RelativeTarget(
        min(wanted.relative, share), max(wanted.confidence, confidence), min(wanted.floor, floor)
    ).target_precision(sensitivity)
    assert best >= wanted.target_precision(sensitivity)


@given(wishes)
def test_what_is_kept_of_a_wish_is_the_wish(wanted: RelativeTarget) -> None:
    assert parse_accuracy(**wanted.to_json()) == wanted


@given(shares, confidences, sizes)
def test_without_a_floor_it_is_a_share_of_the_largest_value(
    share: Fraction, confidence: Fraction, largest: Fraction
) -> None:
    settled = RelativeTarget(share, confidence).with_floor(largest)
    assert settled.floor == largest * DEFAULT_FLOOR_SHARE and settled.with_floor(largest * 7) == settled


@given(wishes, sizes)
def test_zero_is_never_reached(wanted: RelativeTarget, size: Fraction) -> None:
    assume(size > 0)
    assert not wanted.is_reached(Fraction(0), float(size))


def test_a_value_that_can_only_be_zero_has_no_relative_accuracy() -> None:
    with pytest.raises(BadRequest, match="can only be 0"):
        RelativeTarget(Fraction(1, 10), Fraction(9, 10)).with_floor(Fraction(0))
    with pytest.raises(BadRequest, match="floor"):
        compute_target(RelativeTarget(Fraction(1, 10), Fraction(9, 10)), Fraction(1))


@pytest.mark.parametrize(
    "said",
    [
        {"relative": "0"}, {"relative": "1"}, {"relative": "-1%"}, {"relative": "nan"}, {"relative": "1e-9"},
        {"relative": "2%", "floor": "0"}, {"relative": "2%", "floor": "-5"}, {"relative": "2%", "floor": "nan"},
        {"relative": "2%", "floor": "1e999"}, {"floor": "5"}, {"within": "5", "floor": "5"},
        {"relative": "2%", "sigma": "3"}, {"relative": "2%", "within": "3"}, {"relative": "2%", "epsilon": "1"},
        {"relative": "2%", "calibration": "classical"}, {"relative": "2%", "confidence": "1"},
    ],
)  # fmt: skip
def test_nonsense_is_refused(said: dict[str, str]) -> None:
    with pytest.raises(BadRequest):
        parse_accuracy(**said)  # type: ignore[arg-type]


def test_percent_and_share_are_the_same() -> None:
    assert parse_accuracy(relative="2%", floor=100) == parse_accuracy(relative=0.02, floor="1e2")
