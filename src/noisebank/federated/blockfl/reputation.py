"""Two rules for reputation: equation 5.2 as printed, and repaired. The contract has the same; tests compare them.

Two repairs. With an average that is no whole number, 5.2 has no rule for a reputation between it and the next whole
number: so the average is rounded down. And 5.2 lets everybody below the average gain in every round, so a permanent
attacker goes 5, 0, 1, 2, ...: repaired, only an accepted model gains.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from fractions import Fraction

FIRST, MOST = 5, 100


def printed(reputation: int, accepted: bool, average: Fraction | int) -> int:
    """Return the next reputation by equation 5.2 to the letter; ValueError where it has no rule."""
    if reputation < average:
        return reputation + 1
    if accepted:
        return min(MOST, reputation + 1)
    if reputation >= average + 1:
        return reputation - 1
    if reputation == average:
        return 0
    raise ValueError(f"equation 5.2 has no rule for a rejected {reputation} at an average of {average}")


def repaired(reputation: int, accepted: bool, average: Fraction | int) -> int:
    """Return the next reputation: only an accepted model gains, and the average is rounded down."""
    level = average.__floor__()
    if accepted:
        return min(MOST, reputation + 1)
    if reputation > level:
        return reputation - 1
    return 0 if reputation == level else reputation


def course(
    rule: Callable[[int, bool, int], int], attacks: Iterable[int], rounds: int = 10, average: int = FIRST
) -> tuple[list[int], list[int]]:
    """Return reputations (one more than rounds) and rewards of a member that attacks in some rounds.

    >>> course(repaired, [4])[1]
    [5, 6, 7, 0, 7, 8, 9, 10, 11, 12]
    """
    bad, reputations, rewards = set(attacks), [FIRST], []
    for number in range(1, rounds + 1):
        accepted = number not in bad
        rewards.append(reputations[-1] if accepted else 0)
        reputations.append(rule(reputations[-1], accepted, average))
    return reputations, rewards
