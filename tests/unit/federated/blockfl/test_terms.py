"""The terms of a crowd's task: what lies at the ends of each range, and the noise that follows from the batch."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from noisebank.core.errors import BadRequest
from noisebank.federated.blockfl.device import noise_for
from noisebank.federated.blockfl.network import SMALL, Extractor, Shape, split
from noisebank.federated.blockfl.terms import Terms, read_terms

TERMS = Terms("glyphs", SMALL)


@pytest.mark.parametrize(("batch", "bound"), [(2, 1.0), (5, 2.0), (17, 4.0), (4096, 4095**0.5)])
def test_features_are_bounded_by_the_root_of_the_others_in_the_batch(batch: int, bound: float) -> None:
    terms = replace(TERMS, batch=batch)
    assert terms.bound == bound
    weights = np.random.default_rng(1).normal(0, 50, SMALL.device_count)
    weights[-2 * SMALL.features :] = np.abs(weights[-2 * SMALL.features :])
    extractor = Extractor(SMALL, terms.norm, terms.bound, split(weights, SMALL.device_parts))
    images = np.random.default_rng(2).random((8, 1, SMALL.side, SMALL.side), np.float32)
    features = extractor.features(images, training=True)
    assert np.abs(features).max() <= np.float32(bound) * (1 + 1e-6)


@pytest.mark.parametrize(("batch", "epsilon", "scale"), [(2, "2", 1.0), (5, "2", 2.0), (17, "2", 4.0), (17, "8", 1.0)])
def test_the_noise_is_twice_the_bound_over_epsilon(batch: int, epsilon: str, scale: float) -> None:
    """Same random words: only the scale can differ."""

    def words(count: int) -> Any:
        return np.random.default_rng(7).integers(0, 2**64, count, np.uint64)

    one = noise_for(replace(TERMS, batch=2, epsilon="2"), (1000,), words)
    drawn = noise_for(replace(TERMS, batch=batch, epsilon=epsilon), (1000,), words)
    assert np.allclose(drawn, one * scale, rtol=1e-5)
    assert 0.9 < np.abs(one).mean() < 1.1  # the mean size of Laplace noise is its scale


@pytest.mark.parametrize("mode", ["sound", "none"])
def test_other_modes_put_no_noise_on_features(mode: str) -> None:
    assert not np.any(noise_for(replace(TERMS, mode=mode, norm="fixed"), (5,)))


ENDS: list[tuple[str, Any, Any]] = [
    ("batch", 2, 1), ("batch", 4096, 4097), ("epochs", 1, 0), ("epochs", 1000, 1001),
    ("epsilon", "0.01", "0.0099"), ("epsilon", "100", "100.0001"), ("delta", "1e-15", "9e-16"),
    ("delta", "0.1", "0.1000001"), ("rate", "0.000001", "0.0000009"), ("rate", "100", "100.1"),
    ("momentum", "0", "-0"), ("momentum", "0.9999", "0.99991"), ("clip", "0.001", "0.0009"), ("clip", "1000", "1000.1"),
    ("name", "x" * 1000, "x" * 1001), ("ledger", "0x" + "a" * 40, "0x" + "a" * 39),
    ("shape", replace(SMALL, classes=2), replace(SMALL, classes=1)),
    ("shape", replace(SMALL, classes=1000), replace(SMALL, classes=1001)),
    ("shape", replace(SMALL, widths=(4,) * 8), replace(SMALL, widths=(4,) * 9)),
    ("shape", replace(SMALL, side=4), replace(SMALL, side=6)),
    ("shape", replace(SMALL, channels=(1, 1)), replace(SMALL, channels=(0, 1))),
    ("shape", replace(SMALL, widths=(1,)), replace(SMALL, widths=(0,))),
    ("shape", SMALL, Shape(8, (4, 8, 8), (16,))),  # type: ignore[arg-type]
]  # fmt: skip


@pytest.mark.parametrize(("parameter", "inside", "outside"), ENDS)
def test_the_ends_of_a_range_are_inside_and_what_is_next_is_not(parameter: str, inside: Any, outside: Any) -> None:
    terms = replace(TERMS, **{parameter: inside})
    assert read_terms(terms.encode()) == terms
    with pytest.raises(BadRequest):
        replace(TERMS, **{parameter: outside})


@pytest.mark.parametrize("content", [b"", b"[]", b"{}", b"null", TERMS.encode() + b" ", TERMS.encode()[:-1]])
def test_other_documents_are_no_terms(content: bytes) -> None:
    with pytest.raises(BadRequest):
        read_terms(content)


def test_a_sound_task_needs_a_norm_that_mixes_no_examples_and_gradients_that_fit() -> None:
    assert replace(TERMS, mode="sound", norm="fixed").mode == "sound"
    with pytest.raises(BadRequest, match="fixed"):
        replace(TERMS, mode="sound")
    most = 2**28 // (wide := replace(SMALL, widths=(900, 90))).count
    assert 2 <= most < 4096
    assert replace(TERMS, mode="sound", norm="fixed", shape=wide, batch=most).batch == most
    with pytest.raises(BadRequest, match="2\\^28"):
        replace(TERMS, mode="sound", norm="fixed", shape=wide, batch=most + 1)
