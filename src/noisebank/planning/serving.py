"""Queries over cubes: finds the cube that can answer a query, and turns each group into a linear query over cells.

Counts, and sums of one column, are linear in the cells. One person changes a cell by at most `cell_sensitivity`;
somebody with several rows may change several cells, by no more than that together, which costs no more than changing
one cell by all of it (docs/proofs/inference.md). So a price needs the policy and the query alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np

from noisebank.core.records import WHOLE_WEIGHT, CellRun
from noisebank.core.units import Precision
from noisebank.planning.inference import Statistic
from noisebank.planning.linear import LinearQuery, enclosing, from_weights
from noisebank.planning.prefix import Axis
from noisebank.policy.model import Neighbours, Policy
from noisebank.queries.cells import Cube, CutsCells, cubes_of
from noisebank.queries.groups import parts_of
from noisebank.queries.predicates import TRUE
from noisebank.queries.query import Function, Part, Query, Question

MOST_WORK = 2**24
"""In cells times groups: beyond, a scan is quicker than planning."""
Total = tuple[Function, str]
COUNTS: Total = (Function.COUNT, "")


@dataclass(frozen=True, slots=True)
class Linear:
    """One group of a query, as `factor` times a canonical query over cells."""

    query: LinearQuery
    factor: Fraction


@dataclass(frozen=True)
class Served:
    """A query over the cells of a cube. A group without cells is None: it is 0 whatever the table."""

    place: int
    """Of the cube, among `policy_cubes`."""
    cube: Cube
    total: Total
    groups: tuple[Linear | None, ...]
    reach: int
    """In steps: how far one person can change one cell."""

    def wanted(self, group: Linear, wanted: Precision, moves: Fraction) -> Precision:
        """Returns the precision of the group's canonical query that is as good as `target` in the query itself.

        Guarantees: at least as good. `sensitivity` is the query's, in steps.
        """
        scale = group.factor * group.query.peak * self.reach / moves
        return Precision.ceil(scale * scale * wanted.exact)

    def variance(self, group: Linear, fresh: Precision) -> Fraction:
        """Returns the variance of a fresh measurement of the group, in squared steps."""
        sensitivity = group.factor * group.query.peak * self.reach
        return sensitivity * sensitivity / fresh.exact

    def charges(self, factor: int = 1) -> tuple[CellRun, ...]:
        """Returns what a measurement of all groups charges each cell: no two groups share a cell."""
        joined: list[CellRun] = []
        for start, stop, weight in sorted(c for group in self.groups if group for c in group.query.charges(factor)):
            if joined and joined[-1].stop == start and joined[-1].weight == weight:
                start = joined.pop().start
            joined.append(CellRun(start, stop, weight))
        return tuple(joined)


@dataclass(frozen=True, eq=False)
class Look(Query):
    """The first look at a cube's counts, or at the sums of one column in it."""

    over: tuple[str, ...] = ()

    @property
    def canonical(self) -> dict[str, Any]:
        """As JSON of texts and integers; no query that can be written in SQL has the same."""
        return {"look": list(self.over), "parts": [part.canonical for part in self.parts]}

    @property
    def text(self) -> str:
        """In words, for account statements."""
        part = self.parts[0]
        what = "counts" if part.column is None else f"sums of {part.column}"
        return f"first look at the {what} over {', '.join(self.over)}"


def look_at(cube: Cube, total: Total) -> Look:
    """Returns the first look at one statistic of a cube."""
    function, column = total
    return Look((Part(function, column or None, ((1, TRUE),)),), over=cube.columns)


def named_look(named: Mapping[str, Any], policy: Policy) -> Question:
    """Returns the first look that the fields of a request or of an opened record describe."""
    cube = Cube.of(tuple(named["over"]), policy.columns)
    look = look_at(cube, (Function(named["function"]), named["column"]))
    return Question(look, Fraction(1), look.text)


def serve(query: Query, policy: Policy) -> Served | None:
    """Returns the query over the smallest cube that can answer it; None if no cube can."""
    if len(query.parts) != 1 or query.parts[0].function is Function.SQUARES:
        return None
    part = query.parts[0]
    if isinstance(query, Look):
        index, cube = next((n, c) for n, c in enumerate(cubes_of(policy)) if c.columns == query.over)
        return Served(index, cube, (part.function, part.column or ""), (), reach(policy, part))
    for index, cube in enumerate(cubes_of(policy)):
        if set(query.by) <= set(cube.columns):
            try:
                groups = _groups(query, policy, cube)
            except (CutsCells, ValueError):  # cut cells, or weights beyond 2^31
                continue
            if groups is not None:
                return Served(index, cube, (part.function, part.column or ""), groups, reach(policy, part))
    return None


def reach(policy: Policy, part: Part) -> int:
    """Returns how far one person can change a cell, in steps, all of their rows included."""
    largest = 1 if part.column is None else max(abs(bound) for bound in policy.columns[part.column].bounds)
    return policy.max_rows * largest


def statistic_of(policy: Policy, cube: Cube, total: Total) -> Statistic:
    """Returns what `CubePosterior` needs to know of one statistic of a cube."""
    column = policy.columns[total[1]] if total[1] else None
    one_sign = column is None or not column.bounds[0] < 0 < column.bounds[1]
    axes = tuple(Axis(size, policy.columns[name].numeric) for name, size in zip(cube.columns, cube.shape, strict=True))
    return Statistic(axes, policy.neighbours is Neighbours.REPLACE_ONE, one_sign)


def charges_of(served: Served, query: Query, policy: Policy) -> tuple[CellRun, ...]:
    """Returns what a fresh measurement charges each cell, for the account's neighbours, in at most 16 runs."""
    statistic = statistic_of(policy, served.cube, served.total)
    if isinstance(query, Look):
        return (CellRun(0, served.cube.cells, statistic.largest_factor * WHOLE_WEIGHT),)
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
    groups = []
    for indices in product(*(range(size) for size in sizes)):
        inside: list[slice | int] = [slice(None)] * len(cube.columns)
        for axis, index in zip(axes, indices, strict=True):
            inside[axis] = index
        part = np.zeros_like(weights)
        part[tuple(inside)] = weights[tuple(inside)]
        groups.append(Linear(*from_weights(part.ravel())) if part.any() else None)
    return tuple(groups)
