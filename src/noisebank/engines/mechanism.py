"""The measure step: exact statistics plus exact noise. The only caller of entropy on data outside of cubes."""

from __future__ import annotations

from fractions import Fraction

from noisebank.core.entropy import Entropy
from noisebank.core.units import GridValue
from noisebank.engines.engine import Engine
from noisebank.ledger.protocol import Reservation
from noisebank.privacy.noise import draw_all, fresh_variance
from noisebank.queries.query import Query


def measure(
    engine: Engine, query: Query, sensitivity: Fraction, reservation: Reservation, entropy: Entropy
) -> tuple[GridValue, ...]:
    """Makes one fresh noisy measurement, paid for by `reservation`; returns one number, or one per group.

    Requires: `reservation` is durable and charges fresh precision; `sensitivity` in steps (L2).
    Guarantees: each statistic plus a discrete Gaussian of its own, of variance at least Delta^2/fresh,
    on a grid at least 2^26 times finer than the noise. Proof: docs/proofs/discrete_gaussian.md.
    """
    variance = fresh_variance(sensitivity * sensitivity, reservation.fresh)
    exact = engine.statistics(query) if query.by else (engine.statistic(query),)
    return draw_all([Fraction(statistic) for statistic in exact], variance, entropy)
