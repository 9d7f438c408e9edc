"""The audit's arithmetic, on reports whose shares are known exactly. The whole file takes 0.1 seconds."""

from __future__ import annotations

from math import exp, inf, log

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import rel_entr

from noisebank.core.errors import BadRequest
from noisebank.federated.ldp.audit import audit_epsilon

HALF, CONFIDENCE = 5_000, 0.999
ALLOWED = log(2 / (1 - CONFIDENCE)) / HALF
"""Each of two bounds fails with half of the chance."""


def make_reports(low: list[float], high: list[float]):
    """A mechanism that repeats these reports, on -1 and on +1: both halves of a sample have the same shares."""

    def perturb(inputs: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.resize(np.array(high if inputs[0] > 0 else low), len(inputs))

    return perturb


def find_bound(share: float, end: float) -> float:
    """The probability, towards 0 or 1, that is as unlikely as is allowed."""
    if share == end:
        return share
    return brentq(lambda p: rel_entr(share, p) + rel_entr(1 - share, 1 - p) - ALLOWED, share, end - (end - 0.5) * 2e-12)


@pytest.mark.parametrize(("often", "seldom"), [(3, 1), (2, 2), (1, 3), (3, 2)])
def test_the_bound_is_that_of_chernoff(often: int, seldom: int) -> None:
    low, high = ([1.0] * count + [0.0] * (4 - count) for count in (seldom, often))
    result = audit_epsilon(make_reports(low, high), 0.5, 2 * HALF, CONFIDENCE)
    at_one = log(find_bound(often / 4, 0.0) / find_bound(seldom / 4, 1.0))
    at_zero = -ALLOWED  # "at least 0" happens always: its probability is at least e^-allowed
    assert result.epsilon_lower_bound == pytest.approx(at_one if often > seldom else at_zero, rel=1e-6)
    assert result.is_refuted == (at_one > 0.5) and result.samples == 2 * HALF and result.confidence == CONFIDENCE


def test_an_event_that_never_happens_on_the_other_input_proves_much() -> None:
    result = audit_epsilon(make_reports([0.0], [1.0]), 4.0, 2 * HALF, CONFIDENCE)
    assert result.epsilon_lower_bound == pytest.approx(log(exp(-ALLOWED) / (1 - exp(-ALLOWED))), rel=1e-6)
    assert result.is_refuted


def test_an_event_that_the_second_half_never_sees_proves_nothing() -> None:
    def perturb(inputs: NDArray[np.float64]) -> NDArray[np.float64]:
        reports = np.zeros(len(inputs))
        if inputs[0] > 0:
            reports[: len(reports) // 2] = 1.0
        return reports

    result = audit_epsilon(perturb, 1.0, 2 * HALF, CONFIDENCE)
    assert result.epsilon_lower_bound == -inf and not result.is_refuted


def test_both_halves_are_as_large_as_is_said() -> None:
    sizes: list[int] = []

    def perturb(inputs: NDArray[np.float64]) -> NDArray[np.float64]:
        sizes.append(len(inputs))
        return inputs

    audit_epsilon(perturb, 1.0, 1_001)
    assert sizes == [1_000, 1_000]


@pytest.mark.parametrize(("samples", "confidence"), [(999, 0.9), (1000, 0.0), (1000, 1.0), (1000, -0.1)])
def test_too_few_samples_and_no_confidence_are_refused(samples: int, confidence: float) -> None:
    with pytest.raises(BadRequest, match="at least 1000"):
        audit_epsilon(make_reports([0.0], [1.0]), 1.0, samples, confidence)
