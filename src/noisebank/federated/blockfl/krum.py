"""Multi-KRUM in exact integers: which submissions of a round are accepted, recomputable by anybody.

R updates of which f may be malicious, R > 2 f + 2. An update's score is the sum of its squared distances to the
R - f - 2 closest others; the R - f with the lowest scores are kept. Distances of updates are distances of models,
since all start from the same one.

It is a filter against outliers, not a proof of honesty: f members that submit nearly the same update have tiny
distances to each other, hence low scores, and displace honest ones (`research.blockfl.attacks` shows it).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum

import numpy as np

from noisebank.federated.blockfl.identifiers import identifier
from noisebank.federated.blockfl.models import BadModel, Model, Weights, average, read_model
from noisebank.federated.blockfl.store import Store

CHUNK = 64
"""Differences have 28 bits, squares 56: so many of them fit 63 bits."""


class Verdict(IntEnum):
    """Of a submission; the values are the contract's."""

    ACCEPTED = 1
    OUTLIER = 2
    MISSING = 3
    MALFORMED = 4


@dataclass(frozen=True)
class Entry:
    """One submission as the ledger has it."""

    member: str
    digest: bytes


@dataclass(frozen=True)
class Judgement:
    """What follows from a round's submissions and the store."""

    verdicts: tuple[Verdict, ...]
    scores: tuple[int | None, ...]
    reasons: tuple[str, ...]
    """Why a submission is missing or malformed, else empty."""
    model: bytes
    """The average, encoded."""

    @property
    def packed(self) -> int:
        """As the contract takes them: four bits each, the first lowest."""
        return sum(int(verdict) << (4 * place) for place, verdict in enumerate(self.verdicts))


def squared_distance(one: Weights, other: Weights) -> int:
    """Exact."""
    squares = (one - other) ** 2
    starts = np.arange(0, len(squares), CHUNK)
    return sum(np.add.reduceat(squares, starts).tolist()) if len(squares) else 0


def scores(updates: Sequence[Weights], byzantine: int) -> list[int]:
    """Sums of squared distances to the R - f - 2 closest others (equation 5.1).

    >>> from noisebank.federated.blockfl.models import fixed, STEPS
    >>> found = scores([fixed(np.array([x])) for x in (0, .1, .2, .3, .4, 10)], 1)
    >>> [round(score / STEPS**2, 2) for score in found]
    [0.14, 0.06, 0.06, 0.06, 0.14, 282.29]
    """
    closest = len(updates) - byzantine - 2
    found: list[list[int]] = [[] for _ in updates]
    for i, one in enumerate(updates):
        for j in range(i):
            distance = squared_distance(one, updates[j])
            found[i].append(distance)
            found[j].append(distance)
    return [sum(sorted(row)[: max(0, closest)]) for row in found]


def kept(rated: Sequence[int], byzantine: int) -> list[int]:
    """Places of the R - f lowest scores; of equal ones the earlier submission."""
    order = sorted(range(len(rated)), key=lambda place: (rated[place], place))
    return sorted(order[: len(rated) - byzantine])


def judge(entries: Sequence[Entry], store: Store, task: str, round: int, before: Model, byzantine: int) -> Judgement:
    """Verdicts and average of a round.

    Whoever is caught with a missing or malformed model is one of the f that may be malicious, so that Multi-KRUM
    looks for the rest of f only. If nothing readable was submitted the model stays as it was.
    """
    verdicts: list[Verdict] = [Verdict.OUTLIER] * len(entries)
    reasons = [""] * len(entries)
    readable: list[tuple[int, Weights]] = []
    for place, entry in enumerate(entries):
        content = store.get(entry.digest)
        if content is None:
            verdicts[place], reasons[place] = Verdict.MISSING, f"nothing is stored under {identifier(entry.digest)}"
            continue
        try:
            model = read_model(content, task, round, entry.member, len(before.weights))
        except BadModel as error:
            verdicts[place], reasons[place] = Verdict.MALFORMED, str(error)
            continue
        readable.append((place, model.weights))
    suspected = max(0, byzantine - (len(entries) - len(readable)))
    rated: list[int | None] = [None] * len(entries)
    found = scores([weights for _, weights in readable], suspected)
    for (place, _), score in zip(readable, found, strict=True):
        rated[place] = score
    accepted = [readable[place] for place in kept(found, suspected)]
    for place, _ in accepted:
        verdicts[place] = Verdict.ACCEPTED
    weights = average([weights for _, weights in accepted]) if accepted else before.weights
    made = Model(task, round, "", weights).encode()
    return Judgement(tuple(verdicts), tuple(rated), tuple(reasons), made)
