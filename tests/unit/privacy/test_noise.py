from __future__ import annotations

import math
from fractions import Fraction

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from noisebank.core.errors import BadRequest
from noisebank.core.units import Precision
from noisebank.privacy.noise import MIN_SCALE, NoiseScale, draw_values_many, fresh_variance, noise_scale

MOST = Fraction(4**57)

variances = st.builds(
    lambda mantissa, exponent: Fraction(mantissa) * Fraction(10) ** exponent,
    st.fractions(min_value=Fraction(1), max_value=Fraction(10), max_denominator=10**12),
    st.integers(-30, 33),
)


def check_guarantees(variance: Fraction) -> NoiseScale:
    found = noise_scale(variance)
    scale = Fraction(found.scale)
    assert scale * scale / 4**found.shift >= variance
    assert scale * scale / 4**found.shift <= variance * (1 + Fraction(1, 2**50))
    assert scale >= MIN_SCALE
    assert scale <= 2**57
    assert found.shift >= 0
    assert found.shift == 0 or variance * 4 ** (found.shift - 1) < MIN_SCALE**2, "a coarser grid would do"
    assert found.variance == scale**2 / 4**found.shift
    return found


@given(variances)
@example(Fraction(1, 10**30))
@example(Fraction(10**30))
@example(Fraction(1, 3))
def test_guarantees_from_tiny_to_huge_variances(variance):
    check_guarantees(variance)


@given(st.integers(2**51, 2**56), st.integers(-3, 3), st.integers(0, 40))
def test_guarantees_at_squares_and_beside_them(root, off, shift):
    check_guarantees((Fraction(root) ** 2 + off) / 4 ** (shift + 30))


@pytest.mark.parametrize("off", [Fraction(-1), -Fraction(1, 10**40), Fraction(0), Fraction(1, 10**40), Fraction(1)])
def test_grid_changes_exactly_at_the_least_scale(off):
    found = check_guarantees(MIN_SCALE**2 + off)
    assert found.shift == (1 if off < 0 else 0)


def test_no_error_where_the_root_is_a_float():
    assert noise_scale(Fraction(4**30)) == NoiseScale(0, 2.0**30)
    assert noise_scale(Fraction(1)) == NoiseScale(26, 2.0**26)


def test_numbers_of_many_digits_are_no_slower():
    # 2^52 times a fraction of thousands of digits: a coarse first guess would walk 2^26 floats
    check_guarantees(Fraction(2**52) * Fraction(3**2000 + 1, 3**2000 - 3**1998))


@given(st.integers(1, 2**300))
@example(1)
@example(10**700)
def test_refuses_more_noise_than_64_bits_hold(excess):
    for variance in (MOST + excess, MOST + Fraction(1, excess)):
        with pytest.raises(BadRequest, match="64 bits") as caught:
            noise_scale(variance)
        assert caught.value.parameter == "precision"


def test_the_largest_noise_is_allowed():
    assert check_guarantees(MOST).scale == 2.0**57
    assert check_guarantees(MOST - 1).scale == 2.0**57


@pytest.mark.parametrize("bad", [Fraction(0), Fraction(-1), Fraction(-1, 10**30)])
def test_refuses_a_variance_that_is_not_positive(bad):
    with pytest.raises(ValueError, match="positive"):
        noise_scale(bad)


@given(st.integers(1, 2**31), st.integers(10**9, 10**20))
def test_a_fresh_measurement_never_costs_more_than_was_paid(sensitivity, units):
    paid = Precision(units)
    variance = fresh_variance(Fraction(sensitivity**2), paid)
    assert variance == Fraction(sensitivity**2) / paid.exact
    if variance <= MOST:
        assert Fraction(sensitivity**2) / noise_scale(variance).variance <= paid.exact


def test_nothing_is_measured_for_nothing():
    with pytest.raises(ValueError, match="costs nothing"):
        fresh_variance(Fraction(1), Precision(0))


def test_the_least_precision_of_a_count_fits():
    scale = noise_scale(fresh_variance(Fraction(1), Precision(10**9)))
    assert math.sqrt(scale.variance) == pytest.approx(31_623, abs=1)


def test_noise_of_several_measurements_is_one_call_per_scale_and_handed_out_once() -> None:
    calls: list[tuple[float, int]] = []
    drawn = iter(range(10_000))

    class Counted:
        def discrete_gaussian(self, scale: float) -> int:
            raise AssertionError("one by one")

        def discrete_gaussians(self, scale: float, count: int) -> list[int]:
            calls.append((scale, count))
            return [next(drawn) for _ in range(count)]

        def token(self, size: int = 32) -> bytes:
            raise AssertionError("no token is needed")

    parts = [([Fraction(0)] * (1 + number % 2), Fraction(1 + number % 3)) for number in range(30)]
    values = draw_values_many(parts, Counted())
    assert [len(part) for part in values] == [len(means) for means, _ in parts]
    handed = [value.numerator for part in values for value in part]
    assert sorted(handed) == list(range(45)) and len(calls) == len({scale for scale, _ in calls})
