"""SAR's remedies against collusion: what each does and costs. None of them is a guarantee."""

from __future__ import annotations

from fractions import Fraction
from math import sqrt
from typing import TYPE_CHECKING

import numpy as np

from noisebank.core.entropy import uniform_words
from noisebank.core.errors import BadRequest
from noisebank.federated.relay.collusion import CHANCES, collusion_threshold
from noisebank.federated.relay.grid import quantize_vector

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from noisebank.federated.relay.terms import RelayTerms

    Numbers = NDArray[np.float64]

ROUNDING = 1.0 - 2.0**-40
"""Keeps a re-clipped slice inside its norm whatever the last bits of the division were."""


def may_join(suspicion: float, users: int, attackers: str = "weak") -> bool:
    """Whether a user who thinks each other member colludes with this probability should take part (eq. 33 and its kin).

    >>> may_join(0.1, 10, "weak"), may_join(0.1, 10, "strong"), may_join(0.002, 10, "published")
    (True, False, True)
    """
    if attackers not in CHANCES:
        raise BadRequest("attackers", attackers, f"must be one of {', '.join(CHANCES)}")
    if not 0.0 <= suspicion <= 1.0:
        raise BadRequest("suspicion", suspicion, "a probability lies in [0, 1]")
    return suspicion <= collusion_threshold(CHANCES[attackers], users)


def reclip_slices(vector: Numbers, slice_ranges: list[tuple[int, int]], norm: float) -> Numbers:
    """Returns the vector with each slice scaled down to at most this Euclidean norm.

    With norm R/sqrt(N) the whole vector keeps the sensitivity 2R: slicing hides nothing more. What it costs is bias,
    for every slice that was longer than its share.
    """
    if not norm > 0.0:
        raise BadRequest("norm", norm, "must be above 0")
    clipped = np.array(vector, dtype=np.float64)
    for start, stop in slice_ranges:
        length = float(np.linalg.norm(clipped[start:stop]))
        if length > norm * ROUNDING:
            clipped[start:stop] *= norm * ROUNDING / length
    return clipped


def skip_error(skip: float, mean_square: float, users: int) -> float:
    """Returns the variance that sending zeros with probability `skip` adds to a coordinate of the mean.

    The sum is divided by 1 - skip, so each user's contribution is x B/(1 - skip) with a coin B: variance
    x^2 skip/(1 - skip), over K^2, K of them.
    """
    if not 0.0 <= skip < 1.0:
        raise BadRequest("skip", skip, "must lie in [0, 1)")
    return mean_square * skip / (1.0 - skip) / users


def past_error(skip: float, change_square: float, users: int, common: float = 0.0) -> float:
    """Returns the mean squared error that past slices with probability `skip` add to a coordinate of the mean.

    `change_square` is E[(x' - x)^2] of one user between two rounds, beyond what all users move together (`common`).
    A user's part is x + B (x' - x) with a coin B: the users' own changes give skip E[(x' - x)^2]/K, coin and bias
    together; what all share is a bias of skip common plus skip (1 - skip) common^2/K from the coins.
    """
    if not 0.0 <= skip < 1.0:
        raise BadRequest("skip", skip, "must lie in [0, 1)")
    return skip * change_square / users + (skip * common) ** 2 + skip * (1.0 - skip) * common**2 / users


def ever_exposed(chance: float, skip: float, instead: str) -> float:
    """Returns the chance that a slice of one round is seen bare in *any* round, if each sending is with this chance.

    Zeros: (1 - p) chance. Past slices are sent again one round later with probability p: 1 - (1 - (1 - p) chance)(1 - p
    chance), which is the chance without any remedy but for p (1 - p) chance^2. The paper's gain is a delay.

    >>> [round(ever_exposed(0.0848, 0.3, kind), 4) for kind in ("zeros", "past")]
    [0.0594, 0.0833]
    """
    fresh = (1.0 - skip) * chance
    return fresh if instead == "zeros" else 1.0 - (1.0 - fresh) * (1.0 - skip * chance)


def substitute_slices(
    vector: Numbers, past: Numbers | None, slice_ranges: list[tuple[int, int]], skip: Fraction
) -> Numbers:
    """Returns the vector with each slice, by a coin of its own, replaced by zeros or by the same slice of `past`.

    The coins do not depend on any vector. Tossed once per round: a second attempt gives no fresh slice a second chance.
    """
    result = np.array(vector, dtype=np.float64)
    for (start, stop), word in zip(slice_ranges, uniform_words(len(slice_ranges)), strict=True):
        if int(word) * skip.denominator < skip.numerator * 2**64:
            result[start:stop] = 0.0 if past is None else past[start:stop]
    return result


def vector_to_send(vector: Numbers, past: Numbers | None, terms: RelayTerms, say: Callable[[str], None]) -> Numbers:
    """Returns what a member sends in a round under these terms; tells it by `say` what that means."""
    if not terms.skip:
        return vector
    if terms.instead == "zeros":
        return substitute_slices(vector, None, terms.slice_ranges, terms.skip)
    if past is None:
        say("no vector of the round before: every slice is sent fresh")
        return vector
    quantize_vector(past, terms.bound, terms.dimension)  # refused like a fresh one
    say("past slices: this round's loss comes on top of what the last round cost the past vector")
    return substitute_slices(vector, past, terms.slice_ranges, terms.skip)


def slice_norm(norm: float, slices: int) -> float:
    """Returns R/sqrt(N): the norm of a slice for which the whole keeps the norm R."""
    if slices < 1:
        raise BadRequest("slices", slices, "must be at least 1")
    return norm / sqrt(slices)
