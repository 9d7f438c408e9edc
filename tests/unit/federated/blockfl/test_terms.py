"""The terms of a crowd's task: what lies at the ends of each range, and the noise that follows from the batch."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from noisebank.core.errors import BadRequest
from noisebank.federated.blockfl.device import sample_feature_noise
from noisebank.federated.blockfl.network import SMALL_SHAPE, FeatureExtractor, NetworkShape, split_weights
from noisebank.federated.blockfl.terms import TaskTerms, read_terms

TERMS = TaskTerms("glyphs", SMALL_SHAPE)


@pytest.mark.parametrize(("batch", "bound"), [(2, 1.0), (5, 2.0), (17, 4.0), (4096, 4095**0.5)])
def test_features_are_bounded_by_the_root_of_the_others_in_the_batch(batch: int, bound: float) -> None:
    terms = replace(TERMS, batch=batch)
    assert terms.feature_bound == bound
    weights = np.random.default_rng(1).normal(0, 50, SMALL_SHAPE.device_weight_count)
    weights[-2 * SMALL_SHAPE.feature_count :] = np.abs(weights[-2 * SMALL_SHAPE.feature_count :])
    extractor = FeatureExtractor(
        SMALL_SHAPE, terms.norm, terms.feature_bound, split_weights(weights, SMALL_SHAPE.device_shapes)
    )
    images = np.random.default_rng(2).random((8, 1, SMALL_SHAPE.side, SMALL_SHAPE.side), np.float32)
    features = extractor.extract_features(images, training=True)
    assert np.abs(features).max() <= np.float32(bound) * (1 + 1e-6)


@pytest.mark.parametrize(("batch", "epsilon", "scale"), [(2, "2", 1.0), (5, "2", 2.0), (17, "2", 4.0), (17, "8", 1.0)])
def test_the_noise_is_twice_the_bound_over_epsilon(batch: int, epsilon: str, scale: float) -> None:
    """Same random words: only the scale can differ."""

    def words(count: int) -> Any:
        return np.random.default_rng(7).integers(0, 2**64, count, np.uint64)

    one = sample_feature_noise(replace(TERMS, batch=2, epsilon="2"), (1000,), words)
    drawn = sample_feature_noise(replace(TERMS, batch=batch, epsilon=epsilon), (1000,), words)
    assert np.allclose(drawn, one * scale, rtol=1e-5)
    assert 0.9 < np.abs(one).mean() < 1.1  # the mean size of Laplace noise is its scale


@pytest.mark.parametrize("mode", ["sound", "none"])
def test_other_modes_put_no_noise_on_features(mode: str) -> None:
    assert not np.any(sample_feature_noise(replace(TERMS, mode=mode, norm="fixed"), (5,)))


ENDS: list[tuple[str, Any, Any]] = [
    ("batch", 2, 1), ("batch", 4096, 4097), ("epochs", 1, 0), ("epochs", 1000, 1001),
    ("epsilon", "0.01", "0.0099"), ("epsilon", "100", "100.0001"), ("delta", "1e-15", "9e-16"),
    ("delta", "0.1", "0.1000001"), ("rate", "0.000001", "0.0000009"), ("rate", "100", "100.1"),
    ("momentum", "0", "-0"), ("momentum", "0.9999", "0.99991"), ("clip", "0.001", "0.0009"), ("clip", "1000", "1000.1"),
    ("name", "x" * 1000, "x" * 1001), ("ledger", "0x" + "a" * 40, "0x" + "a" * 39),
    ("shape", replace(SMALL_SHAPE, classes=2), replace(SMALL_SHAPE, classes=1)),
    ("shape", replace(SMALL_SHAPE, classes=1000), replace(SMALL_SHAPE, classes=1001)),
    ("shape", replace(SMALL_SHAPE, widths=(4,) * 8), replace(SMALL_SHAPE, widths=(4,) * 9)),
    ("shape", replace(SMALL_SHAPE, side=4), replace(SMALL_SHAPE, side=6)),
    ("shape", replace(SMALL_SHAPE, channels=(1, 1)), replace(SMALL_SHAPE, channels=(0, 1))),
    ("shape", replace(SMALL_SHAPE, widths=(1,)), replace(SMALL_SHAPE, widths=(0,))),
    ("shape", SMALL_SHAPE, NetworkShape(8, (4, 8, 8), (16,))),  # type: ignore[arg-type]
]  # fmt: skip


@pytest.mark.parametrize(("parameter", "inside", "outside"), ENDS)
def test_the_ends_of_a_range_are_inside_and_what_is_next_is_not(parameter: str, inside: Any, outside: Any) -> None:
    terms = replace(TERMS, **{parameter: inside})
    assert read_terms(terms.to_bytes()) == terms
    with pytest.raises(BadRequest):
        replace(TERMS, **{parameter: outside})


@pytest.mark.parametrize(
    ("parameter", "given", "length"),
    [("name", "x" * 2000, 40), ("rate", "9" * 99, 40), ("rate", "x" * 99, 40), ("batch", 10**99, 40),
     ("ledger", "0x" + "5" * 99, 80)],
)  # fmt: skip
def test_a_refusal_quotes_the_first_signs_and_no_more(parameter: str, given: Any, length: int) -> None:
    with pytest.raises(BadRequest) as refused:
        replace(TERMS, **{parameter: given})
    assert refused.value.got == str(given)[:length]


@pytest.mark.parametrize("content", [b"", b"[]", b"{}", b"null", TERMS.to_bytes() + b" ", TERMS.to_bytes()[:-1]])
def test_other_documents_are_no_terms(content: bytes) -> None:
    with pytest.raises(BadRequest):
        read_terms(content)


def test_a_sound_task_needs_a_norm_that_mixes_no_examples_and_gradients_that_fit() -> None:
    assert replace(TERMS, mode="sound", norm="fixed").mode == "sound"
    with pytest.raises(BadRequest, match="fixed"):
        replace(TERMS, mode="sound")
    most = 2**28 // (wide := replace(SMALL_SHAPE, widths=(900, 90))).weight_count
    assert 2 <= most < 4096
    assert replace(TERMS, mode="sound", norm="fixed", shape=wide, batch=most).batch == most
    with pytest.raises(BadRequest, match="2\\^28"):
        replace(TERMS, mode="sound", norm="fixed", shape=wide, batch=most + 1)
