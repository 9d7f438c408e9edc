"""The network in two parts, the edge worker, the noise, terms and what is promised."""

from __future__ import annotations

import threading
from pathlib import Path

import numpy as np
import pytest

from noisebank.core.entropy import simulation_rng
from noisebank.core.errors import BadRequest, BadTable, OutcomeUnknown
from noisebank.federated.blockfl.device import SplitTrainer, measure_accuracy, sample_laplace
from noisebank.federated.blockfl.edge import EdgeWorker
from noisebank.federated.blockfl.examples import read_examples
from noisebank.federated.blockfl.guarantee import describe_guarantee
from noisebank.federated.blockfl.network import (
    DIGITS_SHAPE,
    NORMS,
    PAPER_SHAPE,
    SHAPES,
    SMALL_SHAPE,
    Classifier,
    FeatureExtractor,
    NetworkShape,
    initialize_weights,
    split_weights,
)
from noisebank.federated.blockfl.terms import TaskTerms, read_terms
from support.crowd_member import glyphs

TERMS = TaskTerms("glyphs", SMALL_SHAPE, epsilon="10", batch=16, epochs=6)


@pytest.fixture
def edge():
    seen: list[tuple[str, bytes]] = []
    worker = EdgeWorker(observe=lambda kind, body: seen.append((kind, body)))
    threading.Thread(target=worker.serve_devices, daemon=True).start()
    yield worker, seen
    worker.close()


@pytest.mark.parametrize("norm", NORMS)
def test_gradients_are_those_of_the_loss(norm: str):
    source = simulation_rng(0)
    shape = NetworkShape(8, (2, 3), (5,))
    weights = initialize_weights(shape, norm, source)
    images, labels = source.random((6, 1, 8, 8)).astype(np.float32), source.integers(0, 10, 6)

    def loss(flat: np.ndarray) -> tuple[float, np.ndarray]:
        extractor = FeatureExtractor(
            shape, norm, 3.0, split_weights(flat[: shape.device_weight_count], shape.device_shapes)
        )
        classifier = Classifier(split_weights(flat[shape.device_weight_count :], shape.edge_shapes))
        found, _, outer = classifier.compute_gradients(extractor.extract_features(images, training=True) / 3, labels)
        return found, np.concatenate([part.ravel() for part in extractor.compute_gradients(outer / 3)])

    _, gradient = loss(weights)
    wrong = 0
    for place in source.choice(len(gradient), 40, replace=False):
        step = np.zeros_like(weights)
        step[place] = 2e-3
        numeric = (loss(weights + step)[0] - loss(weights - step)[0]) / 4e-3
        wrong += abs(numeric - gradient[place]) > 2e-3 + 0.05 * abs(numeric)
    assert wrong <= 3  # a maximum that changes within the step has no derivative


def test_split_training_learns_and_the_worker_sees_noise_and_labels_only(edge):
    worker, seen = edge
    examples, tested = glyphs(5, 128), glyphs(6, 200)
    weights, noise = (
        initialize_weights(SMALL_SHAPE, TERMS.norm, simulation_rng(1)),
        simulation_rng(101),
    )  # one noise in twelve learns too slowly

    def words(count: int) -> np.ndarray:
        return noise.integers(0, 2**64, count, dtype=np.uint64)

    for round in (1, 2):
        weights = SplitTrainer(TERMS, examples, worker.endpoint, words).train(weights, round)
    assert measure_accuracy(TERMS, weights, tested) > 0.8
    assert {kind for kind, _ in seen} == {"features", "labels"}
    batches = [np.frombuffer(body, dtype="<f4") for kind, body in seen if kind == "features"]
    assert all(len(batch) == 16 * SMALL_SHAPE.feature_count for batch in batches)
    # noise of scale 2 B / epsilon on features in [-B, B], seen as shares of B: scale 0.2, so some leave [-1, 1]
    assert np.mean(np.abs(np.concatenate(batches)) > 1) > 0.05


