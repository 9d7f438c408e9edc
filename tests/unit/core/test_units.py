from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from noisebank.core.errors import BadRequest
from noisebank.core.units import (
    LADDER_BITS,
    MAX_PRECISION,
    ZERO_PRECISION,
    GridValue,
    Precision,
    floor_to_ladder,
    parse_exact,
)
from noisebank.ledger.abi import budget_ledger
from noisebank.ledger.evm import ZERO_ADDRESS, Evm

rationals = st.fractions(min_value=0, max_value=10**6, max_denominator=10**30)
amounts = st.one_of(st.integers(0, 2**40), st.integers(0, 2**200)).map(Precision)


class TestExact:
    @pytest.mark.parametrize(
        ("written", "meant"),
        [
            (0.1, Fraction(1, 10)),
            (1e-6, Fraction(1, 10**6)),
            ("1e-6", Fraction(1, 10**6)),
            ("1/3", Fraction(1, 3)),
            (" 2.50 ", Fraction(5, 2)),
            (Decimal("0.30"), Fraction(3, 10)),
            (Fraction(2, 7), Fraction(2, 7)),
            (-3, Fraction(-3)),
            (0, Fraction(0)),
            (10**500, Fraction(10**500)),
        ],
    )
    def test_is_what_was_written(self, written, meant):
        assert parse_exact(written) == meant

    @given(st.floats(allow_nan=False, allow_infinity=False, min_value=-1e300, max_value=1e300))
    def test_float_is_the_decimal_it_prints_as(self, value):
        assert parse_exact(value) == parse_exact(repr(value)) == Fraction(repr(value))

    @pytest.mark.parametrize(
        "bad",
        [True, False, None, "", "abc", "1/0", "1/x", "0x10", [1], float("nan"), float("inf"), float("-inf"), "nan",
         "sNaN", "Infinity", "1e401", "1e-401", Decimal("1e999999"), "1" * 5000 + "/3", 10**4000, Fraction(1, 10**4000),
         "1." + "3" * 5000],
    )  # fmt: skip
    def test_refuses_what_is_no_ordinary_number(self, bad):
        with pytest.raises(BadRequest) as caught:
            parse_exact(bad, "epsilon")
        assert caught.value.parameter == "epsilon"
        assert "number" in caught.value.allowed

    def test_the_largest_ordinary_numbers_are_taken_and_the_next_are_not(self):
        for inside in ("1e400", "9.99e400", "1e-400", "-1e400"):
            assert parse_exact(inside) == Fraction(inside)
        widest = 2**4096 - 1
        for inside in (widest, Fraction(1, widest), f"1/{widest}"):
            assert parse_exact(inside) == Fraction(inside)
        for beyond in ("1e401", "9e-401", widest + 1, Fraction(1, widest + 1), f"1/{widest + 1}"):
            with pytest.raises(BadRequest):
                parse_exact(beyond)

    @pytest.mark.parametrize("given", ["x" * 99, "1" + "0" * 999 + ".5", "1/" + "x" * 99])
    def test_a_refusal_quotes_the_first_signs_and_no_more(self, given):
        with pytest.raises(BadRequest) as refused:
            parse_exact(given)
        assert refused.value.got == given[:40]


