"""Two rules for reputation: equation 5.2 as printed, and repaired. The contract has the same; tests compare them.

Two repairs. With an average that is no whole number, 5.2 has no rule for a reputation between it and the next whole
number: so the average is rounded down. And 5.2 lets everybody below the average gain in every round, so a permanent
attacker goes 5, 0, 1, 2, ...: repaired, only an accepted model gains.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from fractions import Fraction

INITIAL_REPUTATION, MAX_REPUTATION = 5, 100


def apply_printed_rule(reputation: int, accepted: bool, average: Fraction | int) -> int:
    """Return the next reputation by equation 5.2 to the letter; ValueError where it has no rule."""
    if reputation < average:
        return reputation + 1
    if accepted:
        return min(MAX_REPUTATION, reputation + 1)
    if reputation >= average + 1:
        return reputation - 1
    if reputation == average:
        return 0
    raise ValueError(f"equation 5.2 has no rule for a rejected {reputation} at an average of {average}")


def apply_repaired_rule(reputation: int, accepted: bool, average: Fraction | int) -> int:
    """Return the next reputation: only an accepted model gains, and the average is rounded down."""
    level = average.__floor__()
    if accepted:
        return min(MAX_REPUTATION, reputation + 1)
    if reputation > level:
        return reputation - 1
    return 0 if reputation == level else reputation


def simulate_reputation(
    rule: Callable[[int, bool, int], int],
    attacked_rounds: Iterable[int],
    round_count: int = 10,
    average: int = INITIAL_REPUTATION,
) -> tuple[list[int], list[int]]:
    """Return reputations (one more than rounds) and rewards of a member that attacks in some rounds.

    >>> simulate_reputation(apply_repaired_rule, [4])[1]
    [5, 6, 7, 0, 7, 8, 9, 10, 11, 12]
    """
    bad, reputations, rewards = set(attacked_rounds), [INITIAL_REPUTATION], []
    for number in range(1, round_count + 1):
        accepted = number not in bad
        rewards.append(reputations[-1] if accepted else 0)
        reputations.append(rule(reputations[-1], accepted, average))
    return reputations, rewards
