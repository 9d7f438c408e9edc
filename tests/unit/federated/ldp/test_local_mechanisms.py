"""The exact law: eps-LDP without a tolerance, unbiased as fractions, with the variance that is promised."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from noisebank.core.errors import BadRequest
from noisebank.federated.ldp import MECHANISM_NAMES, Mechanism, exact_ratio, make_mechanism, satisfies_ldp
from noisebank.federated.ldp.alias import WORDS, AliasTable, round_weights
from noisebank.federated.ldp.law import Law, exp_lower_bound, likelihood_ratio
from noisebank.federated.ldp.parameters import Parameters
from noisebank.federated.ldp.weights import compute_weights

FAMILY = MECHANISM_NAMES[1:]
FINE = [i / 100 for i in range(-100, 101)]


def moments(made, x: float) -> tuple[Fraction, Fraction]:
    """Mean and second moment of the code's offset in the law, exactly, in units of the two public factors."""
    law, parts, mean, square = made.output_law(x), made.weights, Fraction(0), Fraction(0)
    middle = Fraction(parts.output_count - 1, 2)
    for start, stop, weight in law.iter_runs():
        if start < parts.output_count:
            first, last, count = start - middle, stop - 1 - middle, stop - start
            mean += weight * parts.step_size * count * (first + last) / 2
            centre = (first + last) / 2
            square += weight * parts.step_size**2 * (count * centre**2 + Fraction(count * (count * count - 1), 12))
        else:
            for code in range(start, stop):
                value = (code - parts.output_count - 1) * parts.atom_size
                mean, square = mean + weight * value, square + weight * value**2
    return mean / law.total_weight, square / law.total_weight


@pytest.mark.parametrize("epsilon", [0.01, 0.5, 1.0, 2.0, 4.0, 8.0])
@pytest.mark.parametrize("name", FAMILY)
def test_exactly_private_on_a_fine_grid(name, epsilon):
    made = make_mechanism(name, epsilon)
    ratio = exact_ratio(made, FINE)
    assert ratio <= exp_lower_bound(epsilon)
    assert float(ratio) == pytest.approx(math.exp(epsilon), rel=1e-9)  # and nothing is given away


@pytest.mark.parametrize(
    "epsilon", [1.0, pytest.param(0.2, marks=pytest.mark.slow), pytest.param(6.0, marks=pytest.mark.slow)]
)
def test_laplace_is_exactly_private(epsilon):
    made = make_mechanism("laplace", epsilon)
    assert satisfies_ldp(made, (-1.0, -0.1234, 0.0, 1.0))
    assert float(exact_ratio(made, (-1.0, 1.0))) == pytest.approx(math.exp(epsilon), rel=1e-7)


def test_the_exact_check_notices_an_understated_epsilon():
    made = make_mechanism("best", 1.1)
    assert exact_ratio(made, FINE) > exp_lower_bound(1.0)
    wide = compute_weights(Parameters("pm", 1.0, t=math.exp(0.5), beta=1.0))
    broken = Law((0, 5), (wide.inner + wide.outer, wide.outer), 10)
    assert likelihood_ratio([broken, Law((0, 5), (wide.outer, wide.inner + wide.outer), 10)]) > exp_lower_bound(1.0)
    assert likelihood_ratio([Law((0, 1), (1, 0), 2), Law((0, 1), (0, 1), 2)]) == math.inf


