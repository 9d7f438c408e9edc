"""Multi-KRUM in exact integers: `judge_submissions` decides which models of a round are accepted.

Of R updates f may be malicious, R > 2 f + 2. An update's score is the sum of its squared distances to the R - f - 2
closest others; the R - f with the lowest scores are accepted. Distances of updates are distances of models, since all
start from the same one.

It filters outliers and proves no honesty: f members that submit nearly the same update have tiny distances to each
other, hence low scores, and displace honest ones (`research.blockfl.attacks` shows it).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum

import numpy as np

from noisebank.federated.blockfl.identifiers import format_cid
from noisebank.federated.blockfl.models import BadModel, Model, Weights, average_weights, read_model
from noisebank.federated.blockfl.store import ContentStore

CHUNK_SIZE = 64
"""Squares in one 64-bit sum: differences have 28 bits and squares 56, so 64 of them stay below 2^63."""


class KrumVerdict(IntEnum):
    """Verdict on a submission; the values are the contract's."""

    ACCEPTED = 1
    OUTLIER = 2
    MISSING = 3
    MALFORMED = 4


@dataclass(frozen=True)
class SubmittedModel:
    """One submission: whose, and the digest on the ledger."""

    member: str
    digest: bytes


@dataclass(frozen=True)
class Judgement:
    """Verdicts and average of a round; the tuples are in the order of the submissions."""

    verdicts: tuple[KrumVerdict, ...]
    scores: tuple[int | None, ...]
    reasons: tuple[str, ...]
    """Why a submission is missing or malformed, else empty."""
    encoded_model: bytes
    """The average of the accepted models, encoded."""

    @property
    def packed_verdicts(self) -> int:
        """The verdicts as the contract takes them: four bits each, the first in the lowest."""
        return sum(int(verdict) << (4 * index) for index, verdict in enumerate(self.verdicts))


def describe_refusals(members: int, byzantine: int) -> str:
    """Return what Multi-KRUM does to honest members, for whoever posts a task or reads its reputations.

    Of R submissions it accepts R - f, also where nobody cheats. Empty if no cheats are expected.
    """
    if not byzantine:
        return ""
    share = f"{byzantine} of {members} submissions" + (f", {byzantine / members:.0%}," if members else "")
    return (
        f"Multi-KRUM refuses {share} in every round, also where everybody is honest: whoever is farthest from the "
        "others gets no reward and loses reputation, by chance. With few members that is often."
    )


def squared_distance(first: Weights, second: Weights) -> int:
    """Return the squared Euclidean distance, exact, in squared steps of the fixed-point scale."""
    squares = (first - second) ** 2
    starts = np.arange(0, len(squares), CHUNK_SIZE)
    return sum(np.add.reduceat(squares, starts).tolist()) if len(squares) else 0


def compute_scores(updates: Sequence[Weights], byzantine: int) -> list[int]:
    """Return for each update the sum of squared distances to the R - f - 2 closest others (equation 5.1).

    >>> from noisebank.federated.blockfl.models import to_fixed_point, FIXED_POINT_SCALE
    >>> rated = compute_scores([to_fixed_point(np.array([x])) for x in (0, .1, .2, .3, .4, 10)], 1)
    >>> [round(score / FIXED_POINT_SCALE**2, 2) for score in rated]
    [0.14, 0.06, 0.06, 0.06, 0.14, 282.29]
    """
    closest = len(updates) - byzantine - 2
    distances: list[list[int]] = [[] for _ in updates]
    for i, update in enumerate(updates):
        for j in range(i):
            distance = squared_distance(update, updates[j])
            distances[i].append(distance)
            distances[j].append(distance)
    return [sum(sorted(row)[: max(0, closest)]) for row in distances]


def select_lowest(krum_scores: Sequence[int], byzantine: int) -> list[int]:
    """Return the indices of the R - f lowest scores; of equal ones the earlier submission."""
    order = sorted(range(len(krum_scores)), key=lambda index: (krum_scores[index], index))
    return sorted(order[: len(krum_scores) - byzantine])


def judge_submissions(
    submissions: Sequence[SubmittedModel],
    store: ContentStore,
    task: str,
    round: int,
    previous_model: Model,
    byzantine: int,
) -> Judgement:
    """Return verdicts and average of a round.

    A member with a missing or malformed model is one of the f that may be malicious, so Multi-KRUM looks for the
    remaining ones only. If nothing readable was submitted, the model stays as it was.
    """
    verdicts: list[KrumVerdict] = [KrumVerdict.OUTLIER] * len(submissions)
    reasons = [""] * len(submissions)
    readable: list[tuple[int, Weights]] = []
    for index, entry in enumerate(submissions):
        content = store.get(entry.digest)
        if content is None:
            verdicts[index], reasons[index] = KrumVerdict.MISSING, f"nothing is stored under {format_cid(entry.digest)}"
            continue
        try:
            model = read_model(content, task, round, entry.member, len(previous_model.weights))
        except BadModel as error:
            verdicts[index], reasons[index] = KrumVerdict.MALFORMED, str(error)
            continue
        readable.append((index, model.weights))
    suspected = max(0, byzantine - (len(submissions) - len(readable)))
    rated: list[int | None] = [None] * len(submissions)
    readable_scores = compute_scores([weights for _, weights in readable], suspected)
    for (index, _), score in zip(readable, readable_scores, strict=True):
        rated[index] = score
    accepted = [readable[position] for position in select_lowest(readable_scores, suspected)]
    for index, _ in accepted:
        verdicts[index] = KrumVerdict.ACCEPTED
    weights = average_weights([weights for _, weights in accepted]) if accepted else previous_model.weights
    encoded = Model(task, round, "", weights).to_bytes()
    return Judgement(tuple(verdicts), tuple(rated), tuple(reasons), encoded)
