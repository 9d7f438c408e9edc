"""The steps of the one path inside a cube: plan from all that is known, charge by cells, learn, infer.

Plain reuse stays as it is; a reservation's cube says which of the two a request went through.
"""

from __future__ import annotations

from fractions import Fraction
from math import isqrt
from typing import Any

from noisebank.account.cube_state import Known, nodes_of
from noisebank.core.entropy import Entropy
from noisebank.core.errors import Tampered
from noisebank.core.records import Case
from noisebank.core.units import NOTHING, GridValue, Precision
from noisebank.engines.cube_engine import CubedEngine
from noisebank.engines.engine import Engine
from noisebank.ledger.chain import Chain
from noisebank.ledger.protocol import Reservation, Run
from noisebank.planning.linear import Charge
from noisebank.planning.prefix import Prefix
from noisebank.planning.reuse import Plan
from noisebank.planning.serving import COUNTS, Look, Served, charges_of, look_at
from noisebank.privacy.noise import draw_all, noise_scale
from noisebank.queries.cells import cubes_of
from noisebank.queries.query import Query

FINE = 24
"""Bits that an inferred value has below its standard deviation: an estimate is a rational number, a grid is shorter."""


def runs_of(charges: tuple[Charge, ...]) -> tuple[Run, ...]:
    """A planner's charges as the contract's runs."""
    return tuple(Run(*charge) for charge in charges)


class Cubes:
    """The cubes of one version of an account: what is known, and which of the ledger's cubes they are."""

    def __init__(self, account: bytes, known: Known, numbers: tuple[int, ...], ledger: Chain, engine: Engine) -> None:
        self._account, self._known, self.numbers = account, known, numbers
        self._ledger, self._engine = ledger, engine

    def serving(self, query: Query) -> Served | None:
        """How a cube serves the query; None if it must be asked plainly."""
        return self._known.serving(query) if self.numbers else None

    def looks(self) -> list[Look]:
        """First looks at the counts of each cube."""
        return [look_at(cube, COUNTS) for cube in cubes_of(self._known.policy)] if self.numbers else []

    def offer(self, served: Served) -> Prefix | None:
        """The first look that could be bought; none if it was, or if there is none."""
        return self._known.offer(served)

    def number(self, served: Served) -> int:
        """The cube's number on the ledger."""
        return self.numbers[served.place]

    def plan(self, served: Served, query: Query, salted: bytes, wanted: Precision, moves: Fraction) -> Plan:
        """The least that must be measured. What is known well enough already is free."""
        needed = self._known.needed(served, wanted, moves)
        number = self.number(served)
        if not needed.fresh:
            return Plan(Case.INFER, wanted, NOTHING, None, number, (), NOTHING)
        for group in served.groups:
            if group:
                noise_scale(served.variance(group, needed.fresh))
        charges = charges_of(served, query, self._known.policy)
        records = self._ledger.records(self._account, salted, number, runs_of(charges))
        best = records[-1].precision if records else NOTHING
        case = Case.REFINE if records else Case.FIRST
        return Plan(case, wanted, needed.fresh, None, number, charges, best + needed.fresh, needed.first)

    def measure(self, served: Served, query: Query, reservation: Reservation, entropy: Entropy) -> dict[str, Any]:
        """One paid measurement, learned: what of it is sealed."""
        if isinstance(query, Look):
            levels = self._look(served, self._known.prefix(served, reservation.fresh), entropy)
            self._known.learn_look(served, reservation.fresh, levels)
            return {"levels": levels}
        exact = self._engine.statistics(query) if query.by else (self._engine.statistic(query),)
        measured = [GridValue(0, 0)] * len(exact)
        variances = [served.variance(group, reservation.fresh) if group else None for group in served.groups]
        for variance in {each for each in variances if each is not None}:
            places = [place for place, each in enumerate(variances) if each == variance]
            drawn = draw_all([Fraction(exact[place]) for place in places], variance, entropy)
            for place, value in zip(places, drawn, strict=True):
                measured[place] = value
        self._known.learn(served, reservation.fresh, measured)
        return {"measured": [[value.numerator, value.shift] for value in measured]}

    def learned(self, served: Served, query: Query, body: dict[str, Any]) -> None:
        """Takes in a measurement that was sealed before."""
        fresh = Precision(body["fresh"])
        if isinstance(query, Look):
            self._known.learn_look(served, fresh, body["levels"])
        elif fresh:
            self._known.learn(served, fresh, [GridValue(*value) for value in body["measured"]])

    def inferred(self, served: Served, query: Query, wanted: Precision, moves: Fraction) -> dict[str, Any]:
        """What is known now, as it is sealed: values and variances, and what they were inferred from.

        Groups along an ordered column are sealed with the variances of their running sums: quantiles are made of these.
        """
        count, looked = self._known.measurements(served)
        values, variances = [], []
        for value, variance in self._known.answer(served, wanted, moves):
            grid = GridValue.nearest(value, _shift(variance))
            values.append([grid.numerator, grid.shift])
            variances.append(str(variance))
        found = {"values": values, "variances": variances, "measurements": count, "first_look": looked}
        if len(query.by) == 1 and self._known.policy.columns[query.by[0]].numeric:
            found["running"] = [str(variance) for variance in self._known.running(served)]
        return found

    def _look(self, served: Served, prefix: Prefix, entropy: Entropy) -> list[Any]:
        if not isinstance(self._engine, CubedEngine):
            raise Tampered("a cube was charged that this account has not")
        cells = self._engine.cells(served.place, *served.total)
        levels = []
        for level, nodes in nodes_of(prefix, cells).items():
            variance = Fraction(served.reach) ** 2 / prefix.levels[level].exact
            drawn = draw_all([Fraction(int(node)) for node in nodes.ravel()], variance, entropy)
            levels.append([list(level), drawn[0].shift, [value.numerator for value in drawn]])
        return levels


def _shift(variance: Fraction) -> int:
    """Of a grid that is fine beside the standard deviation; whole steps if there is none."""
    if not variance:
        return 0
    return max(
        0,
        FINE - isqrt(int(variance)).bit_length() if variance >= 1 else FINE + (int(1 / variance).bit_length() + 1) // 2,
    )
