"""`CubeRecount`: what measurements in the cubes of an opened account must have charged, recomputed in the ledger's
order."""

from __future__ import annotations

from fractions import Fraction
from math import ceil

from noisebank.core.records import WHOLE_WEIGHT, CellRun
from noisebank.core.units import UNITS_PER_PRECISION
from noisebank.ledger.protocol import Reservation
from noisebank.planning.linear import Vector, merge_charges
from noisebank.planning.losses import BoundLosses, Losses, PairLosses, plain_share
from noisebank.planning.serving import CubeQuery, LookQuery, cube_statistic, find_cube_query
from noisebank.policy.model import Policy
from noisebank.queries.query import Query

ROUNDING = 2.0**-30
"""Share by which two machines may disagree about a sum of losses."""


class CubeRecount:
    """The losses of all opened measurements, per cube."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self._losses: dict[int, Vector] = {}
        self._charged: dict[int, int] = {}
        self._unknown: set[int] = set()

    def skip(self, reservation: Reservation) -> None:
        """Notes a measurement whose question was not opened: sums over pairs of its cube cannot be recomputed."""
        self._unknown.add(reservation.cube)

    def check(self, reservation: Reservation, query: Query) -> bool:
        """Whether a measurement was charged what its question costs. Requires all earlier ones to be checked or
        skipped."""
        served = find_cube_query(query, self._policy)
        if served is None:
            raise ValueError("no cube of the policy can serve it")
        losses = cube_statistic(self._policy, served.cube, served.statistic_key).losses
        if isinstance(losses, PairLosses):
            return self._check_pairs(reservation, query, served, losses)
        if isinstance(query, LookQuery):
            return self._check_look(reservation, query, losses)
        count = len(reservation.runs)  # fewer than 16 where other parts of an atomic group have had the rest
        options = {merge_charges(served.cell_charges(), count)}
        if isinstance(losses, BoundLosses):
            whole = CellRun(0, losses.cell_count, _whole_weight(plain_share(served.group_queries, losses.values)))
            doubled = [CellRun(start, stop, 2 * weight) for start, stop, weight in served.cell_charges()]
            may_double = min(losses.values) >= 0 and all(run.weight > 0 for q in served.group_queries for run in q.runs)
            options = {(whole,), *([merge_charges(doubled, count)] if may_double else [])}
        return reservation.runs in options

    def _check_look(self, reservation: Reservation, query: LookQuery, losses: Losses) -> bool:
        """Every cell is charged the length of its column, at least: from the rows of whole numbers, exactly."""
        look = query.find_look(self._policy)
        if look.precision != reservation.fresh_precision:
            return False
        least = look.strategy.spread_parts(losses.look_factor * look.charges).tolist()
        for start, stop, weight in reservation.runs:
            if max(least[start:stop], default=0) > weight:
                return False
            least[start:stop] = [0] * len(least[start:stop])
        return not any(least)

    def _check_pairs(self, reservation: Reservation, query: Query, served: CubeQuery, losses: PairLosses) -> bool:
        """All cells are charged alike: the price of the measurement alone, or what all pairs have lost by now."""
        cube, fresh = reservation.cube, reservation.fresh_precision
        if len(reservation.runs) != 1 or reservation.runs[0][:2] != (0, losses.cell_count):
            return False
        total = self._losses.setdefault(cube, losses.zeros())
        if isinstance(query, LookQuery):
            look = query.find_look(self._policy)
            if look.precision != fresh:
                return False
            loss = losses.of_look(look)
            total += loss
            alone = Fraction(float(loss.max()) * (1 - ROUNDING)) / fresh.exact
        else:
            for part in served.group_queries:
                total += losses.of_query(part, fresh)
            alone = plain_share(served.group_queries, losses.values)
        weight = reservation.runs[0].weight
        self._charged[cube] = self._charged.get(cube, 0) - (-fresh.units * weight // WHOLE_WEIGHT)
        if weight >= _whole_weight(alone) or cube in self._unknown:
            return True
        return self._charged[cube] >= float(total.max()) * (1 - ROUNDING) * UNITS_PER_PRECISION


def _whole_weight(share: Fraction) -> int:
    return max(1, ceil(share * WHOLE_WEIGHT))
