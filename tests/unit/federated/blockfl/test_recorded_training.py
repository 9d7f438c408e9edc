"""Training with recorded randomness, compared with what it came to: forward passes, steps and accuracies; a second.

Gradients are held to the loss elsewhere. What is computed in the wrong direction both times is seen here.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from noisebank.core.entropy import simulation_rng
from noisebank.federated.blockfl.device import SplitTrainer, measure_accuracy, sample_laplace
from noisebank.federated.blockfl.network import (
    DIGITS_SHAPE,
    NORMS,
    PAPER_SHAPE,
    SMALL_SHAPE,
    Classifier,
    FeatureExtractor,
    MomentumSgd,
    NetworkShape,
    initialize_weights,
    split_weights,
)  # fmt: skip
from noisebank.federated.blockfl.noisy_sum import sample_batch, sample_gaussians
from noisebank.federated.blockfl.reputation import apply_printed_rule, apply_repaired_rule
from noisebank.federated.blockfl.terms import TaskTerms
from snapshots.comparing import hold_text
from support.crowd_member import glyphs

TINY = NetworkShape(8, (2, 3), (5,))


def words(seed: int) -> Any:
    """The operating system's words, the same in every run."""
    source = np.random.default_rng(seed)
    return lambda count: source.integers(0, 2**64, count, np.uint64)


def describe(*arrays: Any) -> str:
    """Sizes, sums and some numbers: four digits, of which no processor's order of adding changes any."""
    parts = []
    for array in arrays:
        flat = np.asarray(array, dtype=np.float64).ravel()
        weights = np.cos(np.arange(len(flat)))
        numbers = [flat.sum(), (flat * weights).sum(), *flat[:: max(1, len(flat) // 6)][:6]]
        parts.append(f"{np.shape(array)} " + " ".join(f"{round(number, 3) + 0.0:.3f}" for number in numbers))
    return "\n".join(parts)


@pytest.mark.parametrize("norm", NORMS)
def test_a_forward_and_a_backward_pass_come_to_what_they_came_to(norm: str) -> None:
    source = simulation_rng(3)
    weights = initialize_weights(TINY, norm, source)
    extractor = FeatureExtractor(
        TINY, norm, 3.0, split_weights(weights[: TINY.device_weight_count], TINY.device_shapes)
    )
    classifier = Classifier(split_weights(weights[TINY.device_weight_count :], TINY.edge_shapes))
    images, labels = source.random((6, 1, 8, 8)).astype(np.float32), source.integers(0, 10, 6)
    features = extractor.extract_features(images, training=True)
    loss, gradients, outer = classifier.compute_gradients(features / 3, labels)
    calm = extractor.extract_features(images[:2], training=False)
    extractor.extract_features(images, training=True)
    seen = [describe(features, loss, *gradients, outer, calm, *extractor.compute_gradients(outer / 3))]
    seen.append(describe(*extractor.weights, classifier.compute_scores(features)))
    descent = MomentumSgd(classifier.weights, 0.5, 0.9, 0.7)
    for _ in range(3):
        descent.step(gradients)
    seen.append(describe(*classifier.weights))
    hold_text(f"crowd/passes-{norm}.txt", "\n".join(seen))


@pytest.mark.parametrize(("mode", "norm"), [("paper", "bounded"), ("paper", "batch"), ("none", "fixed")])
def test_a_training_comes_to_what_it_came_to(mode: str, norm: str) -> None:
    terms = TaskTerms("glyphs", SMALL_SHAPE, norm=norm, mode=mode, epsilon="40", batch=16, epochs=2)
    examples = glyphs(1, 50)
    weights = initialize_weights(SMALL_SHAPE, norm, simulation_rng(4))
    trainer = SplitTrainer(terms, examples, "", words(5))
    steps: list[tuple[int, int]] = []
    trained = trainer.train(weights, 1, lambda done, total: steps.append((done, total)))
    assert steps == [*((number, 6) for number in range(6)), (1, 1)]
    accuracy = [measure_accuracy(terms, trained, examples, noisy, words(6)) for noisy in (False, True)]
    hold_text(f"crowd/training-{mode}-{norm}.txt", describe(trained, trainer.losses) + f"\n{accuracy}")


def test_noise_is_made_of_words_as_it_was() -> None:
    seen = [
        describe(sample_laplace((3, 4), 2.0, words(7)), sample_gaussians(9, words(8)), sample_batch(40, 4, words(9))),
        str([shape.weight_count for shape in (SMALL_SHAPE, DIGITS_SHAPE, PAPER_SHAPE, TINY)]),
        str([shape.feature_count for shape in (SMALL_SHAPE, DIGITS_SHAPE, PAPER_SHAPE, TINY)]),
    ]
    assert float(sample_laplace((1,), 1.0, lambda count: np.zeros(count, np.uint64))[0]) == pytest.approx(
        -37.43, abs=0.01
    )
    hold_text("crowd/noise.txt", "\n".join(seen))


@pytest.mark.parametrize(
    ("reputation", "accepted", "average", "printed", "repaired"),
    [(4, False, 5, 5, 4), (4, True, 5, 5, 5), (5, False, 5, 0, 0), (6, False, 5, 5, 5), (7, False, 5, 6, 6),
     (5, True, 5, 6, 6), (100, True, 5, 100, 100), (99, True, 5, 100, 100), (0, False, 0, 0, 0)],
)  # fmt: skip
def test_reputations_follow_both_rules(
    reputation: int, accepted: bool, average: int, printed: int, repaired: int
) -> None:
    assert apply_printed_rule(reputation, accepted, average) == printed
    assert apply_repaired_rule(reputation, accepted, average) == repaired
    if not accepted and reputation == 6:
        with pytest.raises(ValueError, match="no rule"):
            apply_printed_rule(6, False, Fraction(11, 2))
        assert apply_repaired_rule(6, False, Fraction(11, 2)) == 5
        assert apply_repaired_rule(5, False, Fraction(11, 2)) == 0
