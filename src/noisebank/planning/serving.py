"""Which cube serves a query, and as what: one linear query over cells for each of its groups.

Counts, and sums of one column, are linear in the cells. One person moves a cell by at most `reach`; someone with
several rows may move several cells, by no more than that together, which costs no more than moving one by all of
it (docs/proofs/inference.md). So a price needs the policy and the query alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np

from noisebank.core.units import Precision
from noisebank.planning.inference import Statistic
from noisebank.planning.linear import WHOLE, Charge, LinearQuery, enclosing, from_weights
from noisebank.planning.prefix import Axis
from noisebank.policy.model import Neighbours, Policy
from noisebank.queries.cells import Cube, CutsCells, cubes_of
from noisebank.queries.groups import parts_of
from noisebank.queries.predicates import TRUE
from noisebank.queries.query import Function, Part, Query, Question

MOST_WORK = 2**24
"""Cells times groups: beyond, a scan is quicker than planning."""
Total = tuple[Function, str]
COUNTS: Total = (Function.COUNT, "")


@dataclass(frozen=True, slots=True)
class Linear:
    """A group as `factor` times a canonical query over cells."""

    query: LinearQuery
    factor: Fraction


@dataclass(frozen=True)
class Served:
    """A query in a cube. A group without cells is None: it is 0 whatever the table."""

    place: int
    """Of the cube, among the policy's."""
    cube: Cube
    total: Total
    groups: tuple[Linear | None, ...]
    reach: int
    """Steps: how far one person can move one cell."""

    def wanted(self, group: Linear, wanted: Precision, moves: Fraction) -> Precision:
        """The precision in the group's canonical query that is as good as `wanted` in the query itself.

        Guarantees: at least as good; `moves` is the query's sensitivity.
        """
        scale = group.factor * group.query.peak * self.reach / moves
        return Precision.ceil(scale * scale * wanted.exact)

    def variance(self, group: Linear, fresh: Precision) -> Fraction:
        """Of a fresh measurement of the group, in squared steps."""
        moved = group.factor * group.query.peak * self.reach
        return moved * moved / fresh.exact

    def charges(self, factor: int = 1) -> tuple[Charge, ...]:
        """What a measurement of all groups costs each cell: no two groups share one."""
        joined: list[Charge] = []
        for start, stop, weight in sorted(c for group in self.groups if group for c in group.query.charges(factor)):
            if joined and joined[-1].stop == start and joined[-1].weight == weight:
                start = joined.pop().start
            joined.append(Charge(start, stop, weight))
        return tuple(joined)


@dataclass(frozen=True, eq=False)
class Look(Query):
    """The first look at a cube's counts, or at the sums of one column in it."""

    over: tuple[str, ...] = ()

    @property
    def canonical(self) -> dict[str, Any]:
        """As plain text and integers; no query that anybody can ask has the same."""
        return {"look": list(self.over), "parts": [part.canonical for part in self.parts]}

    @property
    def text(self) -> str:
        """For statements."""
        part = self.parts[0]
        what = "counts" if part.column is None else f"sums of {part.column}"
        return f"first look at the {what} over {', '.join(self.over)}"


def look_at(cube: Cube, total: Total) -> Look:
    """The first look at one statistic of a cube."""
    function, column = total
    return Look((Part(function, column or None, ((1, TRUE),)),), over=cube.columns)


def named_look(named: Mapping[str, Any], policy: Policy) -> Question:
    """The first look that a request or an opened record names."""
    cube = Cube.of(tuple(named["over"]), policy.columns)
    look = look_at(cube, (Function(named["function"]), named["column"]))
    return Question(look, Fraction(1), look.text)


def serve(query: Query, policy: Policy) -> Served | None:
    """The smallest cube that can say it, and how; None if none can."""
    if len(query.parts) != 1 or query.parts[0].function is Function.SQUARES:
        return None
    part = query.parts[0]
    if isinstance(query, Look):
        place, cube = next((n, c) for n, c in enumerate(cubes_of(policy)) if c.columns == query.over)
        return Served(place, cube, (part.function, part.column or ""), (), reach(policy, part))
    for place, cube in enumerate(cubes_of(policy)):
        if set(query.by) <= set(cube.columns):
            try:
                groups = _groups(query, policy, cube)
            except (CutsCells, ValueError):  # cut cells, or weights beyond 2^31
                continue
            if groups is not None:
                return Served(place, cube, (part.function, part.column or ""), groups, reach(policy, part))
    return None


def reach(policy: Policy, part: Part) -> int:
    """How far one person can move a cell, all of their rows included."""
    largest = 1 if part.column is None else max(abs(bound) for bound in policy.columns[part.column].bounds)
    return policy.max_rows * largest


def statistic_of(policy: Policy, cube: Cube, total: Total) -> Statistic:
    """What the planner needs to know of one statistic of a cube."""
    column = policy.columns[total[1]] if total[1] else None
    one_sign = column is None or not column.bounds[0] < 0 < column.bounds[1]
    axes = tuple(Axis(size, policy.columns[name].numeric) for name, size in zip(cube.columns, cube.shape, strict=True))
    return Statistic(axes, policy.neighbours is Neighbours.REPLACE_ONE, one_sign)


def charges_of(served: Served, query: Query, policy: Policy) -> tuple[Charge, ...]:
    """What a fresh measurement of the query costs each cell, for the account's neighbours; at most 16 runs."""
    statistic = statistic_of(policy, served.cube, served.total)
    if isinstance(query, Look):
        return (Charge(0, served.cube.cells, statistic.largest_factor * WHOLE),)
    factor = max((statistic.factor(group.query) for group in served.groups if group), default=1)
    return enclosing(served.charges(factor))


def _groups(query: Query, policy: Policy, cube: Cube) -> tuple[Linear | None, ...] | None:
    weights = np.zeros(cube.shape, dtype=np.int64)
    for weight, predicate in query.parts[0].weights:
        weights += weight * cube.mask(predicate)
    sizes = [len(parts_of(policy.columns[name])) for name in query.by]
    if cube.cells * int(np.prod(sizes)) > MOST_WORK:
        return None
    axes = [cube.columns.index(name) for name in query.by]
    found = []
    for places in product(*(range(size) for size in sizes)):
        inside: list[slice | int] = [slice(None)] * len(cube.columns)
        for axis, place in zip(axes, places, strict=True):
            inside[axis] = place
        part = np.zeros_like(weights)
        part[tuple(inside)] = weights[tuple(inside)]
        found.append(Linear(*from_weights(part.ravel())) if part.any() else None)
    return tuple(found)
