"""What a row of the assurance table found."""

from __future__ import annotations

import os
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


@dataclass
class Progress:
    """A line at each tenth of a long count."""

    what: str
    total: int
    tenths: int = 0

    def __call__(self, done: int) -> None:
        tenths = 10 * min(done, self.total) // max(1, self.total)
        if tenths > self.tenths:
            self.tenths = tenths
            print(f"{self.what}: {done:,} of {self.total:,}", flush=True)


def worker_count() -> int:
    """Processes that a row may use: `make assurance` gives fewer when it runs several rows at once."""
    return int(os.environ.get("ASSURANCE_WORKERS", "2"))


Row = Callable[[float], Finding]
"""Takes the share of the full count to run (1.0 in `make assurance`, far less in `make test`)."""
