"""Which of the sixty questions do not come out today as they should, and why. A test compares in both directions."""

from __future__ import annotations

_REASONS: dict[str, str] = {}
"""Names of questions, separated by spaces, by the reason."""

SHORTFALLS = {name: reason for reason, names in _REASONS.items() for name in names.split()}
"""By the question's name."""
