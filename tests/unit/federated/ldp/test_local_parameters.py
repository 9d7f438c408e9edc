"""Parameters and worst-case variances against numbers computed elsewhere, and against scipy."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy.optimize import brentq, minimize_scalar

from noisebank.core.errors import BadRequest
from noisebank.federated.ldp import MECHANISM_NAMES, find_parameters, make_mechanism
from noisebank.federated.ldp.parameters import HM_THRESHOLD, MAX_EPSILON, MIN_EPSILON, split_epsilon
from noisebank.federated.ldp.tuning import tune_parameters

A_C_T_BETA = {
    0.5: (0.0, 4.08299, 1.133693, 0.0),
    1.0: (0.286077, 2.41848, 1.288757, 0.161674),
    2.0: (0.786986, 1.46955, 1.690646, 0.239696),
    3.0: (0.909443, 1.15719, 2.267097, 0.645082),
    4.0: (0.964663, 1.05597, 3.091759, 0.829003),
    5.0: (0.986703, 1.02035, 4.260886, 0.916395),
    8.0: (0.999330, 1.00101, 11.44472, 0.989692),
}
WORST = {  # Laplace, Duchi, PM, HM, Three-Outputs, PM-OPT, PM-SUB, HM-TP
    0.5: (32, 16.67079, 21.22257, 16.67079, 16.67079, 21.05816, 21.07618, 16.67079),
    1.0: (8, 4.68269, 5.22360, 4.28899, 4.45545, 5.06568, 5.08234, 4.41763),
    2.0: (2, 1.72406, 1.22756, 1.04234, 0.99992, 1.09216, 1.10454, 0.98428),
    3.0: (0.88889, 1.22056, 0.49295, 0.43217, 0.45603, 0.38592, 0.39391, 0.35542),
    4.0: (0.5, 1.07602, 0.24135, 0.21898, 0.31817, 0.16185, 0.16653, 0.15481),
    5.0: (0.32, 1.02732, 0.12990, 0.12148, 0.27412, 0.07349, 0.07608, 0.07265),
    8.0: (0.125, 1.00134, 0.02534, 0.02490, 0.25118, 0.00838, 0.00876, 0.00869),
}
BEST = {0.65: 10.071978, 1.0: 4.267146, 2.0: 0.981696, 2.5: 0.568403, 3.0: 0.352820, 4.0: 0.152188, 8.0: 0.0083286}
GRID = np.linspace(0.05, 8.0, 54)


def worst(name: str, epsilon: float) -> float:
    return find_parameters(name, epsilon).moments.worst_variance()


@pytest.mark.parametrize("epsilon", A_C_T_BETA)
def test_parameters(epsilon):
    hybrid = find_parameters("hm-tp", epsilon)
    found = (hybrid.a, hybrid.atom_size, find_parameters("pm-opt", epsilon).t, hybrid.beta)
    assert found == pytest.approx(A_C_T_BETA[epsilon], rel=5e-6, abs=6e-7)


@pytest.mark.parametrize("epsilon", WORST)
def test_worst_case_variances_to_five_digits(epsilon):
    for name, value in zip(MECHANISM_NAMES, WORST[epsilon], strict=False):
        assert worst(name, epsilon) == pytest.approx(value, abs=5.1e-6), name
        drawn = make_mechanism(name, epsilon).worst_variance()
        assert drawn == pytest.approx(worst(name, epsilon), rel=3e-7), name


@pytest.mark.parametrize("epsilon", BEST)
def test_joint_tuning_finds_the_linear_programme_s_optimum(epsilon):
    """The reference is a linear programme over all mixtures of Three-Outputs and piecewise mechanisms."""
    assert worst("best", epsilon) == pytest.approx(BEST[epsilon], rel=6e-6)


def test_best_is_never_above_any_other():
    for epsilon in GRID:
        assert worst("best", epsilon) <= min(worst(name, epsilon) for name in MECHANISM_NAMES) * (1 + 1e-12)
    assert worst("best", 1.0) < 0.995 * worst("hm", 1.0)


@pytest.mark.parametrize("epsilon", [0.3, 0.7, 1.0, 1.4, 1.71, 1.72, 3.0])
def test_closed_forms_are_optima(epsilon):
    from noisebank.federated.ldp.moments import piecewise_moments, three_outputs_moments

    c = math.exp(epsilon)
    least = min(
        minimize_scalar(
            lambda a: three_outputs_moments(epsilon, a).worst_variance(),
            bounds=(low, high),
            method="bounded",
            options={"xatol": 1e-12},
        ).fun
        for low, high in ((0, 0.02), (0, 0.5 * c / (c + 2)), (0.3 * c / (c + 2), c / (c + 2)))
    )
    assert worst("three-outputs", epsilon) <= least * (1 + 1e-9)
    root = brentq(lambda t: t**4 + 2 * c * t**3 - 2 * c * t - c * c, 0.5, c + 2, xtol=1e-14)
    assert find_parameters("pm-opt", epsilon).t == pytest.approx(root, rel=1e-12)
    hybrid = find_parameters("hm-tp", epsilon)
    atoms, pieces = three_outputs_moments(epsilon, hybrid.a), piecewise_moments(epsilon, hybrid.t)
    direct = minimize_scalar(
        lambda beta: pieces.mix_with(atoms, beta).worst_variance(),
        bounds=(0, 1),
        method="bounded",
        options={"xatol": 1e-12},
    )
    assert hybrid.moments.worst_variance() <= min(direct.fun, atoms.worst_variance()) * (1 + 1e-9)


def test_the_printed_closed_form_of_t_cancels_where_the_root_does_not():
    at = math.log(2) / 2
    assert find_parameters("pm-opt", at).t == pytest.approx(
        (math.sqrt(3 + 2 * math.sqrt(3)) - 1) / math.sqrt(2), rel=1e-12
    )
    assert find_parameters("pm-opt", 20.0).t == pytest.approx(math.exp(20 / 3) / 2 ** (1 / 3), rel=0.01)


def test_thresholds():
    root = math.exp(HM_THRESHOLD / 2)  # the largest variances of HM with and without the piecewise part are equal there
    duchi = ((root**2 + 1) / (root**2 - 1)) ** 2
    mixed = (root + 3) / (3 * root * (root - 1)) + (root**2 + 1) ** 2 / (root * (root**2 - 1) ** 2)
    assert pytest.approx(0.61, abs=0.002) == HM_THRESHOLD and mixed == pytest.approx(duchi, rel=1e-12)
    assert find_parameters("hm", HM_THRESHOLD - 1e-9).beta == 0.0
    assert find_parameters("hm-tp", 0.61098).beta == 0.0 < find_parameters("hm-tp", 0.61099).beta
    assert (
        find_parameters("three-outputs", math.log(2) - 1e-9).a
        == 0.0
        < find_parameters("three-outputs", math.log(2) + 1e-6).a
    )


def test_sampling_wants_another_a():
    found = find_parameters("three-outputs", 1.0, 16.0)
    assert found.a == pytest.approx(0.018, abs=5e-4)
    assert found.moments.worst_variance(16.0) == pytest.approx(74.75, abs=0.006)
    assert find_parameters("three-outputs", 1.0).moments.worst_variance(16.0) == pytest.approx(82.74, abs=0.006)
    assert find_parameters("best", 1.0, 16.0).moments.worst_variance(16.0) < found.moments.worst_variance(16.0)
    assert tune_parameters("hm-tp", 1.0, 16.0).moments.worst_variance(16.0) <= found.moments.worst_variance(16.0)


@pytest.mark.parametrize("bad", [0, -1, 1e-5, 20.5, math.nan, math.inf, "one", None])
def test_refuses_epsilons_that_are_none(bad):
    with pytest.raises(BadRequest, match="epsilon"):
        make_mechanism("pm", bad)


@pytest.mark.parametrize("end", [MIN_EPSILON, MAX_EPSILON])
def test_takes_the_epsilons_at_the_ends(end):
    beyond = math.nextafter(end, 0.0 if end == MIN_EPSILON else math.inf)
    for name in MECHANISM_NAMES:
        assert find_parameters(name, end).epsilon == end
        with pytest.raises(BadRequest, match="epsilon"):
            find_parameters(name, beyond)


def test_refuses_unknown_names_and_scales():
    with pytest.raises(BadRequest, match="must be one of laplace"):
        make_mechanism("gauss", 1.0)
    with pytest.raises(BadRequest, match="scale"):
        make_mechanism("pm", 1.0, 0.5)


@pytest.mark.parametrize("parts", [1, 2, 3, 7, 10, 49])
def test_shares_never_add_up_to_more(parts):
    for epsilon in (0.1, 1.0, 4.0, 0.7):
        assert Fraction(split_epsilon(epsilon, parts)) * parts <= Fraction(epsilon)
        assert split_epsilon(epsilon, parts) == pytest.approx(epsilon / parts, rel=1e-15)
