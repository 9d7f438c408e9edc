"""The numbers of figures 5.3 to 5.8 of P4 from the trainings that were made: means and errors over seeds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import sqrt
from typing import Any

from research.blockfl.experiments import BATCHES, EPSILON, EPSILONS, Job, Record, Scale
from research.blockfl.training import Setting

QUANTILES = {1: 12.71, 2: 4.303, 3: 3.182, 4: 2.776, 5: 2.571, 6: 2.447, 7: 2.365, 8: 2.306, 9: 2.262}
"""Of Student's distribution at 97.5%, by degrees of freedom."""
KINDS = ("clean", "noisy")
"""Test features without and with the noise of training; the thesis does not say which it tests on."""
FALL = 0.05
"""How much a single training must lose to be called one that fell."""
NORMS = {"ours": "bounded", "batch norm": "batch"}
"""`ours` is the thesis' own normalisation, to [-sqrt(N - 1), sqrt(N - 1)]."""


@dataclass(frozen=True)
class Mean:
    """Of one number per seed. `error` is half of a 95% interval of the mean; None with a single seed."""

    value: float
    error: float | None
    seeds: int

    def plain(self) -> dict[str, Any]:
        """For JSON."""
        return {"mean": self.value, "error": self.error, "seeds": self.seeds}


class Trainings:
    """The records of one scale, by setting and seed."""

    def __init__(self, scale: Scale, records: Sequence[Record]) -> None:
        self.scale = scale
        self._made = {record.key: record.trained for record in records if record.scale == scale.name}
        self.count = len(self._made)
        self._seeds = sorted({made.seed for made in self._made.values()})

    def list_accuracies(self, kind: str, epoch: int, **changed: Any) -> dict[int, float]:
        """By seed, after this global epoch, for the base setting with these changes."""
        setting = replace(self.scale.base, **changed)
        found = {}
        for seed in self._seeds:
            trained = self._made.get(Job(self.scale.name, setting, seed).key())
            if trained is not None and len(trained.clean) >= epoch:
                found[seed] = float(getattr(trained, kind)[epoch - 1])
        return found

    def compare(
        self, kind: str, first: tuple[int, dict[str, Any]], second: tuple[int, dict[str, Any]]
    ) -> Mean | None:  # fmt: skip
        """By how much the second is better than the first, seed by seed; each is a global epoch and changes."""
        before, after = (self.list_accuracies(kind, epoch, **changed) for epoch, changed in (first, second))
        return average([after[seed] - before[seed] for seed in sorted(before.keys() & after.keys())])

    def row(self, epoch: int, **changed: Any) -> dict[str, Any] | None:
        """Both kinds of test features as plain means; None where nothing was trained."""
        means = {kind: average(list(self.list_accuracies(kind, epoch, **changed).values())) for kind in KINDS}
        return {kind: mean.plain() for kind, mean in means.items() if mean} or None

    def figures(self) -> dict[str, dict[str, Any]]:
        """Every figure's points by name, those that were trained."""
        local = dict(zip((20, 30, 40), self.scale.local, strict=True))
        equal = self.scale.equal_steps
        rows = {
            "5.3": {
                **{f"{name}, no noise": self.row(2, norm=norm) for name, norm in NORMS.items()},
                **{
                    f"{name}, epsilon {e:g}": self.row(2, norm=norm, epsilon=e)
                    for name, norm in NORMS.items() for e in EPSILONS
                },
            },
            **{
                number: {
                    f"{name}, batch {n}{', equal steps' if same else ''}": self.row(
                        1, norm=norm, batch=n, epsilon=epsilon,
                        local_epochs=equal.get(n, 0) if same else self.scale.base.local_epochs,
                    )
                    for same in (False, True) for name, norm in NORMS.items() for n in BATCHES
                }
                for number, epsilon in (("5.4", EPSILON), ("5.5", None))
            },
            "5.6": {
                f"batch {n}, global epoch {g}": self.row(g, batch=n, epsilon=EPSILON)
                for n in BATCHES for g in (1, 2, 3)
            },
            "5.7": {
                f"epsilon {e:g}, global epoch {g}": self.row(g, epsilon=e) for e in EPSILONS for g in (1, 2, 3, 4)
            },
            "5.8": {
                f"{paper} local epochs, global epoch {g}": self.row(g, epsilon=EPSILON, local_epochs=ours)
                for paper, ours in local.items() for g in (1, 2, 3, 4)
            },
            "budget divided": {
                f"epsilon {EPSILON:g} over {g} global epochs": self.row(g, epsilon=EPSILON / g) for g in (1, 2, 3, 4)
            },
        }  # fmt: skip
        return {
            number: {name: row for name, row in points.items() if row is not None} for number, points in rows.items()
        }

    def list_falls(self) -> dict[str, Any]:
        """Single trainings of its normalisation under noise that lost more than `FALL` on clean test features.

        From the first global epoch to the second, and from the second to a later one, each beside how many could.
        """
        single = [
            made for made in self._made.values()
            if made.setting.norm == "bounded" and made.setting.epsilon in EPSILONS and len(made.clean) > 1
        ]  # fmt: skip
        longer = [made for made in single if len(made.clean) > 2]
        later = [made for made in longer if min(made.clean[2:]) < made.clean[1] - FALL]
        return {
            "to the second": sum(made.clean[1] < made.clean[0] - FALL for made in single), "of two": len(single),
            "after the second": len(later), "of more": len(longer),
            "which": [
                f"epsilon {made.setting.epsilon:g}, batch {made.setting.batch}, {made.setting.local_epochs} local "
                f"epochs, seed {made.seed}: {', '.join(f'{value:.3f}' for value in made.clean)}"
                for made in single
                if made in later or made.clean[1] < made.clean[0] - FALL
            ],
        }  # fmt: skip

    def measure_effort(self) -> dict[str, float]:
        """Median CPU seconds of one pass over 6,000 images at the thesis' batch size, and the bytes of a model."""
        base = self.scale.base
        seconds = sorted(
            made.seconds_per_epoch for made in self._made.values() if made.setting.batch == base.batch
        )  # fmt: skip
        if not seconds:
            return {}
        return {
            "cpu_seconds_for_6000_images": seconds[len(seconds) // 2] * 6_000 / base.images,
            "model_bytes": 4.0 * self.scale.shape.weight_count,
        }


def average(values: Sequence[float]) -> Mean | None:
    """The mean with its error; None of nothing."""
    count = len(values)
    if not count:
        return None
    mean = sum(values) / count
    if count == 1:
        return Mean(mean, None, 1)
    spread = sqrt(sum((value - mean) ** 2 for value in values) / (count - 1))
    return Mean(mean, QUANTILES[min(count - 1, 9)] * spread / sqrt(count), count)


def describe_setting(setting: Setting) -> str:
    """In words, for captions."""
    clip = "" if setting.clip is None else f", gradients clipped at {setting.clip:g}"
    names = {"momentum": "momentum 0.9", "sgd": "plain descent", "adam": "Adam"}
    inputs = "divided by their bound" if setting.divided else "as printed"
    return (
        f"{setting.members} members with {setting.images:,} images each, {setting.local_epochs} local epochs, "
        f"{names[setting.optimiser]}, rate {setting.rate:g}{clip}, features {inputs}"
    )
