"""Queries over cubes: finds the cube that can answer a query, and turns each group into a linear query over cells.

Counts, and sums of one column, are linear in the cells. One person changes a cell by at most `cell_sensitivity`;
somebody with several rows may change several cells, by no more than that together, which costs no more than changing
one cell by all of it (docs/proofs/inference.md). So a price needs the policy and the query alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from itertools import product
from math import ceil
from typing import Any

import numpy as np

from noisebank.core.records import WHOLE_WEIGHT, CellRun
from noisebank.core.units import Precision
from noisebank.planning.inference import CubeStatistic
from noisebank.planning.linear import MAX_RUNS, LinearQuery, Vector, merge_charges, query_from_weights
from noisebank.planning.losses import BoundLosses, CellLosses, Losses, PairLosses, charge_rise, plain_share
from noisebank.planning.reuse import Plan
from noisebank.planning.strategies.axes import Axis
from noisebank.planning.strategies.looks import Look, look_from_json
from noisebank.policy.model import Neighbours, Policy
from noisebank.queries.cells import Cube, NotCellAligned, has_cell_totals, policy_cubes
from noisebank.queries.groups import column_groups
from noisebank.queries.predicates import TRUE
from noisebank.queries.query import FUNCTION_CODES, GROUPED_BIT, Function, Query, QueryPart, Question

MAX_WORK = 2**24
"""In cells times groups: beyond, a scan is quicker than planning."""
StatisticKey = tuple[Function, str]
COUNT_KEY: StatisticKey = (Function.COUNT, "")
NO_ROWS: Mapping[str, Any] = {"seen": [], "precision": 0, "directions": [], "factors": [], "draws": 2**20}
"""Of a look of an edition before this one: nothing is inferred from it, and it counts as every draw."""


@dataclass(frozen=True, slots=True)
class ChargeLimits:
    """How one part of an atomic group may be charged."""

    max_runs: int = MAX_RUNS
    """Of cells: all parts of a group share those of one transaction."""
    measured_cubes: frozenset[int] = frozenset()
    """Cubes in which earlier parts of the group measure. What that tells is not among the losses yet."""
    same_query: Plan | None = None
    """The best plan of an earlier part that measures the same query there, to another precision."""
    may_look: bool = True
    """Whether a look may be bought first."""


ALONE = ChargeLimits()


@dataclass(frozen=True, slots=True)
class GroupQuery:
    """One group of a query, as `factor` times a canonical query over cells."""

    query: LinearQuery
    factor: Fraction


@dataclass(frozen=True)
class CubeQuery:
    """A query over the cells of a cube. A group without cells is None: it is 0 whatever the table."""

    cube_index: int
    """Of the cube, among `policy_cubes`."""
    cube: Cube
    statistic_key: StatisticKey
    groups: tuple[GroupQuery | None, ...]
    cell_sensitivity: int
    """In steps: how far one person can change one cell."""

    def group_target(self, group: GroupQuery, target: Precision, sensitivity: Fraction) -> Precision:
        """Returns the precision of the group's canonical query that is as good as `target` in the query itself.

        Guarantees: at least as good. `sensitivity` is the query's, in steps.
        """
        scale = group.factor * group.query.max_weight * self.cell_sensitivity / sensitivity
        return Precision.ceil(scale * scale * target.exact)

    def group_variance(self, group: GroupQuery, fresh_precision: Precision) -> Fraction:
        """Returns the variance of a fresh measurement of the group, in squared steps."""
        sensitivity = group.factor * group.query.max_weight * self.cell_sensitivity
        return sensitivity * sensitivity / fresh_precision.exact

    @property
    def group_queries(self) -> list[LinearQuery]:
        """The canonical query of each group that has cells."""
        return [group.query for group in self.groups if group]

    def cell_charges(self) -> tuple[CellRun, ...]:
        """Returns what a measurement of all groups charges each cell: no two groups share a cell."""
        joined: list[CellRun] = []
        for start, stop, weight in sorted(run for query in self.group_queries for run in query.cell_charges()):
            if joined and joined[-1].stop == start and joined[-1].weight == weight:
                start = joined.pop().start
            joined.append(CellRun(start, stop, weight))
        return tuple(joined)


@dataclass(frozen=True, eq=False)
class LookQuery(Query):
    """A look at a cube's counts, or at the sums of one column in it."""

    cube_columns: tuple[str, ...] = ()
    rows: Mapping[str, Any] = field(default_factory=dict)
    """What is measured, as `Look.to_json` wrote it."""

    @property
    def canonical_form(self) -> dict[str, Any]:
        """As JSON of texts and integers; no query that can be written in SQL has the same."""
        parts = [part.canonical_form for part in self.parts]
        return {"look": list(self.cube_columns), "parts": parts, "rows": dict(self.rows)}

    @cached_property
    def category(self) -> int:
        """The public byte: with the bit of groups, since a look is many draws."""
        return FUNCTION_CODES[self.parts[0].function] + GROUPED_BIT

    @property
    def statistic_key(self) -> StatisticKey:
        """What it looks at."""
        return self.parts[0].function, self.parts[0].column or ""

    @property
    def draw_count(self) -> int:
        """Number of its rows, each with noise of its own."""
        return int(self.rows["draws"])

    @property
    def description(self) -> str:
        """In words, for account statements."""
        part = self.parts[0]
        what = "counts" if part.column is None else f"sums of {part.column}"
        return f"look at the {what} over {', '.join(self.cube_columns)}"

    def to_json(self) -> dict[str, Any]:
        """Returns what a request or an opened record says of it."""
        function, column = self.statistic_key
        return {"over": list(self.cube_columns), "function": function.value, "column": column, "rows": dict(self.rows)}

    def find_look(self, policy: Policy) -> Look:
        """Returns what is measured."""
        cube = Cube.for_columns(self.cube_columns, policy.columns)
        return look_from_json(self.rows, cube_statistic(policy, cube, self.statistic_key).axes)


