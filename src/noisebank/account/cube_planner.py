"""`CubePlanner`: plans, measures and infers in an account's cubes, from all that is known there (`CubeState`).

`CubeStrategy` calls it. It knows which of the ledger's cubes they are, and what of a measurement is sealed.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import isqrt
from typing import Any

from noisebank.account.cube_state import CubeState, read_values
from noisebank.core.entropy import Entropy
from noisebank.core.errors import Tampered
from noisebank.core.records import Case, CellRun
from noisebank.core.units import ZERO_PRECISION, GridValue, Precision
from noisebank.engines.cube_engine import CubedEngine
from noisebank.engines.engine import Engine
from noisebank.ledger.chain import Ledger
from noisebank.ledger.protocol import Reservation
from noisebank.planning.look_buyer import LookPlan
from noisebank.planning.reuse import Plan
from noisebank.planning.serving import ALONE, ChargeLimits, CubeQuery, LookQuery
from noisebank.planning.strategies.looks import Look
from noisebank.privacy.noise import draw_values, noise_scale
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
        self._paid_requests: dict[tuple[bytes, Precision], Reservation] = {}
        """By salted query and target: what was measured for just that request."""

    def find_cube_query(self, query: Query) -> CubeQuery | None:
        """Returns the query over a cube's cells; None if no cube can answer it."""
        return self._state.find_cube_query(query) if self.cube_numbers else None

    def cube_number(self, cube_query: CubeQuery) -> int:
        """Returns the cube's number on the ledger."""
        return self.cube_numbers[cube_query.cube_index]

    def plan_query(
        self, cube_query: CubeQuery, query: Query, salted_digest: bytes, target: Precision, sensitivity: Fraction,
        limits: ChargeLimits = ALONE, is_again: bool = False,
    ) -> Plan:  # fmt: skip
        """Plans to measure as little as possible. What is known well enough already is free, and so is what was
        answered before (`is_again`): a record of the ledger if it was measured for this very request."""
        number, room = self.cube_number(cube_query), self._ledger.get_account(self._account).remaining_budget
        required = None if is_again else self._state.plan_measurement(
            cube_query, target, sensitivity, self._count_paid(number), room, limits,
            number not in limits.measured_cubes,
        )  # fmt: skip
        if required is None or not required.fresh_precision:
            paid = self._paid_requests.get((salted_digest, target))
            if paid is not None and len(paid.runs) <= limits.max_runs:
                return Plan(Case.REPEAT, target, ZERO_PRECISION, None, number, paid.runs, paid.target)
            return Plan(Case.INFER, target, ZERO_PRECISION, None, number, (), ZERO_PRECISION, is_again=is_again)
        for group in cube_query.groups:
            if group:
                noise_scale(
                    cube_query.group_variance(group, required.fresh_precision)
                )  # refuses noise that 64 bits cannot hold
        records = self._ledger.list_records(self._account, salted_digest, number, required.charges)
        best, same = records[-1].precision if records else ZERO_PRECISION, limits.same_query
        if same is not None and same.charges == required.charges:  # recorded before this part
            best = max(best, same.claimed_precision or ZERO_PRECISION)
        case = Case.REFINE if best else Case.FIRST
        claimed = best + required.fresh_precision
        return Plan(
            case, target, required.fresh_precision, None, number, required.charges, claimed, required.look
        )  # fmt: skip

    def find_paid(self, salted_digest: bytes, target: Precision) -> Reservation | None:
        """Returns what was measured for just this query and target; None if nothing was."""
        return self._paid_requests.get((salted_digest, target))

    def note_asked(self, cube_query: CubeQuery, target: Precision, sensitivity: Fraction) -> None:
        """Notes a question that is answered as before: it earns as any other."""
        self._state.note_asked(cube_query, target, sensitivity)

    def charge_look(self, cube_query: CubeQuery, plan: LookPlan) -> tuple[CellRun, ...]:
        """Returns what the ledger is asked to charge for a look."""
        return self._state.charge_look(cube_query, plan)

    def _count_paid(self, number: int) -> int:
        """Returns how many measurements the ledger has charged to a cube in this version."""
        return self._ledger.books.count_cube_measurements(self._account, number)

    def measure_query(
        self, cube_query: CubeQuery, query: Query, reservation: Reservation, target: Precision, sensitivity: Fraction,
        entropy: Entropy,
    ) -> dict[str, Any]:  # fmt: skip
        """Measures what was paid for and learns it. Returns what of it is sealed."""
        if isinstance(query, LookQuery):
            body = self._measure_look(cube_query, query, entropy)
            self._learn_look(cube_query, query, reservation, body)
            return body
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
        self._learn_values(cube_query, reservation, target, sensitivity, measured)
        return {"measured": [[value.numerator, value.shift] for value in measured]}

    def learn_sealed(
        self, cube_query: CubeQuery, query: Query, reservation: Reservation, target: Precision, sensitivity: Fraction,
        body: dict[str, Any],
    ) -> None:  # fmt: skip
        """Learns a measurement that was sealed before."""
        if isinstance(query, LookQuery):
            if "row_values" in body:  # not those of editions before this one
                self._learn_look(cube_query, query, reservation, body)
        elif reservation.fresh_precision:
            measured = [GridValue(*value) for value in body["measured"]]
            self._learn_values(cube_query, reservation, target, sensitivity, measured)

    def _learn_values(
        self, cube_query: CubeQuery, reservation: Reservation, target: Precision, sensitivity: Fraction,
        measured: Sequence[GridValue],
    ) -> None:  # fmt: skip
        self._state.learn_values(cube_query, reservation, target, sensitivity, measured)
        self._paid_requests[reservation.query, target] = reservation

    def _learn_look(
        self, cube_query: CubeQuery, query: LookQuery, reservation: Reservation, body: dict[str, Any]
    ) -> None:
        divisor = query.find_look(self._state.policy).noise_scale * cube_query.cell_sensitivity
        values = read_values(body["row_values"], body["shift"], divisor)
        self._state.learn_look(cube_query, reservation, query, values)

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

    def _measure_look(self, cube_query: CubeQuery, query: LookQuery, entropy: Entropy) -> dict[str, Any]:
        if not isinstance(self._engine, CubedEngine):
            raise Tampered("a cube was charged that this account has not")
        look = query.find_look(self._state.policy)
        cells = self._engine.look(query, cube_query.cube_index)
        rows = look.round_values(cells.reshape(-1))
        drawn = draw_values([Fraction(int(row)) for row in rows], look_variance(cube_query, look), entropy)
        return {"row_values": [value.numerator for value in drawn], "shift": drawn[0].shift}


def look_variance(cube_query: CubeQuery, look: Look) -> Fraction:
    """Returns the variance of the noise of each row, in squared units of the rounded rows."""
    scale = look.noise_scale * cube_query.cell_sensitivity
    return scale * scale / look.precision.exact


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