@pytest.mark.parametrize("epsilon", [0.01, 0.7, 2.0, 8.0, 20.0])
@pytest.mark.parametrize("name", FAMILY)
def test_exactly_unbiased_on_the_grid_and_nearly_off_it(name, epsilon):
    made = make_mechanism(name, epsilon)
    for position in (-made.steps, -made.steps // 3, 0, 1, made.steps):
        x = position / made.steps
        mean, square = moments(made, x)
        assert mean == Fraction(position, made.steps)
        assert float(square - mean**2) == pytest.approx(made.variance(x), rel=1e-9, abs=1e-12)
    mean, _ = moments(made, 0.1234567)
    assert float(mean) == pytest.approx(0.1234567, abs=2.0**-16 / made.steps)


@pytest.mark.parametrize("name", FAMILY)
def test_worst_variance_is_the_largest(name):
    for epsilon in (0.5, 1.2, 3.0):
        made = make_mechanism(name, epsilon)
        assert made.worst_variance() == pytest.approx(max(made.variance(x) for x in np.linspace(-1, 1, 4001)), rel=1e-6)


@pytest.mark.parametrize("epsilon", [2.0, 20.0])
def test_laplace_law_has_the_promised_mean_and_variance(epsilon):
    made = make_mechanism("laplace", epsilon)
    for x in (0.7, 1.0):
        share = np.array(made.output_law(x).to_probabilities())
        values = made.to_values(np.arange(made.code_count))
        assert share.sum() == pytest.approx(1.0, abs=1e-12)
        assert (share * values).sum() == pytest.approx(x, abs=1e-9 + 2.0**-17 / made.steps)
        assert (share * (values - x) ** 2).sum() == pytest.approx(8 / epsilon**2, rel=1e-6)


@pytest.mark.parametrize("name", MECHANISM_NAMES)
def test_is_a_mechanism_and_takes_any_shape(name):
    made = make_mechanism(name, 1.0)
    assert isinstance(made, Mechanism)
    assert made.perturb(0.5).shape == () and made.perturb([]).shape == (0,)
    assert made.perturb(np.zeros((3, 4, 5))).shape == (3, 4, 5)
    codes = made.draw_codes(np.linspace(-1, 1, 20_000))
    assert codes.min() >= 0 and codes.max() < made.code_count
    known = set(np.round(made.to_values(np.arange(made.code_count)), 12))
    assert set(np.round(made.perturb(np.linspace(-1, 1, 500)), 12)) <= known


@pytest.mark.parametrize("name", MECHANISM_NAMES)
def test_out_of_range_is_clipped_and_nan_refused(name):
    made = make_mechanism(name, 1.0)
    assert made.output_law(7.0) == made.output_law(1.0)
    reach = np.abs(made.to_values([0, made.code_count - 1])).max()
    assert np.abs(made.perturb([5.0, -5.0, math.inf, -math.inf] * 100)).max() <= reach
    with pytest.raises(BadRequest, match="NaN"):
        made.perturb([0.0, math.nan])
    with pytest.raises(BadRequest, match="numbers"):
        made.perturb(["a"])
    for bad in ([made.code_count], [-1], [0.5]):
        with pytest.raises(BadRequest, match="codes"):
            made.to_values(bad)


def test_probabilities_are_proper_where_the_printed_ones_are_not():
    """Eq. 3.1 with its printed sign gives .233 too much or too little at eps = 1, x = 1."""
    c, a = math.e, make_mechanism("three-outputs", 1.0).parameters.a
    printed = (1 - a) / 2 + ((1 - a) / 2 - (c - a) / (c * (c + 1)))
    right = (1 - a) / 2 - ((1 - a) / 2 - (c - a) / (c * (c + 1)))
    law = make_mechanism("three-outputs", 1.0).output_law(1.0)
    assert float(Fraction(law.weights[0], law.total_weight)) == pytest.approx(right, abs=1e-9)
    assert printed - right == pytest.approx(0.2334, abs=1e-3)


@pytest.mark.parametrize("size", [1, 2, 3, 50, 1000, 1024])
def test_alias_tables_hold_their_weights_exactly(size):
    wanted = round_weights([math.exp(-0.01 * i) for i in range(size)], WORDS)
    table = AliasTable(wanted)
    assert table.count_words()[:size] == wanted
    assert sum(table.count_words()[size:]) == 0
    edges = np.array([0, 1, 2**63, 2**64 - 1], dtype=np.uint64)
    assert table.draw_outcomes(edges).max() < size


def test_alias_tables_refuse_weights_that_do_not_add_up():
    with pytest.raises(ValueError, match="add up"):
        AliasTable([1, 2, 3])
