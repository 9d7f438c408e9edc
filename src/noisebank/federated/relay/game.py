"""The sequential game of Chained-DP: how much noise each user adds if everyone minimises their own cost.

User k has a preference beta_k and the cost C_k = (sum of all variances) + alpha_k / sqrt(S_k) with alpha_k =
beta_k^(3/2) and S_k the sum of the variances up to and including k. Variances are in squared units of the bound of a
coordinate. All of it follows from one line of calculus: v + alpha v^(-1/2) is least at v = m beta, m = 2^(-2/3).
Proof: docs/proofs/relay.md. Source: Li et al., Chained-DP, section IV and V; its errors are corrected and named.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from noisebank.core.errors import BadRequest

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    Numbers = NDArray[np.float64]

TOP_UP = 2.0 ** (-2.0 / 3.0)
"""m: a user alone with preference beta chooses a variance of m beta."""


def check_preferences(preferences: ArrayLike) -> Numbers:
    """Returns an array, finite, not negative, at least one user; the last axis runs over the users."""
    betas = np.asarray(preferences, dtype=np.float64)
    if betas.ndim == 0 or betas.shape[-1] == 0:
        raise BadRequest("preferences", "none", "at least one user is needed")
    if not np.isfinite(betas).all() or (betas < 0.0).any():
        raise BadRequest("preferences", "a value", "must be finite and at least 0")
    return betas


def best_response(preference: float, before: float) -> float:
    """Returns what a user adds after the variance `before` (Lemma 1): it tops up to m beta and never more.

    >>> round(best_response(1.0, 0.5), 3), best_response(1.0, 0.7)
    (0.13, 0.0)
    """
    return max(0.0, TOP_UP * preference - before)


def nash_equilibrium(preferences: ArrayLike) -> Numbers:
    """Returns the variances of the equilibrium in which nobody gains by deviating while the others stay put.

    S_k is the running maximum of m beta. The paper's (m max beta, 0, ..., 0) is no such equilibrium unless user 1 has
    the largest preference: user 1 would add less.
    """
    totals = TOP_UP * np.maximum.accumulate(check_preferences(preferences), axis=-1)
    return np.diff(totals, axis=-1, prepend=0.0)


def subgame_perfect(preferences: ArrayLike) -> Numbers:
    """Returns the variances when the first user foresees the others' best responses: (m max beta, 0, ..., 0).

    The total will be m max beta whatever user 1 does below that, so it takes the protection for itself.
    """
    betas = check_preferences(preferences)
    return _assign_to_first(TOP_UP * betas.max(axis=-1), betas)


def central_optimum(preferences: ArrayLike) -> Numbers:
    """Returns the variances with the least total cost: all of it first, m (mean beta^(3/2))^(2/3).

    The paper prints the mean of beta itself, which is not the minimum.
    """
    betas = check_preferences(preferences)
    return _assign_to_first(TOP_UP * np.mean(betas**1.5, axis=-1) ** (2.0 / 3.0), betas)


def local_variances(preferences: ArrayLike) -> Numbers:
    """Returns the variances without a relay: everyone adds m beta_k and is protected by that alone."""
    return TOP_UP * check_preferences(preferences)


def relay_costs(preferences: ArrayLike, variances: ArrayLike) -> Numbers:
    """Returns C_k in a relay; infinite for a user with a preference who sends without any noise."""
    spread = np.asarray(variances, dtype=np.float64)
    return _user_costs(check_preferences(preferences), spread, np.cumsum(spread, axis=-1))


def local_costs(preferences: ArrayLike) -> Numbers:
    """Returns C_k when everybody sends alone (eq. 26)."""
    spread = local_variances(preferences)
    return _user_costs(check_preferences(preferences), spread, spread)


def is_nash(preferences: ArrayLike, variances: ArrayLike, tolerance: float = 1e-9) -> bool:
    """Whether every user's variance is the best response to the others' as they stand."""
    betas, spread = check_preferences(preferences), np.asarray(variances, dtype=np.float64)
    before = np.cumsum(spread) - spread
    best = np.maximum(0.0, TOP_UP * betas - before)
    return bool(np.all(np.abs(best - spread) <= tolerance))


def price_of_anarchy(preferences: ArrayLike) -> Numbers:
    """Returns the total cost of subgame-perfect play over the least total cost.

    It is (r + 2/sqrt(r))/3 with r = max beta / (mean beta^(3/2))^(2/3).
    """
    betas = check_preferences(preferences)
    top, power = betas.max(axis=-1), np.mean(betas**1.5, axis=-1) ** (2.0 / 3.0)
    if (top == 0.0).any():
        raise BadRequest("preferences", "all 0", "nobody wants privacy: both costs are 0")
    ratio = top / power
    return np.asarray((ratio + 2.0 / np.sqrt(ratio)) / 3.0)


def anarchy_limit(users: int) -> float:
    """Returns the highest price of anarchy that any preferences of so many users have: r is at most K^(2/3)."""
    ratio = users ** (2.0 / 3.0)
    return float((ratio + 2.0 / np.sqrt(ratio)) / 3.0)


def printed_anarchy_bound(preferences: ArrayLike) -> Numbers:
    """Returns eq. 29 as printed, max/(K min): often below the true price. Its own proof gives max/min."""
    betas = check_preferences(preferences)
    return np.asarray(betas.max(axis=-1) / (betas.shape[-1] * betas.min(axis=-1)))


def bid_cost(preference: float, bid: float, others: ArrayLike) -> float:
    """Returns what a user pays for a bid when the mechanism fixes the noise at m times the largest bid.

    m x + alpha (m x)^(-1/2) falls up to x = beta and rises after, and x = max(bid, others): bidding beta is never
    worse (Theorem 2, whose printed argument divides by K^2 and has the wrong minimum).
    """
    total = TOP_UP * max(bid, float(check_preferences(others).max()))
    return float(total + preference**1.5 / total**0.5)


def _assign_to_first(total: Numbers, betas: Numbers) -> Numbers:
    spread = np.zeros_like(betas)
    spread[..., 0] = total
    return spread


def _user_costs(betas: Numbers, spread: Numbers, seen: Numbers) -> Numbers:
    alphas = betas**1.5
    with np.errstate(divide="ignore"):
        privacy = np.where(alphas > 0.0, 1.0 / np.sqrt(seen), 0.0)
    return np.asarray(spread.sum(axis=-1, keepdims=True) + np.where(alphas > 0.0, alphas * privacy, 0.0))
