"""What a row of the assurance table found."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Finding:
    """One row: what must never happen, how often we tried, how often it happened, planted bugs."""

    row: str
    tried: str
    """What was done, with its count, e.g. "1,000 races of 50 threads"."""
    figure: str
    """What came out, e.g. "0 overspends, 1 winner each"."""
    violations: int
    planted: dict[str, bool] = field(default_factory=dict)
    """Bug by bug: was it caught?"""
    note: str = ""

    @property
    def passed(self) -> bool:
        return self.violations == 0 and all(self.planted.values())


Row = Callable[[float], Finding]
"""Takes the share of the full count to run (1.0 in `make assurance`, far less in `make test`)."""
