"""What must hold for any epsilon, input, mechanism and record."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
from hypothesis import example, given, settings
from hypothesis import strategies as st

from noisebank.federated.ldp import (
    MECHANISM_NAMES,
    Category,
    FrequencyOracle,
    LdpReport,
    Number,
    QuantizedMixture,
    Schema,
    decode_codes,
    encode_codes,
    find_parameters,
    make_mechanism,
    make_published_vector_mechanism,
    make_report,
    make_vector_mechanism,
)
from noisebank.federated.ldp.law import exp_lower_bound, likelihood_ratio
from noisebank.federated.ldp.moments import ReportMoments
from noisebank.federated.ldp.weights import WORDS

few = settings(max_examples=40, deadline=None)
fewer = settings(max_examples=12, deadline=None)

epsilons = st.floats(1e-4, 20.0)
usual = st.floats(0.05, 8.0)
family = st.sampled_from(MECHANISM_NAMES[1:])
numbers = st.floats(-1.0, 1.0)


@few
@given(family, epsilons, st.lists(numbers, min_size=1, max_size=6))
@example("hm", 20.0, [0.5])
@example("pm", 20.0, [0.3])
@example("three-outputs", math.log(2) + 1e-12, [0.1])
@example("best", 1e-4, [0.1])
def test_no_pair_of_inputs_can_be_told_apart_by_more_than_epsilon(name, epsilon, inputs):
    made = make_mechanism(name, epsilon)
    assert likelihood_ratio([made.output_law(x) for x in (-1.0, 0.0, 1.0, *inputs)]) <= exp_lower_bound(epsilon)


@few
@given(family, epsilons)
def test_weights_are_whole_and_keep_their_inequalities(name, epsilon):
    parts = make_mechanism(name, epsilon).weights
    c = exp_lower_bound(epsilon)
    assert 0 < parts.total_weight <= WORDS
    assert parts.inner <= c * parts.outer
    assert parts.level + parts.up * parts.steps <= c * (parts.level - parts.down * parts.steps)
    assert parts.zero <= c * (parts.zero - (parts.up - parts.down) * parts.steps)
    assert parts.total_weight > WORDS * (1 - 1e-3)


@few
@given(family, usual, numbers)
def test_law_is_proper_symmetric_and_unbiased(name, epsilon, x):
    made = make_mechanism(name, epsilon)
    law, mirrored = made.output_law(x), made.output_law(-x)
    assert law.total_weight == mirrored.total_weight or Fraction(law.total_weight, mirrored.total_weight) in (
        2**16,
        Fraction(1, 2**16),
    )
    values = [(start + stop - 1, stop - start, weight) for start, stop, weight in law.iter_runs()]
    parts, mean = made.weights, Fraction(0)
    for ends, count, weight in values:
        piecewise = ends < 2 * parts.output_count
        offset = Fraction(ends, 2) - (Fraction(parts.output_count - 1, 2) if piecewise else parts.output_count + 1)
        mean += weight * count * offset * (parts.step_size if piecewise else parts.atom_size)
    assert abs(float(mean / law.total_weight) - x) <= 2.0**-16 / made.steps


@few
@given(usual, st.sampled_from([1.0, 2.0, 5.0, 16.0, 100.0]))
def test_best_is_never_above_any_other(epsilon, scale):
    best = find_parameters("best", epsilon, scale).moments.worst_variance(scale)
    for name in MECHANISM_NAMES:
        assert best <= find_parameters(name, epsilon, scale).moments.worst_variance(scale) * (1 + 1e-12)
        assert best <= find_parameters(name, epsilon).moments.worst_variance(scale) * (1 + 1e-12)


@few
@given(st.floats(0.01, 10), st.floats(0, 5), st.floats(0, 5), st.floats(1, 50))
def test_worst_is_the_maximum_over_the_range(constant, linear, quadratic, scale):
    moments = ReportMoments(constant, linear, quadratic)
    grid = max(moments.variance(x, scale) for x in np.linspace(0, 1, 2001))
    assert (
        grid
        <= moments.worst_variance(scale) * (1 + 1e-12)
        <= grid * (1 + 1e-12) + scale * (linear + 2 * quadratic + 2) / 2000
    )


@fewer
@given(family, st.floats(0.2, 5.0), st.integers(1, 40), st.lists(numbers, max_size=40))
def test_codes_on_levels_survive_the_wire(name, epsilon, m, values):
    levels = QuantizedMixture(make_mechanism(name, epsilon), m)
    codes = levels.draw_codes(values)
    assert decode_codes(levels, encode_codes(levels, codes), len(values)).tolist() == codes.tolist()
    assert np.abs(levels.to_values(codes)).max(initial=0.0) <= max(
        levels.output_bound, levels.base.parameters.atom_size
    ) * (1 + 1e-9)


@fewer
@given(family, st.floats(0.2, 6.0), st.integers(1, 15), numbers)
def test_levels_keep_privacy(name, epsilon, m, x):
    levels = QuantizedMixture(make_mechanism(name, epsilon), m)
    assert likelihood_ratio([levels.output_law(value) for value in (-1.0, x, 1.0)]) <= exp_lower_bound(epsilon)


@few
@given(epsilons, st.integers(2, 300))
def test_oracles_keep_privacy(epsilon, size):
    oracle = FrequencyOracle(epsilon, size)
    assert oracle.likelihood_ratio() <= exp_lower_bound(epsilon)
    assert oracle.total_weight <= WORDS and oracle.q < oracle.p


@fewer
@given(
    st.sampled_from(["duchi", "pm", "hm", "three-outputs", "pm-sub", "hm-tp", "best"]),
    st.floats(0.1, 8),
    st.integers(1, 30),
)
def test_tuned_vectors_are_never_worse_than_published(name, epsilon, dimension):
    tuned, published = (
        make_vector_mechanism(name, epsilon, dimension),
        make_published_vector_mechanism(name, epsilon, dimension),
    )
    assert tuned.worst_variance() <= published.worst_variance() * (1 + 1e-12)
    assert Fraction(tuned.coordinate_params.epsilon) * tuned.sent_count <= Fraction(epsilon)


attributes = st.lists(
    st.one_of(
        st.builds(lambda low, width: (low, low + width), st.floats(-100, 100), st.floats(0.1, 50)), st.integers(2, 40)
    ),
    min_size=1,
    max_size=6,
)


@fewer
@given(attributes, st.floats(0.2, 8.0), st.integers(1, 2000), st.randoms(use_true_random=False))
def test_reports_on_any_record_survive_the_wire(shape, epsilon, levels, choice):
    parts = [
        Number(f"n{i}", *part) if isinstance(part, tuple) else Category(f"c{i}", tuple(map(str, range(part))))
        for i, part in enumerate(shape)
    ]
    schema = Schema(tuple(parts))
    record = {
        part.name: choice.uniform(part.low - 5, part.high + 5)
        if isinstance(part, Number)
        else choice.choice(part.values)
        for part in parts
    }
    report = make_report(record, schema, epsilon, levels=levels)
    assert LdpReport.decode(report.encode(schema), schema) == report
    assert len({place for place, _ in report.fields}) == len(report.fields) >= 1
