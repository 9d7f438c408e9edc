"""Limits that people set for themselves: an account takes the smallest (P3's epsilon_t)."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from pathlib import Path

from noisebank.core.errors import BadRequest
from noisebank.core.units import exact
from noisebank.policy.model import Policy


def read_limits(path: Path) -> tuple[Fraction, ...]:
    """One epsilon a line; what stands before a comma, a name perhaps, is not read. Lines with # first are notes."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        raise BadRequest("limits", path, "cannot be read") from None
    found = []
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
        found.append(value)
    if not found:
        raise BadRequest("limits", path, "holds no limit")
    return tuple(found)


def limited(policy: Policy, limits: tuple[Fraction, ...]) -> Policy:
    """The same policy with no more than the smallest limit: nobody gives away more than they said."""
    return replace(policy, epsilon=min(policy.epsilon, *limits))
