"""Split one long relay into several short ones: less waiting, more noise."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from noisebank.core.errors import BadRequest
from noisebank.federated.relay.game import TOP_UP, check_preferences

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike, NDArray

    Group = NDArray[np.int64]

SPLITS = ("random", "sorted")


def split_groups(order: Sequence[int] | Group, groups: int) -> list[Group]:
    """Returns consecutive parts of `order` whose sizes differ by at most one."""
    if not 1 <= groups <= len(order):
        raise BadRequest("groups", groups, f"must lie in 1 .. {len(order)}, the number of members")
    return [np.asarray(part, dtype=np.int64) for part in np.array_split(np.asarray(order, dtype=np.int64), groups)]


def order_by_preference(preferences: ArrayLike) -> Group:
    """Returns users by ascending preference. Groups of equal size cut from it have the least total noise (Corollary 4).

    The largest of all is some group's maximum in any split; it is best to put the next largest beside it, and so on.
    """
    return np.argsort(check_preferences(preferences), kind="stable").astype(np.int64)


def split_error(preferences: ArrayLike, groups: list[Group]) -> float:
    """Returns the mean squared error of a coordinate of the mean: the sum of m max beta over groups, over K^2."""
    betas = check_preferences(preferences)
    return float(TOP_UP * sum(betas[group].max() for group in groups) / len(betas) ** 2)
