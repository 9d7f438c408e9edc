"""Reads the privacy limits that people set for themselves; an account takes the smallest (P3's epsilon_t)."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from pathlib import Path

from noisebank.core.errors import BadRequest
from noisebank.core.units import exact
from noisebank.policy.model import Policy


def read_limits(path: Path) -> tuple[Fraction, ...]:
    """Returns one epsilon per line. Text before the last comma, such as a name, is ignored, and so are lines with #."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        raise BadRequest("limits", path, "cannot be read") from None
    limits = []
    for number, line in enumerate(lines, 1):
        text = line.rpartition(",")[2].strip()
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        try:
            value = exact(text, "limits")
        except BadRequest:
            raise BadRequest("limits", f"line {number}", "must end with a number, an epsilon") from None
        if value <= 0:
            raise BadRequest("limits", f"line {number}", "must be above 0: who wants none is not in the table")
        limits.append(value)
    if not limits:
        raise BadRequest("limits", path, "holds no limit")
    return tuple(limits)


def limited(policy: Policy, limits: tuple[Fraction, ...]) -> Policy:
    """Returns the policy with its epsilon lowered to the smallest limit: nobody gives away more than they set."""
    return replace(policy, epsilon=min(policy.epsilon, *limits))
