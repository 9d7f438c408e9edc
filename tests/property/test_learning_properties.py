"""Reports on gradients: clipped whatever they are, unbiased, private by their exact laws; one participation always."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from noisebank.core.errors import AlreadyTookPart
from noisebank.federated.fedsgd import GradientNoise, open_task, published_noise, task_noise
from noisebank.federated.ldp import MECHANISM_NAMES, make_vector_mechanism, satisfies_ldp
from noisebank.federated.ldp.levels import QuantizedMixture
from support.banks import memory_rooms
from support.learning import task

SLOPES = st.floats(-1e12, 1e12, allow_nan=False)
COORDINATES = st.floats(-1.0, 1.0)


@pytest.mark.parametrize("name", MECHANISM_NAMES)
@given(epsilon=st.sampled_from([0.5, 1.0, 4.0]), dimension=st.integers(1, 9), levels=st.sampled_from([0, 1, 7]))
@settings(max_examples=6)
def test_a_report_is_private_for_every_gradient(name: str, epsilon: float, dimension: int, levels: int) -> None:
    """k numbers are sent, each under epsilon/k by its exact law; together at most epsilon."""
    noise = GradientNoise(make_vector_mechanism(name, epsilon, dimension), levels)
    each = noise.vector.coordinate_params.epsilon
    assert Fraction(each) * noise.vector.sent_count <= Fraction(epsilon)
    assert noise.coordinate_mechanism.epsilon == each
    if name != "laplace":  # its law over thousands of codes is checked with the mechanism itself
        assert satisfies_ldp(noise.coordinate_mechanism, [-1.0, -0.3, 0.0, 0.71, 1.0])


@given(slope=SLOPES, row=st.lists(COORDINATES, min_size=3, max_size=3), name=st.sampled_from(MECHANISM_NAMES))
@settings(max_examples=40)
def test_no_report_is_larger_than_that_of_a_clipped_gradient(slope: float, row: list[float], name: str) -> None:
    noise = published_noise(name, 1.0, 3)
    largest = (
        float(np.abs(noise.coordinate_mechanism.to_values([0, noise.coordinate_mechanism.code_count - 1])).max())
        * noise.vector.scale
    )
    found = noise.mean_gradient(np.array([slope]), np.array([row]))
    assert found.shape == (3,) and np.abs(found).max() <= largest * (1 + 1e-9)
    assert np.count_nonzero(found) <= noise.vector.sent_count


@pytest.mark.parametrize("levels", [0, 3])
@pytest.mark.parametrize("name", ["duchi", "pm", "hm", "three-outputs", "pm-opt", "pm-sub", "hm-tp", "best"])
def test_the_law_of_a_sent_number_has_the_clipped_gradient_as_its_mean(name: str, levels: int) -> None:
    """Exact: sum of values times probabilities; a gradient of 3.5 is reported as one of 1."""
    noise = GradientNoise(make_vector_mechanism(name, 1.0, 5), levels)
    assert isinstance(noise.coordinate_mechanism, QuantizedMixture) == bool(levels)
    values = noise.coordinate_mechanism.to_values(np.arange(noise.coordinate_mechanism.code_count))
    for gradient in (-0.6, 0.0, 0.25, 3.5):
        mean = float(np.dot(values, noise.coordinate_mechanism.output_law(gradient).to_probabilities()))
        assert mean == pytest.approx(min(1.0, gradient), abs=1e-6)


@given(st.lists(st.tuples(st.integers(0, 15), st.integers(1, 6)), min_size=1, max_size=8))
@settings(max_examples=25)
def test_no_sequence_of_groups_charges_a_device_twice(wanted: list[tuple[int, int]]) -> None:
    account, taken = open_task(memory_rooms(), task(devices=21, group=3)), set()
    groups = set()
    for start, size in wanted:
        group = (start, start + size)
        if group in groups:
            account.charge_devices(*group)
        elif taken & set(range(*group)):
            with pytest.raises(AlreadyTookPart):
                account.charge_devices(*group)
        else:
            account.charge_devices(*group)
            groups.add(group)
            taken |= set(range(*group))
    charged = [device for group in account.charged_ranges() for device in range(*group)]
    assert len(charged) == len(set(charged)) == len(taken)
    assert account.state.spent == task().device_charge


def test_a_tasks_noise_has_its_epsilon_and_levels() -> None:
    noise = task_noise(task(epsilon="0.7", mechanism="pm-sub", levels=10))
    assert (
        noise.vector.epsilon == 0.7
        and isinstance(noise.coordinate_mechanism, QuantizedMixture)
        and noise.coordinate_mechanism.m == 10
    )
    assert noise.worst_variance() > task_noise(task(epsilon="0.7", mechanism="pm-sub")).worst_variance()
