"""`reproduce crowd`: chapter 5 of P4 live: a few trainings beside their reference, reputations, attackers.

Figures 5.3 to 5.8 need hours of trainings; those are recorded by `python -m research crowd` and shown by the exhibits
`p4-figure5-3` to `p4-figure5-8`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from noisebank.federated.blockfl.reputation import apply_printed_rule, apply_repaired_rule, simulate_reputation
from research.blockfl.attacks import Attacked, attacks
from research.blockfl.experiments import DIGITS
from research.blockfl.figures import average, describe_setting
from research.blockfl.training import train

Progress = Callable[[int, int], None]
REFERENCE = {
    "ours, no noise": (0.971, 0.971),
    "ours, epsilon 10": (0.978, 0.975),
    "ours, epsilon 2": (0.970, 0.909),
    "ours, epsilon 1": (0.917, 0.689),
    "batch norm, epsilon 2": (0.628, 0.280),
}
"""Digits after two global epochs, clean and noisy test features, by an independent script (three seeds)."""
SPREAD, WIDE = 0.06, 0.12
"""How far a mean of some seeds may be from it; the wide one where accuracy falls steeply."""
CHANGES: dict[str, dict[str, Any]] = {
    "ours, no noise": {},
    "ours, epsilon 10": {"epsilon": 10.0},
    "ours, epsilon 2": {"epsilon": 2.0},
    "ours, epsilon 1": {"epsilon": 1.0},
    "batch norm, epsilon 2": {"epsilon": 2.0, "norm": "batch"},
}
SEQUENCES = {
    "honest": ([], [5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15], [5, 6, 7, 8, 9, 10, 11, 12, 13, 14]),
    "attack in round 1": ([1], [5, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9], [0, 0, 1, 2, 3, 4, 5, 6, 7, 8]),
    "attack in round 4": ([4], [5, 6, 7, 8, 7, 8, 9, 10, 11, 12, 13], [5, 6, 7, 0, 7, 8, 9, 10, 11, 12]),
}
"""Attacks, reputations, rewards: figures 5.11 and 5.10."""
NO_INCENTIVE = [5] * 10


@dataclass(frozen=True)
class CrowdResult:
    """Everything that the command shows."""

    accuracies: dict[str, dict[str, float]]
    seeds: int
    attacks: dict[str, Attacked]

    def plain(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "data": "scikit-learn digits",
            "setting": f"{describe_setting(DIGITS.base)}, two global epochs, {self.seeds} seeds",
            "accuracies": self.accuracies,
            "reference": {name: list(pair) for name, pair in REFERENCE.items()},
            "incentives": incentives(),
            "attacks": {name: found.plain() for name, found in self.attacks.items()},
            "checks": self.checks(),
        }

    def checks(self) -> dict[str, bool]:
        """What must hold."""
        found = {
            "reputations and rewards are those of figures 5.10 and 5.11": all(
                simulate_reputation(rule, bad) == (reputations, rewards)
                for bad, reputations, rewards in SEQUENCES.values()
                for rule in (apply_printed_rule, apply_repaired_rule)
            ),
            "a permanent attacker gains nothing (repaired), and 1 a round below the average as printed": (
                simulate_reputation(apply_repaired_rule, range(1, 11))[0] == [5, *[0] * 10]
                and simulate_reputation(apply_printed_rule, range(1, 11))[0][:4] == [5, 0, 1, 2]
            ),
            "sign-flip and scaled attackers were never selected": all(
                not any(self.attacks[name].selected) for name in ("sign-flip", "scaled")
            ),
            "identical updates were selected: the known limit of Multi-KRUM": any(self.attacks["identical"].selected),
        }
        ours, other = self.accuracies["ours, epsilon 2"], self.accuracies["batch norm, epsilon 2"]
        found["batch norm is clearly worse under noise (epsilon 2)"] = ours["clean"] > other["clean"] + 0.1
        for name, (clean, noisy) in REFERENCE.items():
            row = self.accuracies[name]
            wide = WIDE if name in ("batch norm, epsilon 2", "ours, epsilon 1") else SPREAD
            near = abs(row["clean"] - clean) <= wide and abs(row["noisy"] - noisy) <= wide
            found[f"{name}: within {wide:g} of {clean} / {noisy}"] = near
        return found


def crowd(quick: bool, progress: Progress = lambda done, total: None) -> CrowdResult:
    """Trains what the reference has, quickly with three seeds, and attacks."""
    seeds, accuracies = 3 if quick else 5, {}
    for done, (name, changes) in enumerate(CHANGES.items()):
        progress(done, len(CHANGES) + 1)
        setting = replace(DIGITS.base, **changes)
        made = [train(DIGITS.shape, DIGITS.data(seed), setting, seed) for seed in range(seeds)]
        means = {kind: average([getattr(one, kind)[1] for one in made]) for kind in ("clean", "noisy")}
        accuracies[name] = {kind: mean.value for kind, mean in means.items() if mean}
    return CrowdResult(accuracies, seeds, attacks())


def incentives() -> dict[str, dict[str, list[int]]]:
    """Figures 5.10 and 5.11, printed and repaired, with a permanent attacker."""
    found: dict[str, dict[str, list[int]]] = {"no incentive": {"reward": NO_INCENTIVE}}
    cases = {name: bad for name, (bad, _, _) in SEQUENCES.items()} | {"attack in every round": list(range(1, 11))}
    for name, bad in cases.items():
        for title, rule in (("as printed", apply_printed_rule), ("repaired", apply_repaired_rule)):
            reputations, rewards = simulate_reputation(rule, bad)
            found[f"{name}, {title}"] = {"reputation": reputations, "reward": rewards}
    return found
