"""What must hold for any epsilon, input, mechanism and record."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
from hypothesis import example, given, settings
from hypothesis import strategies as st

from noisebank.federated.ldp import (
    NAMES,
    Category,
    Levels,
    Number,
    Oracle,
    Report,
    Schema,
    collect,
    decode,
    encode,
    mechanism,
    parameters,
    published_vector_mechanism,
    vector_mechanism,
)
from noisebank.federated.ldp.law import exp_below, likelihood_ratio
from noisebank.federated.ldp.moments import Moments
from noisebank.federated.ldp.weights import WORDS

few = settings(max_examples=40, deadline=None)
fewer = settings(max_examples=12, deadline=None)

epsilons = st.floats(1e-4, 20.0)
usual = st.floats(0.05, 8.0)
family = st.sampled_from(NAMES[1:])
numbers = st.floats(-1.0, 1.0)


@few
@given(family, epsilons, st.lists(numbers, min_size=1, max_size=6))
@example("hm", 20.0, [0.5])
@example("pm", 20.0, [0.3])
@example("three-outputs", math.log(2) + 1e-12, [0.1])
@example("best", 1e-4, [0.1])
def test_no_pair_of_inputs_can_be_told_apart_by_more_than_epsilon(name, epsilon, inputs):
    made = mechanism(name, epsilon)
    assert likelihood_ratio([made.law(x) for x in (-1.0, 0.0, 1.0, *inputs)]) <= exp_below(epsilon)


@few
@given(family, epsilons)
def test_weights_are_whole_and_keep_their_inequalities(name, epsilon):
    parts = mechanism(name, epsilon).weights
    c = exp_below(epsilon)
    assert 0 < parts.total <= WORDS
    assert parts.inner <= c * parts.outer
    assert parts.level + parts.up * parts.steps <= c * (parts.level - parts.down * parts.steps)
    assert parts.zero <= c * (parts.zero - (parts.up - parts.down) * parts.steps)
    assert parts.total > WORDS * (1 - 1e-3)


@few
@given(family, usual, numbers)
def test_law_is_proper_symmetric_and_unbiased(name, epsilon, x):
    made = mechanism(name, epsilon)
    law, mirrored = made.law(x), made.law(-x)
    assert law.total == mirrored.total or Fraction(law.total, mirrored.total) in (2**16, Fraction(1, 2**16))
    values = [(start + stop - 1, stop - start, weight) for start, stop, weight in law.runs()]
    parts, mean = made.weights, Fraction(0)
    for ends, count, weight in values:
        piecewise = ends < 2 * parts.positions
        offset = Fraction(ends, 2) - (Fraction(parts.positions - 1, 2) if piecewise else parts.positions + 1)
        mean += weight * count * offset * (parts.factor if piecewise else parts.size)
    assert abs(float(mean / law.total) - x) <= 2.0**-16 / made.steps


@few
@given(usual, st.sampled_from([1.0, 2.0, 5.0, 16.0, 100.0]))
def test_best_is_never_above_any_other(epsilon, scale):
    best = parameters("best", epsilon, scale).moments.worst(scale)
    for name in NAMES:
        assert best <= parameters(name, epsilon, scale).moments.worst(scale) * (1 + 1e-12)
        assert best <= parameters(name, epsilon).moments.worst(scale) * (1 + 1e-12)


@few
@given(st.floats(0.01, 10), st.floats(0, 5), st.floats(0, 5), st.floats(1, 50))
def test_worst_is_the_maximum_over_the_range(constant, linear, quadratic, scale):
    moments = Moments(constant, linear, quadratic)
    grid = max(moments.variance(x, scale) for x in np.linspace(0, 1, 2001))
    assert (
        grid <= moments.worst(scale) * (1 + 1e-12) <= grid * (1 + 1e-12) + scale * (linear + 2 * quadratic + 2) / 2000
    )


@fewer
@given(family, st.floats(0.2, 5.0), st.integers(1, 40), st.lists(numbers, max_size=40))
def test_codes_on_levels_survive_the_wire(name, epsilon, m, values):
    levels = Levels(mechanism(name, epsilon), m)
    codes = levels.draw(values)
    assert decode(levels, encode(levels, codes), len(values)).tolist() == codes.tolist()
    assert np.abs(levels.value(codes)).max(initial=0.0) <= max(levels.reach, levels.base.parameters.size) * (1 + 1e-9)


@fewer
@given(family, st.floats(0.2, 6.0), st.integers(1, 15), numbers)
def test_levels_keep_privacy(name, epsilon, m, x):
    levels = Levels(mechanism(name, epsilon), m)
    assert likelihood_ratio([levels.law(value) for value in (-1.0, x, 1.0)]) <= exp_below(epsilon)


@few
@given(epsilons, st.integers(2, 300))
def test_oracles_keep_privacy(epsilon, size):
    oracle = Oracle(epsilon, size)
    assert oracle.ratio() <= exp_below(epsilon)
    assert oracle.total <= WORDS and oracle.q < oracle.p


@fewer
@given(
    st.sampled_from(["duchi", "pm", "hm", "three-outputs", "pm-sub", "hm-tp", "best"]),
    st.floats(0.1, 8),
    st.integers(1, 30),
)
def test_tuned_vectors_are_never_worse_than_published(name, epsilon, dimension):
    tuned, published = vector_mechanism(name, epsilon, dimension), published_vector_mechanism(name, epsilon, dimension)
    assert tuned.worst_variance() <= published.worst_variance() * (1 + 1e-12)
    assert Fraction(tuned.each.epsilon) * tuned.sent <= Fraction(epsilon)


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
    report = collect(record, schema, epsilon, levels=levels)
    assert Report.decode(report.encode(schema), schema) == report
    assert len({place for place, _ in report.fields}) == len(report.fields) >= 1