class TestPrecision:
    @pytest.mark.parametrize("bad", [1.0, 0.5, "1", Fraction(1), Decimal(1), True, None])
    def test_units_are_whole_numbers_only(self, bad):
        with pytest.raises(TypeError, match="whole units"):
            Precision(bad)

    def test_is_never_negative(self):
        with pytest.raises(ValueError, match="negative"):
            Precision(-1)
        with pytest.raises(ValueError, match="negative"):
            Precision(1) - Precision(2)

    @pytest.mark.parametrize("rounding", [Precision.ceil, Precision.floor])
    @pytest.mark.parametrize("bad", [0.5, "0.5", Decimal("0.5")])
    def test_rounding_refuses_inexact_numbers(self, rounding, bad):
        with pytest.raises(TypeError, match="exact rational"):
            rounding(bad)

    @given(rationals)
    def test_charges_round_up_and_budgets_down(self, value):
        above, below = Precision.ceil(value), Precision.floor(value)
        assert below.exact <= value <= above.exact
        assert above.units - below.units == (0 if (value * 10**18).denominator == 1 else 1)

    def test_rounding_at_the_smallest_excess(self):
        third = Fraction(1, 3)
        assert Precision.ceil(third).units == 333_333_333_333_333_334
        assert Precision.floor(third).units == 333_333_333_333_333_333
        assert Precision.ceil(Fraction(1, 10**40)) == Precision(1)
        assert Precision.floor(Fraction(1, 10**18) - Fraction(1, 10**40)) == ZERO_PRECISION

    @given(amounts, amounts)
    def test_adds_exactly(self, a, b):
        assert (a + b).exact == a.exact + b.exact
        assert (a + b) - b == a
        assert (a < b) == (a.exact < b.exact)

    def test_reads_as_a_number(self):
        assert not ZERO_PRECISION
        assert Precision(1)
        assert float(Precision(3 * 10**18)) == 3.0
        assert str(Precision(3_390_629_751_142_785_537)) == "3.39063"


class TestLadder:
    @given(amounts)
    def test_never_above_and_loses_little(self, amount):
        step = floor_to_ladder(amount)
        assert step <= amount
        assert (amount.units - step.units) * 2**31 < max(amount.units, 1)

    @given(amounts)
    def test_is_idempotent(self, amount):
        assert floor_to_ladder(floor_to_ladder(amount)) == floor_to_ladder(amount)

    @given(amounts, amounts)
    def test_is_monotone(self, a, b):
        low, high = sorted((a, b))
        assert floor_to_ladder(low) <= floor_to_ladder(high)

    @given(st.integers(1, 2**200), st.integers(1, 2**20))
    def test_distinct_steps_are_well_apart(self, units, gap):
        low, high = floor_to_ladder(Precision(units)), floor_to_ladder(Precision(units + gap * (units >> 33) + gap))
        if low != high:
            assert (high.units - low.units) * 2**32 >= high.units

    @pytest.mark.parametrize("spare", [0, 1, 30, 100])
    def test_neighbouring_steps(self, spare):
        for mantissa in (2**31, 2**31 + 1, 2**32 - 1):
            step = Precision(mantissa << spare)
            following = Precision((mantissa + 1) << spare)
            assert floor_to_ladder(step) == step
            assert floor_to_ladder(following) == following
            assert floor_to_ladder(Precision(following.units - 1)) == step
            assert (following.units - step.units) * 2**LADDER_BITS >= following.units

    @given(st.integers(0, 2**LADDER_BITS - 1))
    def test_small_amounts_are_steps(self, units):
        assert floor_to_ladder(Precision(units)) == Precision(units)


class TestGridValue:
    @given(st.fractions(min_value=-(10**9), max_value=10**9), st.integers(0, 80))
    def test_nearest_is_within_half_a_spacing(self, value, shift):
        found = GridValue.nearest(value, shift)
        assert abs(found.exact - value) <= Fraction(1, 2 ** (shift + 1))
        assert found.shift == shift

    @given(st.integers(-(2**100), 2**100), st.integers(0, 80))
    def test_grid_points_stay(self, numerator, shift):
        point = GridValue(numerator, shift)
        assert point.exact * 2**shift == numerator
        assert GridValue.nearest(point.exact, shift) == point

    def test_halves_go_to_the_even_neighbour(self):
        halves = [GridValue.nearest(Fraction(n, 4), 1).numerator for n in (1, 3, 5, 7, -1, -3)]
        assert halves == [0, 2, 2, 4, 0, -2]

    def test_refuses_floats(self):
        with pytest.raises(TypeError, match="exact rational"):
            GridValue.nearest(0.5, 3)


def test_most_precision_is_what_the_contract_takes():
    """The largest step of the ladder that is no more than the contract's largest amount."""
    machine = Evm(budget_ledger(), 5)
    (most,) = machine.call_view(machine.deploy(ZERO_ADDRESS, budget_ledger().initcode), "MAX_BUDGET")
    assert MAX_PRECISION.units <= most
    assert floor_to_ladder(MAX_PRECISION) == floor_to_ladder(Precision(most))
