"""Levels and bytes."""

from __future__ import annotations

import math

import numpy as np
import pytest

from noisebank.core.errors import BadRequest
from noisebank.federated.ldp import QuantizedMixture, decode_codes, encode_codes, make_mechanism, satisfies_ldp
from noisebank.federated.ldp.wire import bits_per_code

INPUTS = [i / 10 for i in range(-10, 11)]


@pytest.mark.parametrize(("m", "worst"), [(1, 0.551), (2, 0.2535), (5, 0.179), (10, 0.1696), (1000, 0.16653)])
def test_levels_cost_what_was_computed_elsewhere(m, worst):
    base = make_mechanism("pm-sub", 4.0)
    levels = QuantizedMixture(base, m)
    assert levels.worst_variance() == pytest.approx(worst, rel=0.0015)
    if m >= 5:
        assert levels.worst_variance() - base.worst_variance() == pytest.approx(
            levels.output_bound**2 / (6 * m * m), rel=0.04
        )


@pytest.mark.parametrize("name", ["pm", "pm-opt", "hm", "hm-tp", "best", "three-outputs", "duchi"])
@pytest.mark.parametrize("m", [1, 7])
def test_the_law_on_levels_is_private_unbiased_and_as_wide_as_promised(name, m):
    levels = QuantizedMixture(make_mechanism(name, 1.5), m)
    assert satisfies_ldp(levels, INPUTS)
    values = levels.to_values(np.arange(levels.code_count))
    parts = (values[: 2 * m + 1], values[2 * m + 1 :]) if levels.base.weights.outer else (values,)
    assert all(part[::-1].tolist() == pytest.approx((-part).tolist()) for part in parts)
    for x in INPUTS:
        share = np.array(levels.output_law(x).to_probabilities())
        assert share.sum() == pytest.approx(1.0, abs=1e-12)
        mean = (share * values).sum()
        assert mean == pytest.approx(x, abs=1e-8)
        assert (share * values**2).sum() - mean**2 == pytest.approx(levels.variance(x), abs=1e-7)


def test_three_outputs_take_two_bits():
    made = make_mechanism("three-outputs", 1.0)
    assert bits_per_code(made) == bits_per_code(QuantizedMixture(made, 1000)) == 2
    assert len(encode_codes(made, made.draw_codes(np.zeros(1000)))) == 250
    assert encode_codes(made, [0, 1, 2, 1]) == bytes([0b00_01_10_01])
    assert bits_per_code(QuantizedMixture(make_mechanism("pm-sub", 1.0), 1000)) == 11


@pytest.mark.parametrize("name", ["laplace", "duchi", "three-outputs", "pm", "best"])
def test_codes_survive_the_wire(name):
    base = make_mechanism(name, 2.0)
    for made in (base, *([] if name == "laplace" else [QuantizedMixture(base, 3)])):
        for count in (0, 1, 5, 333):
            codes = made.draw_codes(np.linspace(-1, 1, count))
            assert decode_codes(made, encode_codes(made, codes), count).tolist() == codes.tolist()


def test_refuses_what_no_device_sends():
    made = make_mechanism("three-outputs", 1.0)
    with pytest.raises(BadRequest, match="bytes"):
        decode_codes(made, b"ab", 4)
    with pytest.raises(BadRequest, match="codes"):
        decode_codes(made, bytes([0b11_00_00_00]), 4)
    with pytest.raises(BadRequest, match="after the last"):
        decode_codes(made, bytes([0b00_00_00_01]), 3)
    with pytest.raises(BadRequest, match="codes"):
        encode_codes(made, [3])
    for bad in (0, -1, 1.5, True, 1 << 16):
        with pytest.raises(BadRequest, match="levels"):
            QuantizedMixture(made, bad)
    with pytest.raises(BadRequest, match="NaN"):
        QuantizedMixture(make_mechanism("pm", 1.0), 4).draw_codes([math.nan])