def test_near_and_far_training_are_the_same(edge):
    worker, _ = edge
    examples = glyphs(5, 48)
    terms = TaskTerms("x", SMALL_SHAPE, mode="none", batch=16, epochs=2)
    weights = initialize_weights(SMALL_SHAPE, terms.norm, simulation_rng(1))

    def words(count: int) -> np.ndarray:
        return np.arange(count, dtype=np.uint64)

    near = SplitTrainer(terms, examples, "", words).train(weights, 1)
    far = SplitTrainer(terms, examples, worker.endpoint, words).train(weights, 1)
    assert near == pytest.approx(far, abs=1e-6)


@pytest.mark.parametrize("factor", [0.7, 1.0, 1.3])
def test_noise_has_the_scale_that_is_said(factor: float):
    drawn = sample_laplace((200_000,), 1.0).astype(np.float64) * factor
    near = abs(np.abs(drawn).mean() - 1.0) < 0.015 and abs(drawn.mean()) < 0.015
    assert near == (factor == 1.0)


def test_an_edge_worker_that_is_gone_is_said():
    with pytest.raises(OutcomeUnknown, match="does not answer"):
        SplitTrainer(TERMS, glyphs(5, 48), "127.0.0.1:1").train(
            initialize_weights(SMALL_SHAPE, TERMS.norm, simulation_rng(1)), 1
        )
    for endpoint in ("nowhere", ":8000", "nowhere:", "nowhere:port"):
        with pytest.raises(BadRequest, match="host:port"):
            SplitTrainer(TERMS, glyphs(5, 48), endpoint).train(
                initialize_weights(SMALL_SHAPE, TERMS.norm, simulation_rng(1)), 1
            )


def test_named_shapes_have_the_sizes_of_models_that_were_stored():
    sizes = {name: (shape.device_weight_count, shape.weight_count) for name, shape in SHAPES.items()}
    assert sizes == {"paper": (29_820, 156_818), "digits": (6_560, 29_514), "small": (400, 1_098)}


def test_the_papers_network_has_3920_features_and_nearly_its_bytes():
    assert PAPER_SHAPE.feature_count == 3920 and DIGITS_SHAPE.feature_count == 320
    trained = 4 * (PAPER_SHAPE.weight_count - 2 * PAPER_SHAPE.feature_count)
    assert abs(trained / 617_800 - 1) < 0.05


def test_terms_have_one_spelling_and_bad_ones_are_refused():
    assert read_terms(TERMS.to_bytes()) == TERMS
    for wrong in (b"", b"{}", TERMS.to_bytes() + b" ", TERMS.to_bytes().replace(b'"side":8', b'"side":8.0')):
        with pytest.raises(BadRequest):
            read_terms(wrong)
    for changed in ({"mode": "secret"}, {"norm": "none"}, {"epsilon": "0"}, {"delta": "1"}, {"batch": 1},
                    {"mode": "sound"}, {"momentum": "1"}, {"shape": NetworkShape(28, (64, 512), (512,))}):  # fmt: skip
        with pytest.raises(BadRequest):
            TaskTerms(**{"name": "x", "shape": SMALL_SHAPE, **changed})


def test_promises_are_honest():
    paper = describe_guarantee(TaskTerms("x", PAPER_SHAPE, epsilon="2", epochs=40), 2)
    assert paper.epsilon == float("inf") and paper.to_json()["epsilon_of_an_example"] is None
    assert any("epsilon 7840" in line and "627200" in line for line in paper.not_protected)
    sound = describe_guarantee(TaskTerms("x", SMALL_SHAPE, norm="fixed", mode="sound", epsilon="4"), 3)
    assert sound.epsilon == 4.0 and sound.delta == 1e-5
    assert describe_guarantee(TaskTerms("x", SMALL_SHAPE, mode="none"), 3).protects == "nothing"


def test_examples_from_a_file(tmp_path: Path):
    own = glyphs(3, 20)
    np.savez(tmp_path / "own.npz", images=own.images, labels=own.labels)
    assert len(read_examples(str(tmp_path / "own.npz"), 8)) == 20
    with pytest.raises(BadTable, match="28 x 28"):
        read_examples(str(tmp_path / "own.npz"), 28)
    with pytest.raises(BadTable, match="cannot be read"):
        read_examples(str(tmp_path / "other.npz"), 8)
