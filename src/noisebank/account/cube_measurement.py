"""`CubePlanner`: plans, measures and infers in an account's cubes, from all that is known there (`CubeState`).

`CubeStrategy` calls it. It knows which of the ledger's cubes they are, and what of a measurement is sealed.
"""

from __future__ import annotations

from fractions import Fraction
from math import isqrt
from typing import Any

from noisebank.account.cube_state import CubeState, sum_nodes
from noisebank.core.entropy import Entropy
from noisebank.core.errors import Tampered
from noisebank.core.records import Case
from noisebank.core.units import ZERO_PRECISION, GridValue, Precision
from noisebank.engines.cube_engine import CubedEngine
from noisebank.engines.engine import Engine
from noisebank.ledger.chain import Ledger
from noisebank.ledger.protocol import Reservation
from noisebank.planning.prefix import TreeMeasurement
from noisebank.planning.reuse import Plan
from noisebank.planning.serving import COUNT_KEY, CubeQuery, FirstLookQuery, make_first_look, query_charges
from noisebank.privacy.noise import draw_values, noise_scale
from noisebank.queries.cells import policy_cubes
from noisebank.queries.query import Query

EXTRA_BITS = 24
"""Bits of an inferred value below its standard deviation: estimates are rationals, the grid keeps them short."""


class CubePlanner:
    """The cubes of one version of an account: their state, and their numbers on the ledger."""

    def __init__(
        self, account: bytes, state: CubeState, cube_numbers: tuple[int, ...], ledger: Ledger, engine: Engine
    ) -> None:
        self._account, self._state, self.cube_numbers = account, state, cube_numbers
        self._ledger, self._engine = ledger, engine

    def find_cube_query(self, query: Query) -> CubeQuery | None:
        """Returns the query over a cube's cells; None if no cube can answer it."""
        return self._state.find_cube_query(query) if self.cube_numbers else None

    def first_looks(self) -> list[FirstLookQuery]:
        """Returns a first look at the counts of each cube."""
        return (
            [make_first_look(cube, COUNT_KEY) for cube in policy_cubes(self._state.policy)] if self.cube_numbers else []
        )

    def offered_look(self, cube_query: CubeQuery) -> TreeMeasurement | None:
        """Returns the first look that could be bought; None if it was bought, or if there is none."""
        return self._state.offered_look(cube_query)

    def cube_number(self, cube_query: CubeQuery) -> int:
        """Returns the cube's number on the ledger."""
        return self.cube_numbers[cube_query.cube_index]

    def plan_query(
        self, cube_query: CubeQuery, query: Query, salted_digest: bytes, target: Precision, sensitivity: Fraction
    ) -> Plan:
        """Plans to measure as little as possible. What is known well enough already is free."""
        required = self._state.plan_measurement(cube_query, target, sensitivity)
        number = self.cube_number(cube_query)
        if not required.fresh_precision:
            return Plan(Case.INFER, target, ZERO_PRECISION, None, number, (), ZERO_PRECISION)
        for group in cube_query.groups:
            if group:
                noise_scale(
                    cube_query.group_variance(group, required.fresh_precision)
                )  # refuses noise that 64 bits cannot hold
        charges = query_charges(cube_query, query, self._state.policy)
        records = self._ledger.list_records(self._account, salted_digest, number, charges)
        best = records[-1].precision if records else ZERO_PRECISION
        case = Case.REFINE if records else Case.FIRST
        return Plan(
            case,
            target,
            required.fresh_precision,
            None,
            number,
            charges,
            best + required.fresh_precision,
            required.first_look,
        )

    def measure_query(
        self, cube_query: CubeQuery, query: Query, reservation: Reservation, entropy: Entropy
    ) -> dict[str, Any]:
        """Measures what was paid for and learns it. Returns what of it is sealed."""
        if isinstance(query, FirstLookQuery):
            levels = self._measure_look(
                cube_query, self._state.paid_look(cube_query, reservation.fresh_precision), entropy
            )
            self._state.learn_look(cube_query, reservation.fresh_precision, levels)
            return {"levels": levels}
        exact = self._engine.statistics(query) if query.by else (self._engine.statistic(query),)
        measured = [GridValue(0, 0)] * len(exact)
        variances = [
            cube_query.group_variance(group, reservation.fresh_precision) if group else None
            for group in cube_query.groups
        ]
        for variance in {known for known in variances if known is not None}:
            indices = [index for index, other in enumerate(variances) if other == variance]
            drawn = draw_values([Fraction(exact[index]) for index in indices], variance, entropy)
            for index, value in zip(indices, drawn, strict=True):
                measured[index] = value
        self._state.learn_values(cube_query, reservation.fresh_precision, measured)
        return {"measured": [[value.numerator, value.shift] for value in measured]}

    def learn_sealed(self, cube_query: CubeQuery, query: Query, body: dict[str, Any]) -> None:
        """Learns a measurement that was sealed before."""
        fresh = Precision(body["fresh"])
        if isinstance(query, FirstLookQuery):
            self._state.learn_look(cube_query, fresh, body["levels"])
        elif fresh:
            self._state.learn_values(cube_query, fresh, [GridValue(*value) for value in body["measured"]])

    def infer_body(
        self, cube_query: CubeQuery, query: Query, target: Precision, sensitivity: Fraction
    ) -> dict[str, Any]:
        """Returns the estimates as they are sealed: values, variances, and how many measurements they come from.

        Groups along an ordered column are sealed with the variances of their running sums: quantiles need them.
        """
        count, looked = self._state.count_measurements(cube_query)
        values, variances = [], []
        for value, variance in self._state.estimate_groups(cube_query, target, sensitivity):
            grid = GridValue.nearest(value, _grid_shift(variance))
            values.append([grid.numerator, grid.shift])
            variances.append(str(variance))
        body = {"values": values, "variances": variances, "measurements": count, "first_look": looked}
        if len(query.by) == 1 and self._state.policy.columns[query.by[0]].is_numeric:
            body["running"] = [str(variance) for variance in self._state.running_variances(cube_query)]
        return body

    def _measure_look(self, cube_query: CubeQuery, tree: TreeMeasurement, entropy: Entropy) -> list[Any]:
        if not isinstance(self._engine, CubedEngine):
            raise Tampered("a cube was charged that this account has not")
        cells = self._engine.cell_totals(cube_query.cube_index, *cube_query.statistic_key)
        levels = []
        for level, nodes in sum_nodes(tree, cells).items():
            variance = Fraction(cube_query.cell_sensitivity) ** 2 / tree.level_precisions[level].exact
            drawn = draw_values([Fraction(int(node)) for node in nodes.ravel()], variance, entropy)
            levels.append([list(level), drawn[0].shift, [value.numerator for value in drawn]])
        return levels


def _grid_shift(variance: Fraction) -> int:
    """Returns the shift of a grid that is fine compared with the standard deviation; 0 (whole steps) if that is 0."""
    if not variance:
        return 0
    return max(
        0,
        EXTRA_BITS - isqrt(int(variance)).bit_length()
        if variance >= 1
        else EXTRA_BITS + (int(1 / variance).bit_length() + 1) // 2,
    )
