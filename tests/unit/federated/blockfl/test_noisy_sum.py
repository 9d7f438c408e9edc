"""A step of DP-SGD: what one example can move, what the noise is made of, and that torch's generator has no part."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

from noisebank.core.entropy import simulation_rng
from noisebank.federated.blockfl.noisy_sum import (
    STEPS_PER_CLIP,
    compute_clipped_sum,
    compute_noisy_sum,
    sample_batch,
    sample_gaussians,
)


def seeded(seed: int):
    source = simulation_rng(seed)
    return lambda count: source.integers(0, 2**64, count, dtype=np.uint64)


def steps_norm(parts: list[np.ndarray]) -> float:
    return float(np.sqrt(sum(np.square(part.astype(np.float64)).sum() for part in parts)))


@pytest.mark.parametrize("odd", [0.0, 1e-30, 1.0, 3e38, np.inf, -np.inf, np.nan])
def test_one_example_moves_the_sum_by_its_clipping_at_most(odd: float):
    source = simulation_rng(1)
    parts = [source.normal(size=(9, 40, 3)).astype(np.float32), source.normal(size=(9, 7)).astype(np.float32)]
    parts[0][8, 5] = odd
    with_it, without = compute_clipped_sum(parts, 0.5), compute_clipped_sum([part[:8] for part in parts], 0.5)
    assert steps_norm([a - b for a, b in zip(with_it, without, strict=True)]) <= STEPS_PER_CLIP


def test_rounding_of_a_long_sum_does_not_follow_one_example():
    """In 32-bit floats a little more at the beginning of 4,000 additions can decide how each later one is rounded; in
    steps it moves the end by just that little."""
    ones = np.full((4000, 1), 1.0, dtype=np.float32)
    ones[1:] += np.float32(2.0**-12)
    first = compute_clipped_sum([ones], 2.0)[0]
    ones[0] = 1.0 + 2.0**-20
    assert abs(int(compute_clipped_sum([ones], 2.0)[0][0] - first[0])) <= 2.0**-20 * STEPS_PER_CLIP / 2.0 + 1


def test_noise_has_the_size_that_was_paid_for():
    """An empty batch is noise alone. 200,000 draws tell its size to 0.2%; 2% too little is rejected."""
    for scale, good in ((1.0, True), (0.98, False)):
        (noisy,) = compute_noisy_sum([np.zeros((0, 200_000), np.float32)], 0.5, 3.0 * scale, seeded(2))
        assert bool(abs(noisy.std() / 1.5 - 1) < 0.01) is good
        assert (np.rint(noisy / (0.5 / STEPS_PER_CLIP)) == noisy / (0.5 / STEPS_PER_CLIP)).all()
    drawn = sample_gaussians(200_001, seeded(3))
    assert (
        abs(drawn.mean()) < 0.015
        and abs((drawn**4).mean() - 3) < 0.2
        and abs((np.abs(drawn) < 1).mean() - 0.6827) < 0.006
    )
    assert abs(np.corrcoef(drawn[:100_000], drawn[100_001:])[0, 1]) < 0.02


def test_extreme_words_give_finite_noise():
    for word in (0, 2**64 - 1, 2**63):
        assert np.isfinite(sample_gaussians(5, lambda count, word=word: np.full(count, word, dtype=np.uint64))).all()


def test_examples_are_chosen_by_coins_of_their_own():
    assert sample_batch(5, 1).tolist() == [0, 1, 2, 3, 4]
    often = np.zeros(50)
    words = seeded(4)
    for _ in range(4000):
        often[sample_batch(50, 4, words)] += 1
    assert np.abs(often / 4000 - 0.25).max() < 0.04


@pytest.mark.extras
@pytest.mark.filterwarnings("ignore")
def test_no_generator_of_torch_makes_noise_or_chooses(monkeypatch: pytest.MonkeyPatch):
    """It keeps 32 bits of a seed, as the first line shows: few enough to try. With its state put back before each
    training, and its way of drawing taken away, two trainings still differ in every weight."""
    import torch

    from noisebank.federated.blockfl.dp_sgd import DpSgdTrainer
    from noisebank.federated.blockfl.network import SMALL_SHAPE, initialize_weights
    from noisebank.federated.blockfl.terms import TaskTerms
    from support.crowd_member import glyphs

    few = [torch.rand(9, generator=torch.Generator().manual_seed(5 + high)).tolist() for high in (0, 7 << 32)]
    assert few[0] == few[1]
    terms = TaskTerms(
        "one", SMALL_SHAPE, norm="fixed", mode="sound", epsilon="8", delta="1e-3", batch=64, epochs=1, momentum="0"
    )
    weights = initialize_weights(SMALL_SHAPE, "fixed", simulation_rng(1))

    def refuse(*arguments: object, **options: object) -> None:
        raise AssertionError("torch draws")

    for name in ("normal", "rand", "randn", "randperm"):
        monkeypatch.setattr(torch, name, refuse)
    made = []
    for _ in range(2):
        torch.manual_seed(1)
        made.append(DpSgdTrainer(terms, glyphs(1, 128), 1).train(weights, 1))
    moved = made[0] != made[1]
    assert moved[weights != made[0]].mean() > 0.99


def test_a_large_batch_is_clipped_in_parts():
    """Copies in 64 bits of the whole batch, several of them, would take many times its memory."""
    batch = np.ones((64, 2**18), np.float32)
    tracemalloc.start()
    try:
        (total,) = compute_clipped_sum([batch], 1.0)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < 1.5 * batch.nbytes
    assert len(set(total.tolist())) == 1 and 0 < total[0] <= STEPS_PER_CLIP * 64 / 2**9
