"""The measure step: exact statistics plus exact noise. The only caller of entropy on data outside of cubes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction

from noisebank.core.entropy import Entropy
from noisebank.core.errors import BadTable
from noisebank.core.units import GridValue
from noisebank.engines.engine import Engine, read_each
from noisebank.ledger.protocol import Reservation
from noisebank.privacy.noise import draw_values_many, fresh_variance
from noisebank.queries.query import Query


@dataclass(frozen=True, slots=True)
class Measurement:
    """A query to be measured, its L2 sensitivity in steps, and the reservation that pays for it."""

    query: Query
    sensitivity: Fraction
    reservation: Reservation


def measure(
    engine: Engine, measurements: Sequence[Measurement], entropy: Entropy, check_table: Callable[[], None]
) -> list[tuple[GridValue, ...] | BadTable]:
    """Makes fresh noisy measurements, each paid for by its reservation; returns one number, or one per group, of each.

    Requires: the reservations are durable and charge fresh precision. `check_table` raises if the table changed.
    Guarantees: each statistic plus a discrete Gaussian of its own, of variance at least Delta^2/fresh,
    on a grid at least 2^26 times finer than the noise. Proof: docs/proofs/discrete_gaussian.md.
    """
    check_table()
    queries = [measurement.query for measurement in measurements]
    exact = engine.statistics_many(queries) if len(queries) > 1 else read_each(engine, queries)
    check_table()  # a table that changed under the scan is not the one we opened
    readable = [
        (measurement, totals)
        for measurement, totals in zip(measurements, exact, strict=True)
        if not isinstance(totals, BadTable)
    ]
    drawn = iter(
        draw_values_many(
            [
                (
                    [Fraction(total) for total in totals],
                    fresh_variance(measurement.sensitivity**2, measurement.reservation.fresh_precision),
                )
                for measurement, totals in readable
            ],
            entropy,
        )
    )
    return [totals if isinstance(totals, BadTable) else next(drawn) for totals in exact]
