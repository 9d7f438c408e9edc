"""SAR's own remedies against collusion: what they do, and the price of each. None of them is a guarantee."""

from __future__ import annotations

from math import sqrt
from typing import TYPE_CHECKING

import numpy as np

from noisebank.errors import BadRequest
from noisebank.federated.relay.collusion import CHANCES, threshold

if TYPE_CHECKING:
    from numpy.typing import NDArray

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
    return suspicion <= threshold(CHANCES[attackers], users)


def reclip(vector: Numbers, cuts: list[tuple[int, int]], norm: float) -> Numbers:
    """Each slice scaled down to at most this Euclidean norm.

    With norm R/sqrt(N) the whole vector keeps the sensitivity 2R: slicing hides nothing more. What it costs is bias,
    for every slice that was longer than its share.
    """
    if not norm > 0.0:
        raise BadRequest("norm", norm, "must be above 0")
    clipped = np.array(vector, dtype=np.float64)
    for start, stop in cuts:
        length = float(np.linalg.norm(clipped[start:stop]))
        if length > norm * ROUNDING:
            clipped[start:stop] *= norm * ROUNDING / length
    return clipped


def skip_error(skip: float, mean_square: float, users: int) -> float:
    """Variance that sending zeros with probability `skip` adds to a coordinate of the mean, once divided by 1 - skip.

    Each user's contribution is x B/(1 - skip) with a coin B: variance x^2 skip/(1 - skip), over K^2, K of them.
    """
    if not 0.0 <= skip < 1.0:
        raise BadRequest("skip", skip, "must lie in [0, 1)")
    return mean_square * skip / (1.0 - skip) / users


def slice_norm(norm: float, slices: int) -> float:
    """R/sqrt(N): the norm of a slice for which the whole keeps the norm R."""
    if slices < 1:
        raise BadRequest("slices", slices, "must be at least 1")
    return norm / sqrt(slices)
