"""Probabilities that colluders can compute one member's slice by subtraction, and thresholds on them.

Every other member colludes with probability p, independently; the member's position among K is uniform. q = 1 - p.
- weak: both neighbours collude.
- strong: somebody before and somebody after colludes, and those between are known to them (or poisoned by them).
- published: somebody before colludes and the final sum is known: a curious server, or a published mean.
These are chances that *nothing* protects a slice. They are not the delta of differential privacy, a small failure:
with that chance the numbers themselves are seen, and with several slices some slice is hit far more often.
"""

from __future__ import annotations

from collections.abc import Callable

from noisebank.core.errors import BadRequest

Chance = Callable[[int, float], float]


def weak(users: int, p: float) -> float:
    """Returns (K - 2) p^2 / K, eq. 31.

    >>> round(weak(10, 0.1), 4)
    0.008
    """
    _checked(users, p)
    return max(0, users - 2) * p * p / users


def strong(users: int, p: float) -> float:
    """Returns 1 + q^(K-1) - 2 (1 - q^K) / (K p): the mean of (1 - q^i)(1 - q^(K-1-i)) over positions i = 0 .. K-1.

    >>> round(strong(10, 0.1), 4)
    0.0848
    """
    _checked(users, p)
    if p == 0.0:
        return 0.0
    q = 1.0 - p
    # Summed term by term: the closed form cancels when p is small.
    return sum((1.0 - q**i) * (1.0 - q ** (users - 1 - i)) for i in range(users)) / users


def published(users: int, p: float) -> float:
    """Returns 1 - (1 - q^K) / (K p): the mean of 1 - q^i over positions i = 0 .. K-1.

    >>> round(published(10, 0.1), 4)
    0.3487
    """
    _checked(users, p)
    q = 1.0 - p
    return sum(1.0 - q**i for i in range(users)) / users


def printed_strong(users: int, p: float) -> float:
    """Returns eq. 32 as printed: the geometric sum is wrong, and the "probability" exceeds 1 or falls below 0."""
    _checked(users, p)
    q = 1.0 - p
    return 1.0 + q ** (users - 1) - 2.0 * (1.0 - q ** (users - 1)) / (users * q)


CHANCES: dict[str, Chance] = {"weak": weak, "strong": strong, "published": published}


def threshold(chance: Chance, users: int, allowed: float | None = None) -> float:
    """Returns the largest p at which `chance` is at most `allowed` (default 1/K^2, as in the paper); 1 if always."""
    limit = 1.0 / users**2 if allowed is None else allowed
    if chance(users, 1.0) <= limit:
        return 1.0
    low, high = 0.0, 1.0
    while high - low > 1e-12:
        middle = (low + high) / 2.0
        low, high = (middle, high) if chance(users, middle) <= limit else (low, middle)
    return low


def _checked(users: int, p: float) -> None:
    if users < 1:
        raise BadRequest("users", users, "at least one is needed")
    if not 0.0 <= p <= 1.0:
        raise BadRequest("p", p, "a probability lies in [0, 1]")
