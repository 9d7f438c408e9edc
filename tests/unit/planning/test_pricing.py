"""How good an answer shall be: said in exactly one way, with what goes with it."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

from noisebank.core.errors import BadRequest
from noisebank.core.units import Precision
from noisebank.planning.pricing import NoiseTarget, PrecisionTarget, PrivacyTarget, WithinTarget, parse_accuracy
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
