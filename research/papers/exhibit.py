"""One reproduced figure or table: what was printed, what comes out, why they differ, and a chart of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Found = dict[str, Any]
"""What a run found: plain values, as JSON has them."""
Moved = Callable[[int, int], None]


def unmoved(done: int, total: int) -> None:
    """Progress that nobody watches."""


@dataclass(frozen=True, slots=True)
class Number:
    """A number that an independent computation gave, beside ours, and how far they may be apart."""

    name: str
    ours: float
    expected: float
    spread: float
    """Absolute: a computation that repeats exactly has nearly none, a simulation its scatter."""

    @property
    def within(self) -> bool:
        """Whether ours is as near as it should be."""
        return abs(self.ours - self.expected) <= self.spread

    def plain(self) -> Found:
        """For JSON."""
        known = {"ours": rounded(self.ours), "expected": self.expected, "spread": rounded(self.spread)}
        return {"name": self.name, **known, "within": self.within}


@dataclass(frozen=True, slots=True)
class Exhibit:
    """A figure or a table of a paper."""

    name: str
    paper: str
    title: str
    printed: str
    """What the paper shows."""
    why: str
    """Why ours differs, where it does."""
    run: Callable[[bool, Moved], Found]
    """Quickly or fully; with progress."""
    here: Callable[[Found], str]
    """What comes out here, in a sentence or two."""
    draw: Callable[[Found], Any]
    """A matplotlib figure of what was found."""
    numbers: Callable[[Found], Sequence[Number]] = lambda found: ()
    timed: bool = False
    """Measures time, so nothing else may run beside it."""
    together: bool = False
    """A full run of it uses all cores by itself."""
    made_up: Callable[[Found], str] = lambda found: ""
    """What of its data is made up, in a few words for the chart itself; empty: nothing, or each panel says so."""


def list_made_up(found: Found) -> str:
    """Which of the histograms or tables that a run names as its sources are made up."""
    sources = found.get("sources") or {"": found.get("source", "")}
    names = [name for name, source in sources.items() if source.startswith("made up")]
    return ", ".join(f"in the shape of {name}" if name else found["source"].split(": ")[0] for name in names)


def rounded(value: Any, digits: int = 9) -> Any:
    """Floats to so many significant digits, all the way down; keys become text, tuples lists."""
    if isinstance(value, float):
        return float(f"{value:.{digits}g}")
    if isinstance(value, Mapping):
        return {str(key): rounded(inner, digits) for key, inner in value.items()}
    return [rounded(inner, digits) for inner in value] if isinstance(value, (list, tuple)) else value


def near(name: str, ours: float, expected: float, relative: float) -> Number:
    """A number that may be off by a share of what is expected."""
    return Number(name, ours, expected, abs(expected) * relative)