def make_look(cube: Cube, statistic_key: StatisticKey, look: Look) -> LookQuery:
    """Returns the look at one statistic of a cube."""
    function, column = statistic_key
    return LookQuery(
        (QueryPart(function, column or None, ((1, TRUE),)),), cube_columns=cube.columns, rows=look.to_json()
    )


def parse_look(fields: Mapping[str, Any], policy: Policy) -> Question:
    """Returns the look that the fields of a request or of an opened record describe."""
    cube = Cube.for_columns(tuple(fields["over"]), policy.columns)
    part = QueryPart(Function(fields["function"]), fields["column"] or None, ((1, TRUE),))
    look = LookQuery((part,), cube_columns=cube.columns, rows=fields.get("rows", NO_ROWS))
    return Question(look, Fraction(1), look.description)


def find_cube_query(query: Query, policy: Policy) -> CubeQuery | None:
    """Returns the query over the smallest cube that can answer it; None if no cube can."""
    if len(query.parts) != 1 or query.parts[0].function is Function.SQUARES:
        return None
    part = query.parts[0]
    if not has_cell_totals(part, policy):
        return None
    if isinstance(query, LookQuery):
        index, cube = next((n, c) for n, c in enumerate(policy_cubes(policy)) if c.columns == query.cube_columns)
        return CubeQuery(index, cube, (part.function, part.column or ""), (), cell_sensitivity(policy, part))
    for index, cube in enumerate(policy_cubes(policy)):
        if set(query.by) <= set(cube.columns):
            try:
                groups = _group_queries(query, policy, cube)
            except (NotCellAligned, ValueError):  # cut cells, or weights beyond 2^31
                continue
            if groups is not None:
                return CubeQuery(
                    index, cube, (part.function, part.column or ""), groups, cell_sensitivity(policy, part)
                )
    return None


def cell_sensitivity(policy: Policy, part: QueryPart) -> int:
    """Returns how far one person can change a cell, in steps, all of their rows included."""
    largest = 1 if part.column is None else max(abs(bound) for bound in policy.columns[part.column].bounds)
    return policy.max_rows * largest


def cube_statistic(policy: Policy, cube: Cube, statistic_key: StatisticKey) -> CubeStatistic:
    """Returns what `CubePosterior` needs to know of one statistic of a cube."""
    column = policy.columns[statistic_key[1]] if statistic_key[1] else None
    values = {Fraction(1)}
    if column is not None:
        largest = max(abs(bound) for bound in column.bounds)
        values = {Fraction(bound, max(1, largest)) for bound in column.bounds}
    may_miss = policy.max_rows > 1 or policy.complete_columns or (column is not None and column.nullable)
    if may_miss:  # a row, or its value
        values.add(Fraction(0))
    axes = tuple(
        Axis(size, policy.columns[name].is_numeric) for name, size in zip(cube.columns, cube.shape, strict=True)
    )
    return CubeStatistic(axes, policy.neighbours is Neighbours.REPLACE_ONE, tuple(sorted(values)))


def query_charges(
    cube_query: CubeQuery, fresh: Precision, losses: Losses, spent: Vector, charged: Precision | None,
    max_runs: int = MAX_RUNS,
) -> tuple[CellRun, ...]:  # fmt: skip
    """Returns what a fresh measurement of all groups charges, in so many runs, for the account's neighbours.

    `spent` are the losses of all earlier measurements of the cube, `charged` what the ledger took for them; None if
    some are unknown: then the measurement costs what it would cost alone.
    """
    queries = cube_query.group_queries
    if isinstance(losses, CellLosses):
        return merge_charges(cube_query.cell_charges(), max_runs)
    assert isinstance(losses, PairLosses | BoundLosses)
    alone = plain_share(queries, losses.values)
    if isinstance(losses, BoundLosses):
        return losses.charge_groups(queries, fresh, alone, spent, charged is not None, max_runs)
    if charged is None:
        return (CellRun(0, losses.cell_count, max(1, ceil(alone * WHOLE_WEIGHT))),)
    total = spent.copy()
    for query in queries:
        total += losses.of_query(query, fresh)
    return (charge_rise(losses.cell_count, fresh, alone, float(total.max()), charged),)


def _group_queries(query: Query, policy: Policy, cube: Cube) -> tuple[GroupQuery | None, ...] | None:
    weights = np.zeros(cube.shape, dtype=np.int64)
    for weight, predicate in query.parts[0].weights:
        weights += weight * cube.cell_mask(predicate)
    sizes = [len(column_groups(policy.columns[name])) for name in query.by]
    if cube.cell_count * int(np.prod(sizes)) > MAX_WORK:
        return None
    axes = [cube.columns.index(name) for name in query.by]
    groups = []
    for indices in product(*(range(size) for size in sizes)):
        inside: list[slice | int] = [slice(None)] * len(cube.columns)
        for axis, index in zip(axes, indices, strict=True):
            inside[axis] = index
        part = np.zeros_like(weights)
        part[tuple(inside)] = weights[tuple(inside)]
        groups.append(GroupQuery(*query_from_weights(part.ravel())) if part.any() else None)
    return tuple(groups)
