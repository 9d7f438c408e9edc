"""P0's experiment: 150 requests of five types, planned by the product's own pricing and reuse."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

from noisebank.core.entropy import workload_rng
from noisebank.core.records import Record
from noisebank.core.units import ZERO_PRECISION, Precision
from noisebank.planning.pricing import PrivacyTarget, compute_target
from noisebank.planning.reuse import Plan, plan_reuse
from noisebank.privacy.calibration import Calibration

REQUESTS, TYPES = 150, 5
BUDGET = (Fraction(8), Fraction(1, 10**4))
DELTAS = {"P0": (1e-5, 1e-4), "P4": (1e-7, 1e-5)}
"""From where the deltas of requests are drawn: in the article, and in chapter 4 of the thesis."""
NAMES = ("personal_income", "family_income", "citizens", "white", "over_60")
"""Of the five types, as the survey's policy calls them."""


@dataclass(frozen=True, slots=True)
class Request:
    """One of the 150."""

    kind: int
    epsilon: Fraction
    delta: Fraction

    @property
    def wanted(self) -> Precision:
        """By Lemma 1 of P0; the sensitivity cancels."""
        return compute_target(PrivacyTarget(self.epsilon, self.delta, Calibration.CLASSICAL), Fraction(1))


def requests(seed: int, deltas: tuple[float, float] = DELTAS["P0"], count: int = REQUESTS) -> Iterator[Request]:
    """Types uniform, epsilon ~ U[.1, 1.1], delta uniform."""
    random = workload_rng(seed)
    for _ in range(count):
        epsilon, delta = round(random.uniform(0.1, 1.1), 6), round(random.uniform(*deltas), 12)
        yield Request(random.randrange(TYPES), Fraction(str(epsilon)), Fraction(str(delta)))


@dataclass(frozen=True, slots=True)
class Spending:
    """Precision spent after each request, in units, with and without reuse."""

    bank: tuple[int, ...]
    naive: tuple[int, ...]
    cases: Counter[str]


def spend(seed: int, deltas: tuple[float, float] = DELTAS["P0"]) -> Spending:
    """What the planner charges for one run of requests."""
    bank, naive, cases = [0], [0], Counter[str]()
    for _, planned in planned_requests(seed, deltas):
        cases[planned.case.name] += 1
        bank.append(bank[-1] + planned.fresh_precision.units)
        naive.append(naive[-1] + planned.target.units)
    return Spending(tuple(bank[1:]), tuple(naive[1:]), cases)


def planned_requests(seed: int, deltas: tuple[float, float] = DELTAS["P0"]) -> Iterator[tuple[int, Plan]]:
    """Type and plan of each request, as the planner decides it from the records so far."""
    records: dict[int, list[Record]] = {kind: [] for kind in range(TYPES)}
    for place, request in enumerate(requests(seed, deltas)):
        planned = plan_reuse(request.wanted, records[request.kind])
        if planned.fresh_precision:
            records[request.kind].append(Record(place.to_bytes(32, "big"), planned.target))
        yield request.kind, planned


def fitting(seed: int, budget: Precision, calibration: Calibration) -> int:
    """How many *different* queries with P0's wishes a budget pays for, until the first that it does not."""
    spent, fit = ZERO_PRECISION, 0
    for request in requests(seed, count=1000):
        wished = PrivacyTarget(request.epsilon, request.delta, calibration)
        spent += compute_target(wished, Fraction(1))
        if spent > budget:
            break
        fit += 1
    return fit
