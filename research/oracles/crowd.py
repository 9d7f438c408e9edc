"""P4, chapter 5: Multi-KRUM and reputations."""

from __future__ import annotations

from research.oracles.reuse import Values


def krum(quick: bool) -> Values:
    """Six numbers, f = 1: sums of squares to the three closest."""
    values = (0.0, 0.1, 0.2, 0.3, 0.4, 10.0)
    rows = {}
    for place, one in enumerate(values):
        squares = sorted((one - other) ** 2 for at, other in enumerate(values) if at != place)
        rows[f"Multi-KRUM, score of {one:g}"] = (sum(squares[: len(values) - 3]), 0.0)
    return rows


def reputations(quick: bool) -> Values:
    """Nothing differs from eq. 5.2, recomputed: the counts of differences are 0."""
    expected = {
        "honest": ([], [5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15]),
        "attack in round 1": ([1], [5, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9]),
        "attack in round 4": ([4], [5, 6, 7, 8, 7, 8, 9, 10, 11, 12, 13]),
    }
    rows: Values = {}
    for name, (bad, sequence) in expected.items():
        reputation, course, rewards = 5, [5], []
        for number in range(1, 11):
            accepted = number not in bad
            rewards.append(reputation if accepted else 0)
            if reputation < 5 or accepted:
                reputation = min(100, reputation + 1)
            else:
                reputation = 0 if reputation == 5 else reputation - 1
            course.append(reputation)
        off = float(sum(a != b for a, b in zip(course, sequence, strict=True)))
        for title in ("as printed", "repaired"):
            rows[f"{name}, {title}: reputations that differ"] = (off, 0.0)
            rows[f"{name}, {title}: rewards that differ"] = (off, 0.0)
    return rows
