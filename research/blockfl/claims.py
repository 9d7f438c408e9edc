"""What chapter 5 of P4 claims of its figures 5.3 to 5.8, and whether the trainings bear it out.

A claim is a number of differences that must be above 0, each measured seed by seed. It holds if every difference has a
95% interval above 0, fails if one has an interval below 0, and is undecided otherwise. With fewer seeds than planned
there is no verdict, only their number.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from research.blockfl.experiments import EPSILON, SEEDS
from research.blockfl.figures import KINDS, Mean, Trainings, average

Point = tuple[int, dict[str, Any]]
"""A global epoch, and what differs from the base setting."""


@dataclass(frozen=True)
class Claim:
    """A sentence of the thesis as differences: pairs of points of which the second must be better."""

    figure: str
    printed: str
    pairs: Callable[[Trainings], Sequence[tuple[str, Point, Point]]]
    least: float | None = None
    """Instead of better than the first point: at least this accurate."""


@dataclass(frozen=True)
class Verdict:
    """Of one claim at one scale, on one kind of test features."""

    word: str
    differences: tuple[tuple[str, Mean], ...]


def list_claims() -> list[Claim]:
    """In the order of the figures."""
    noise = {"epsilon": EPSILON}
    return [
        Claim("5.3", "Its normalisation beats batch norm at every epsilon.", lambda made: [
            (f"epsilon {e:g}: ours over batch norm", (2, {"norm": "batch", "epsilon": e}), (2, {"epsilon": e}))
            for e in (1.0, 2.0, 5.0, 10.0)
        ]),
        Claim("5.3", "More epsilon, more accuracy.", lambda made: [
            (f"epsilon {high:g} over {low:g}", (2, {"epsilon": low}), (2, {"epsilon": high}))
            for low, high in ((1.0, 2.0), (2.0, 5.0), (5.0, 10.0))
        ]),
        Claim("5.4", "With noise, accuracy falls as the batch grows (first global epoch).", lambda made: [
            (f"batch {small} over {large}", (1, noise | {"batch": large}), (1, noise | {"batch": small}))
            for small, large in ((32, 64), (64, 128))
        ]),
        Claim("5.4", "The same with as many steps for each batch size.", lambda made: [
            (f"batch {small} over {large}", (1, noise | _equal(made, large)), (1, noise | _equal(made, small)))
            for small, large in ((32, 64), (64, 128))
        ]),
        Claim("5.5", "Without noise, batch norm beats its normalisation.", lambda made: [
            (f"batch {n}: batch norm over ours", (1, {"batch": n}), (1, {"batch": n, "norm": "batch"}))
            for n in (32, 64, 128)
        ]),
        Claim("5.5", "Without noise, too, accuracy falls as the batch grows.", lambda made: [
            (f"{name}: batch {small} over {large}", (1, {"norm": norm, "batch": large}),
             (1, {"norm": norm, "batch": small}))
            for name, norm in (("ours", "bounded"), ("batch norm", "batch")) for small, large in ((32, 64), (64, 128))
        ]),
        Claim("5.6", "Two global epochs are better than one.", lambda made: [
            ("global epoch 2 over 1", (1, noise), (2, noise)),
        ]),
        Claim("5.6", "Two global epochs are better than three.", lambda made: [
            (f"batch {n}: global epoch 2 over 3", (3, noise | {"batch": n}), (2, noise | {"batch": n}))
            for n in (32, 64, 128)
        ]),
        Claim("5.6", "Without noise, accuracy increases with the number of global epochs.", lambda made: [
            (f"no noise: global epoch {g + 1} over {g}", (g, {}), (g + 1, {})) for g in (1, 2, 3)
        ]),
        Claim("5.7", "At least 90% after two global epochs for epsilon above 1.", lambda made: [
            (f"epsilon {e:g}", (2, {"epsilon": e}), (2, {"epsilon": e})) for e in (2.0, 5.0, 10.0)
        ], 0.9),
        Claim("5.7", "After three or four global epochs accuracy may be lower than after two.", lambda made: [
            (f"epsilon {EPSILON:g}: global epoch 2 over {g}", (g, noise), (2, noise)) for g in (3, 4)
        ]),
        Claim("5.7", "Read otherwise: epsilon 2 for the whole task, two global epochs beat three and four.",
              lambda made: [
            (f"2 global epochs over {g}", (g, {"epsilon": EPSILON / g}), (2, {"epsilon": EPSILON / 2})) for g in (3, 4)
        ]),
        Claim("5.8", "Fewer local epochs need more global ones.", lambda made: [
            (f"global epoch 4 over 2 with {local} local epochs", (2, noise | {"local_epochs": local}),
             (4, noise | {"local_epochs": local})) for local in made.scale.local[:2]
        ]),
        Claim("5.8", "With 40 local epochs two global ones are enough: accuracy drops after them.", lambda made: [
            (f"40 local epochs: global epoch 2 over {g}", (g, noise | {"local_epochs": made.scale.local[2]}),
             (2, noise | {"local_epochs": made.scale.local[2]})) for g in (3, 4)
        ]),
        Claim("5.4", "97% is reached with epsilon at most 10 (section 5.4).", lambda made: [
            ("epsilon 10, four global epochs", (4, {"epsilon": 10.0}), (4, {"epsilon": 10.0}))
        ], 0.97),
    ]  # fmt: skip


def judge(claim: Claim, made: Trainings, kind: str) -> Verdict | None:
    """The verdict; None where a training is missing."""
    differences = list(_measure(claim, made, kind))
    if any(found is None for _, found in differences):
        return None
    known = tuple((name, found) for name, found in differences if found is not None)
    if (fewest := min(found.seeds for _, found in known)) < SEEDS:
        return Verdict(f"{fewest} of {SEEDS} seeds", known)
    if all(found.value - (found.error or 0.0) > 0 for _, found in known):
        return Verdict("holds", known)
    if any(found.value + (found.error or 0.0) < 0 for _, found in known):
        return Verdict("fails", known)
    return Verdict("undecided", known)


def judge_all(made: Trainings) -> list[dict[str, Any]]:
    """For JSON: each claim with its verdict on clean and on noisy test features."""
    rows = []
    for claim in list_claims():
        verdicts = {kind: judge(claim, made, kind) for kind in KINDS}
        rows.append({
            "figure": claim.figure, "printed": claim.printed,
            **{
                kind: None if verdict is None else {
                    "verdict": verdict.word,
                    "differences": {name: found.plain() for name, found in verdict.differences},
                }
                for kind, verdict in verdicts.items()
            },
        })  # fmt: skip
    return rows


def _measure(claim: Claim, made: Trainings, kind: str) -> Iterator[tuple[str, Mean | None]]:
    for name, first, second in claim.pairs(made):
        if claim.least is None:
            yield name, made.compare(kind, first, second)
        else:
            found = made.list_accuracies(kind, second[0], **second[1])
            yield name, average([value - claim.least for value in found.values()])


def _equal(made: Trainings, batch: int) -> dict[str, Any]:
    """A batch size with the local epochs that make as many steps as the default."""
    return {"batch": batch, "local_epochs": made.scale.equal_steps.get(batch, 0)}
