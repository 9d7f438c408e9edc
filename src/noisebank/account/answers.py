"""Released answers to single questions. `account.results` makes a `Result` of them, which `ask` returns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import nan

from noisebank.core.charges import Inference
from noisebank.core.receipts import Receipt
from noisebank.core.records import Case
from noisebank.core.units import Precision


@dataclass(frozen=True, slots=True)
class Answer:
    """The released answer to one question, with its error, its cost and its receipt."""

    value: float
    stddev: float
    case: Case
    cost: Precision
    remaining: Precision
    target: Precision
    sql: str
    exact: Fraction
    """The released value as a rational; `value` is its nearest float."""
    receipt: Receipt
    inferred: Inference | None = None
    """What an answer from a cube was inferred from."""


@dataclass(frozen=True, slots=True)
class Group:
    """One group of a grouped answer."""

    keys: tuple[str, ...]
    value: float
    exact: Fraction


@dataclass(frozen=True, slots=True)
class GroupedAnswer(Answer):
    """An answer to GROUP BY: a number for every declared combination, whether or not anybody is in it.

    `value` is NaN; `groups` has the numbers. Without a cube, all have the same standard deviation and
    independent noise. From a cube, `stddev` is the largest of them, and they may share noise.
    """

    by: tuple[str, ...] = ()
    groups: tuple[Group, ...] = ()
    group_stddevs: tuple[float, ...] = ()
    """From a cube: the standard deviation of each group's number, in the order of the groups."""
    running_stddevs: tuple[float, ...] = ()
    """From a cube, along an ordered column: the standard deviations of the sums of the first 1, 2, ... groups."""


def add_groups(
    answer: Answer, by: tuple[str, ...], labels: Sequence[tuple[str, ...]], values: Sequence[Fraction],
    stddevs: tuple[float, ...] = (),
) -> Answer:  # fmt: skip
    """Returns the same answer with its groups, if it has any."""
    if not by:
        return answer
    groups = tuple(Group(keys, float(value), value) for keys, value in zip(labels, values, strict=True))
    common = {name: getattr(answer, name) for name in Answer.__slots__}
    return GroupedAnswer(**{**common, "value": nan, "exact": Fraction(0)}, by=by, groups=groups, group_stddevs=stddevs)
