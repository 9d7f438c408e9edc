"""What the owner of a table expects to be asked: kinds of questions, and examples. Prices of looks depend on it."""

from __future__ import annotations

from enum import Enum


class Workload(Enum):
    """A kind of questions that analysts will probably ask in every cube."""

    MARGINALS = "marginals"
    """Groups, and any subsets of keys, over any combination of columns."""
    VALUES = "values"
    """Single values of any combination of columns, and groups by them: cheaper than sets of values."""
    RANGES = "ranges"
    """Between any two edges of the bins of a number."""
    PREFIXES = "prefixes"
    """From the lowest value of a number up to any edge: cumulative distributions and quantiles."""


Expectation = Workload | str
"""A kind of questions, or an example: SQL, or the name of one of the policy's queries."""


def parse_expectation(text: str) -> Expectation:
    """Returns a kind of questions by its name; any other text is an example."""
    return next((kind for kind in Workload if kind.value == text), text)


def expectation_to_json(item: Expectation) -> str:
    """Returns the text that `parse_expectation` reads."""
    return item.value if isinstance(item, Workload) else item
