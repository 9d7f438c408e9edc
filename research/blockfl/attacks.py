"""Ten rounds with three attackers among ten members: what Multi-KRUM keeps out, and what it cannot.

Honest members really train (scikit-learn's digits, a small network, the product's own code); attackers see all honest
models before they submit, as a rushing attacker does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from noisebank.core.entropy import simulation_rng
from noisebank.federated.blockfl.device import Examples, SplitTrainer, measure_accuracy
from noisebank.federated.blockfl.examples import read_digits
from noisebank.federated.blockfl.krum import compute_scores, select_lowest
from noisebank.federated.blockfl.models import FIXED_POINT_SCALE, MAX_WEIGHT, Weights, average_weights, to_fixed_point
from noisebank.federated.blockfl.network import SMALL_SHAPE, initialize_weights
from noisebank.federated.blockfl.terms import TaskTerms

MEMBERS, ATTACKERS, ROUNDS = 10, 3, 10
TERMS = TaskTerms("attacks", SMALL_SHAPE, mode="paper", epsilon="10", batch=36, epochs=4)
Attack = Callable[[Weights, Sequence[Weights], Weights], Weights]
"""The round's first model, all honest ones, and what the attacker has trained itself."""
Progress = Callable[[int, int], None]


def sign_flip(before: Weights, honest: Sequence[Weights], own: Weights) -> Weights:
    """Its own update, turned around, three times as far."""
    return _bounded(before - 3 * (own - before))


def scaled(before: Weights, honest: Sequence[Weights], own: Weights) -> Weights:
    """Its own update, ten times as far."""
    return _bounded(before + 10 * (own - before))


def identical(before: Weights, honest: Sequence[Weights], own: Weights) -> Weights:
    """The same model from all attackers: the honest average, moved by 0.9 standard deviations in every weight.

    They are each other's closest neighbours at distance 0, so their scores are lower than honest ones.
    """
    spread = np.std(np.stack(honest), axis=0)
    return _bounded(average_weights(honest) + np.rint(0.9 * spread).astype(np.int64))


ATTACKS: dict[str, Attack] = {"sign-flip": sign_flip, "scaled": scaled, "identical": identical}


@dataclass(frozen=True)
class Attacked:
    """What happened in ten rounds."""

    selected: tuple[int, ...]
    """Attackers among the accepted, in each round."""
    accuracies: tuple[float, ...]

    def plain(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "attackers_selected_by_round": list(self.selected),
            "rounds_with_an_attacker": sum(count > 0 for count in self.selected),
            "accuracy": self.accuracies[-1],
        }


def attacked(attack: Attack, seed: int = 0, rounds: int = ROUNDS) -> Attacked:
    """Ten train, three of them attack, Multi-KRUM decides."""
    training, testing = read_digits(seed)
    source = simulation_rng(seed)

    def words(count: int) -> NDArray[np.uint64]:
        return source.integers(0, 2**64, count, dtype=np.uint64)

    honest_count = MEMBERS - ATTACKERS
    shares = np.arange(len(training))[: len(training) - len(training) % MEMBERS].reshape(MEMBERS, -1)
    members = [SplitTrainer(TERMS, Examples(training.images[own], training.labels[own]), "", words) for own in shares]
    model = to_fixed_point(initialize_weights(SMALL_SHAPE, TERMS.norm, source))
    selected, found = [], []
    for number in range(rounds):
        trained = [to_fixed_point(member.train(model / FIXED_POINT_SCALE, number)) for member in members]
        honest = trained[:honest_count]
        everybody = honest + [attack(model, honest, own) for own in trained[honest_count:]]
        chosen = select_lowest(compute_scores(everybody, ATTACKERS), ATTACKERS)
        selected.append(sum(place >= honest_count for place in chosen))
        model = average_weights([everybody[place] for place in chosen])
        found.append(measure_accuracy(TERMS, model / FIXED_POINT_SCALE, testing))
    return Attacked(tuple(selected), tuple(found))


def attacks(rounds: int = ROUNDS, progress: Progress = lambda done, total: None) -> dict[str, Attacked]:
    """All of them."""
    made = {}
    for done, (name, attack) in enumerate(ATTACKS.items()):
        progress(done, len(ATTACKS))
        made[name] = attacked(attack, rounds=rounds)
    progress(len(ATTACKS), len(ATTACKS))
    return made


def _bounded(weights: Weights) -> Weights:
    return np.clip(weights, -MAX_WEIGHT, MAX_WEIGHT)
