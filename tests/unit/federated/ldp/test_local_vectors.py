"""Vectors by sampling: k, parameters and shapes."""

from __future__ import annotations

import math

import numpy as np
import pytest

from noisebank.core.errors import BadRequest
from noisebank.federated.ldp import (
    MECHANISM_NAMES,
    make_mechanism,
    make_published_vector_mechanism,
    make_vector_mechanism,
)
from noisebank.federated.ldp.vectors import choose_coordinates


def test_k_is_enumerated():
    worst = {k: make_vector_mechanism("pm-sub", 4.0, 16, k).worst_variance() for k in range(1, 17)}
    assert worst[1] == pytest.approx(17.66, abs=0.006)
    assert worst[2] == pytest.approx(15.84, abs=0.006)
    assert make_vector_mechanism("pm-sub", 4.0, 16).sent_count == min(worst, key=worst.get) == 2
    assert make_published_vector_mechanism("pm-sub", 4.0, 16).sent_count == 1


@pytest.mark.parametrize("epsilon", [0.3, 1.0, 2.6, 4.0])
@pytest.mark.parametrize("name", ["duchi", "pm", "three-outputs", "best", "laplace"])
def test_no_k_is_better_than_the_chosen_one(name, epsilon):
    chosen = make_vector_mechanism(name, epsilon, 12)
    assert chosen.worst_variance() <= min(
        make_vector_mechanism(name, epsilon, 12, k).worst_variance() for k in range(1, 13)
    ) * (1 + 1e-12)


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 4.0])
def test_best_is_best_for_vectors_too(epsilon):
    best = make_vector_mechanism("best", epsilon, 16).worst_variance()
    for name in MECHANISM_NAMES:
        assert best <= make_vector_mechanism(name, epsilon, 16).worst_variance() * (1 + 1e-12)
        assert make_vector_mechanism(name, epsilon, 16).worst_variance() <= make_published_vector_mechanism(
            name, epsilon, 16
        ).worst_variance() * (1 + 1e-12)


def test_parameters_fit_the_sampling():
    tuned, published = (
        make_vector_mechanism("three-outputs", 1.0, 16),
        make_published_vector_mechanism("three-outputs", 1.0, 16),
    )
    assert tuned.worst_variance() == pytest.approx(74.75, abs=0.006)
    assert tuned.coordinate_params.a == pytest.approx(0.018, abs=5e-4)
    assert published.worst_variance() == pytest.approx(82.74, abs=0.006)
    assert tuned.variance(1.0) <= tuned.worst_variance()


def test_one_number_is_the_plain_mechanism():
    one = make_vector_mechanism("best", 1.0, 1)
    assert (one.sent_count, one.scale) == (1, 1.0)
    assert one.worst_variance() == pytest.approx(make_mechanism("best", 1.0).worst_variance(), rel=1e-6)


def test_reports_hold_k_scaled_numbers_and_zeros():
    made = make_vector_mechanism("three-outputs", 4.0, 6, 2)
    rows = made.perturb(np.linspace(-1, 1, 600).reshape(100, 6))
    reports = made.draw_reports(np.zeros((50, 6)))
    assert reports.codes.shape == reports.indices.shape == (50, 2)
    assert ((rows != 0).sum(axis=1) <= 2).all()
    levels = np.unique(np.abs(rows))
    assert levels.tolist() == pytest.approx([0.0, 3.0 * made.coordinate_params.atom_size])
    assert made.estimate_mean(reports).shape == (6,)


def test_choices_are_different_and_in_range():
    for dimension, sent in ((1, 1), (5, 5), (7, 3), (100, 1)):
        chosen = choose_coordinates(500, dimension, sent)
        assert chosen.shape == (500, sent)
        assert chosen.min() >= 0 and chosen.max() < dimension
        assert all(len(set(row)) == sent for row in chosen.tolist())


def test_bad_vectors_are_refused():
    made = make_vector_mechanism("pm", 1.0, 3)
    for bad in (0, -2, 1.5, True):
        with pytest.raises(BadRequest, match="dimension"):
            make_vector_mechanism("pm", 1.0, bad)
    with pytest.raises(BadRequest, match="k = 4"):
        make_vector_mechanism("pm", 1.0, 3, 4)
    with pytest.raises(BadRequest, match="epsilon"):
        make_vector_mechanism("pm", 0.0, 3)
    with pytest.raises(BadRequest, match="leaves less"):
        make_vector_mechanism("pm", 0.001, 100, 100)
    with pytest.raises(BadRequest, match="shape"):
        made.draw_reports(np.zeros((2, 4)))
    with pytest.raises(BadRequest, match="NaN"):
        made.draw_reports([[0.0, math.nan, 0.0]])
    assert np.isfinite(made.perturb([[9.0, -9.0, math.inf]])).all()
