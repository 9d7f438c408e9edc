"""Levels and bytes."""

from __future__ import annotations

import math

import numpy as np
import pytest

from noisebank.core.errors import BadRequest
from noisebank.federated.ldp import Levels, decode, encode, keeps_promise, mechanism
from noisebank.federated.ldp.wire import width

INPUTS = [i / 10 for i in range(-10, 11)]


@pytest.mark.parametrize(("m", "worst"), [(1, 0.551), (2, 0.2535), (5, 0.179), (10, 0.1696), (1000, 0.16653)])
def test_levels_cost_what_was_computed_elsewhere(m, worst):
    base = mechanism("pm-sub", 4.0)
    levels = Levels(base, m)
    assert levels.worst_variance() == pytest.approx(worst, rel=0.0015)
    if m >= 5:
        assert levels.worst_variance() - base.worst_variance() == pytest.approx(levels.reach**2 / (6 * m * m), rel=0.04)


@pytest.mark.parametrize("name", ["pm", "pm-opt", "hm", "hm-tp", "best", "three-outputs", "duchi"])
@pytest.mark.parametrize("m", [1, 7])
def test_the_law_on_levels_is_private_unbiased_and_as_wide_as_promised(name, m):
    levels = Levels(mechanism(name, 1.5), m)
    assert keeps_promise(levels, INPUTS)
    values = levels.value(np.arange(levels.codes))
    parts = (values[: 2 * m + 1], values[2 * m + 1 :]) if levels.base.weights.outer else (values,)
    assert all(part[::-1].tolist() == pytest.approx((-part).tolist()) for part in parts)
    for x in INPUTS:
        share = np.array(levels.law(x).probabilities())
        assert share.sum() == pytest.approx(1.0, abs=1e-12)
        mean = (share * values).sum()
        assert mean == pytest.approx(x, abs=1e-8)
        assert (share * values**2).sum() - mean**2 == pytest.approx(levels.variance(x), abs=1e-7)


def test_three_outputs_take_two_bits():
    made = mechanism("three-outputs", 1.0)
    assert width(made) == width(Levels(made, 1000)) == 2
    assert len(encode(made, made.draw(np.zeros(1000)))) == 250
    assert encode(made, [0, 1, 2, 1]) == bytes([0b00_01_10_01])
    assert width(Levels(mechanism("pm-sub", 1.0), 1000)) == 11


@pytest.mark.parametrize("name", ["laplace", "duchi", "three-outputs", "pm", "best"])
def test_codes_survive_the_wire(name):
    base = mechanism(name, 2.0)
    for made in (base, *([] if name == "laplace" else [Levels(base, 3)])):
        for count in (0, 1, 5, 333):
            codes = made.draw(np.linspace(-1, 1, count))
            assert decode(made, encode(made, codes), count).tolist() == codes.tolist()


def test_refuses_what_no_device_sends():
    made = mechanism("three-outputs", 1.0)
    with pytest.raises(BadRequest, match="bytes"):
        decode(made, b"ab", 4)
    with pytest.raises(BadRequest, match="codes"):
        decode(made, bytes([0b11_00_00_00]), 4)
    with pytest.raises(BadRequest, match="after the last"):
        decode(made, bytes([0b00_00_00_01]), 3)
    with pytest.raises(BadRequest, match="codes"):
        encode(made, [3])
    for bad in (0, -1, 1.5, True, 1 << 16):
        with pytest.raises(BadRequest, match="levels"):
            Levels(made, bad)
    with pytest.raises(BadRequest, match="NaN"):
        Levels(mechanism("pm", 1.0), 4).draw([math.nan])
