"""How good an answer shall be: said in exactly one way, with what goes with it."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

from noisebank.core.errors import BadRequest
from noisebank.core.units import MAX_PRECISION, MIN_PRECISION, Precision
from noisebank.planning.pricing import (
    NoiseTarget,
    PrecisionTarget,
    PrivacyTarget,
    WithinTarget,
    compute_target,
    parse_accuracy,
)
from noisebank.privacy.calibration import Calibration


@pytest.mark.parametrize(
    ("options", "target"),
    [
        ({"sigma": "2.5"}, NoiseTarget(Fraction(5, 2))),
        ({"within": 10}, WithinTarget(Fraction(10), Fraction(95, 100))),
        ({"within": 10, "confidence": "0.9"}, WithinTarget(Fraction(10), Fraction(9, 10))),
        ({"sigma": 1, "confidence": "0.9"}, NoiseTarget(Fraction(1))),  # the confidence of the stated interval
        ({"precision": "1"}, PrecisionTarget(Precision(10**18))),
        ({"epsilon": "0.5", "delta": "1e-6"}, PrivacyTarget(Fraction(1, 2), Fraction(1, 10**6))),
        (
            {"epsilon": "0.5", "delta": "1e-6", "calibration": "classical"},
            PrivacyTarget(Fraction(1, 2), Fraction(1, 10**6), Calibration.CLASSICAL),
        ),
    ],
)
def test_each_way_is_read(options: dict[str, Any], target: object) -> None:
    assert parse_accuracy(**options) == target


@pytest.mark.parametrize(
    ("options", "parameter"),
    [
        ({}, "epsilon"), ({"epsilon": 1}, "delta"), ({"delta": "1e-6"}, "epsilon"), ({"sigma": 0}, "sigma"),
        ({"within": -1}, "within"), ({"sigma": 1, "within": 1}, "sigma and within"),
        ({"sigma": 1, "floor": 1}, "floor"),
        ({"sigma": 1, "confidence": "2"}, "confidence"), ({"within": 1, "calibration": "analytic"}, "calibration"),
        ({"epsilon": 1, "delta": "1e-6", "calibration": "other"}, "calibration"),
        ({"epsilon": 1, "delta": 0}, "delta"), ({"epsilon": 1, "delta": 1}, "delta"),
    ],
)  # fmt: skip
def test_what_does_not_go_together_is_named(options: dict[str, Any], parameter: str) -> None:
    with pytest.raises(BadRequest) as refused:
        parse_accuracy(**options)
    assert refused.value.parameter == parameter


BUDGET = Precision(10**18)
ENDS: list[tuple[dict[str, Any], str, Any, Any]] = [
    ({}, "relative", "0.000001", "0.0000009"), ({}, "relative", "99.99%", "100%"),
    ({"relative": "2%"}, "floor", "1e300", "1.01e300"), ({"relative": "2%"}, "floor", "1e-300", "0"),
    ({"within": 1}, "confidence", "0.001", "0.0009"), ({"within": 1}, "confidence", "0.999999999", "0.9999999991"),
    ({"sigma": 1}, "confidence", "0.001", "0.0009"), ({"sigma": 1}, "confidence", "0.999999999", "0.9999999991"),
    ({"budget": BUDGET}, "spend", "100%", "100.01%"), ({"budget": BUDGET}, "spend", "1e-9", "0"),
    ({}, "sigma", "1e-9", "0"), ({}, "within", "1e-9", "0"), ({}, "precision", "1e-9", "0"),
]  # fmt: skip


@pytest.mark.parametrize(("others", "parameter", "inside", "outside"), ENDS)
def test_the_ends_of_a_range_are_inside_and_what_is_next_is_not(
    others: dict[str, Any], parameter: str, inside: Any, outside: Any
) -> None:
    parse_accuracy(**others, **{parameter: inside})
    with pytest.raises(BadRequest) as refused:
        parse_accuracy(**others, **{parameter: outside})
    assert refused.value.parameter == parameter


def test_a_share_of_the_budget_is_that_share_and_needs_an_account() -> None:
    assert parse_accuracy(spend="25%", budget=BUDGET) == PrecisionTarget(Precision(BUDGET.units // 4))
    assert parse_accuracy(spend=1, budget=BUDGET) == PrecisionTarget(BUDGET)
    with pytest.raises(BadRequest, match="needs an account"):
        parse_accuracy(spend="25%")


def test_a_target_is_one_that_an_account_can_pay_and_that_is_of_use() -> None:
    step = MAX_PRECISION.units >> 8  # targets are on a ladder: one unit more would be rounded off
    for end, beyond in ((MAX_PRECISION, MAX_PRECISION.units + step), (MIN_PRECISION, MIN_PRECISION.units - 1)):
        assert compute_target(PrecisionTarget(end), Fraction(1)) == end
        with pytest.raises(BadRequest, match="precision"):
            compute_target(PrecisionTarget(Precision(beyond)), Fraction(1))
