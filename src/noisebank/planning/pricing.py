"""Accuracy targets: what a caller may ask for, and the target precision that it means. From public numbers only.

`parse_accuracy` checks a caller's options, `compute_target` gives the precision; `reuse` and `inference` price it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from noisebank.core.caches import cache_results
from noisebank.core.errors import BadRequest
from noisebank.core.intervals import quantile_bound
from noisebank.core.units import (
    MAX_PRECISION,
    MIN_PRECISION,
    Exact,
    Precision,
    ceil_to_ladder,
    floor_to_ladder,
    parse_exact,
)
from noisebank.planning.relative import RelativeTarget, parse_relative, parse_share
from noisebank.privacy.calibration import Calibration, request_precision


@dataclass(frozen=True, slots=True)
class PrivacyTarget:
    """As private as (epsilon, delta), for this answer alone."""

    epsilon: Fraction
    delta: Fraction
    calibration: Calibration = Calibration.ANALYTIC

    def target_precision(self, sensitivity: Fraction) -> Precision:
        """Returns the precision, rounded down: never less private than asked. The sensitivity cancels."""
        return floor_to_ladder(request_precision(self.epsilon, self.delta, self.calibration))

    def to_json(self) -> dict[str, str]:
        """Returns the target as texts, for the vault and for opened records."""
        return {"epsilon": str(self.epsilon), "delta": str(self.delta), "calibration": self.calibration.value}


@dataclass(frozen=True, slots=True)
class NoiseTarget:
    """Noise of this standard deviation, in the answer's own unit."""

    sigma: Fraction

    def target_precision(self, sensitivity: Fraction) -> Precision:
        """Returns Delta^2 / sigma^2, rounded down: never less noise than asked."""
        return floor_to_ladder(Precision.floor((sensitivity / self.sigma) * (sensitivity / self.sigma)))

    def to_json(self) -> dict[str, str]:
        """Returns the target as texts, for the vault and for opened records."""
        return {"sigma": str(self.sigma)}


@dataclass(frozen=True, slots=True)
class WithinTarget:
    """Within this distance of the truth with this confidence, in the answer's own unit."""

    within: Fraction
    confidence: Fraction

    def target_precision(self, sensitivity: Fraction) -> Precision:
        """Returns (z Delta / within)^2, rounded up: never less accurate than asked."""
        root = quantile_bound(self.confidence) * sensitivity / self.within
        return ceil_to_ladder(Precision.ceil(root * root))

    def to_json(self) -> dict[str, str]:
        """Returns the target as texts, for the vault and for opened records."""
        return {"within": str(self.within), "confidence": str(self.confidence)}


@dataclass(frozen=True, slots=True)
class PrecisionTarget:
    """Exactly this precision, a step of the ladder (`units.floor_to_ladder`)."""

    precision: Precision

    def target_precision(self, sensitivity: Fraction) -> Precision:
        """Returns the precision itself."""
        return floor_to_ladder(self.precision)

    def to_json(self) -> dict[str, str]:
        """Returns the target as texts, for the vault and for opened records."""
        return {"precision": str(self.precision.exact)}


AccuracyTarget = PrivacyTarget | NoiseTarget | WithinTarget | RelativeTarget | PrecisionTarget


def parse_accuracy(
    epsilon: Exact | None = None,
    delta: Exact | None = None,
    sigma: Exact | None = None,
    within: Exact | None = None,
    relative: Exact | None = None,
    floor: Exact | None = None,
    confidence: Exact | None = None,
    precision: Exact | None = None,
    calibration: str | None = None,
    spend: Exact | None = None,
    budget: Precision | None = None,
) -> AccuracyTarget:
    """Returns the target that a caller gives: exactly one of (epsilon, delta), sigma, within, relative, precision, and
    spend, a share of the account's budget."""
    ways = {
        "epsilon and delta": (epsilon, delta),
        "sigma": (sigma,),
        "within": (within,),
        "relative": (relative,),
        "precision": (precision,),
        "spend": (spend,),
    }
    used = [name for name, values in ways.items() if values.count(None) < len(values)]
    if len(used) > 1:
        raise BadRequest(" and ".join(used), "both", "say how good the answer shall be in one way only")
    if calibration is not None and used != ["epsilon and delta"]:
        raise BadRequest("calibration", calibration, "goes with epsilon and delta")
    check_confidence(confidence)  # of the interval that the answer states, whatever decides the noise
    if floor is not None and relative is None:
        raise BadRequest("floor", floor, "goes with relative")
    if sigma is not None:
        return NoiseTarget(_parse_positive(sigma, "sigma"))
    if within is not None:
        return WithinTarget(_parse_positive(within, "within"), check_confidence(confidence))
    if relative is not None:
        return parse_relative(relative, check_confidence(confidence), floor)
    if spend is not None:
        return PrecisionTarget(_share_of_budget(spend, budget))
    if precision is not None:
        return PrecisionTarget(Precision.floor(_parse_positive(precision, "precision")))
    if epsilon is None:
        what = "say how accurate the answer shall be: within, relative, sigma, spend, or epsilon and delta"
        raise BadRequest("epsilon", None, what)
    if delta is None:
        raise BadRequest("delta", None, "it goes with epsilon, e.g. 1e-7; or say within, relative, sigma or spend")
    try:
        rule = Calibration("analytic" if calibration is None else calibration)
    except ValueError:
        raise BadRequest("calibration", calibration, "must be analytic or classical") from None
    pair = PrivacyTarget(_parse_positive(epsilon, "epsilon"), parse_exact(delta, "delta"), rule)
    if not 0 < pair.delta < 1:
        raise BadRequest("delta", delta, "must lie in (0, 1)")
    return pair


@cache_results(1 << 20)  # frequent queries mostly come with the same accuracy
def compute_target(accuracy: AccuracyTarget, sensitivity: Fraction) -> Precision:
    """Returns the target precision, on the ladder; raises if no account could pay it, or if it is uselessly small."""
    target = accuracy.target_precision(sensitivity)
    if target < MIN_PRECISION:
        raise BadRequest("precision", target, f"is too little to be useful; ask for at least {MIN_PRECISION}")
    if target > MAX_PRECISION:
        raise BadRequest("precision", "more than 2^96 units", "is more than any account can hold; ask for more noise")
    return target


def divide_target(accuracy: AccuracyTarget, shares: Sequence[Fraction]) -> list[AccuracyTarget]:
    """Returns the targets of the parts of a derived answer: together they cost what one answer alone would.

    Requires: a target about privacy, and shares that add up to at most one. How far noise in the parts changes a ratio
    depends on the data.
    """
    assert isinstance(accuracy, (PrivacyTarget, PrecisionTarget)), "others are for plain questions"
    target = compute_target(accuracy, Fraction(1))
    return [PrecisionTarget(floor_to_ladder(Precision(int(target.units * share)))) for share in shares]


def check_confidence(confidence: Exact | None) -> Fraction:
    """Returns the confidence, 0.95 by default; raises unless it lies in (0, 1), away from the ends."""
    value = Fraction(19, 20) if confidence is None else parse_exact(confidence, "confidence")
    if not 0 < value < 1:
        raise BadRequest("confidence", confidence, "must lie in (0, 1)")
    if not Fraction(1, 1000) <= value <= 1 - Fraction(1, 10**9):
        raise BadRequest("confidence", confidence, "must lie in [0.001, 0.999999999]")
    return value


def parse_spend(spend: Exact) -> Fraction:
    """Returns a share of the budget. "1%" and 0.01 are equal."""
    share = parse_share(spend, "spend")
    if not 0 < share <= 1:
        raise BadRequest("spend", spend, "must lie in (0, 1], e.g. 0.01 or 1%")
    return share


def _share_of_budget(spend: Exact, budget: Precision | None) -> Precision:
    """Returns a share of the budget, whatever of it is spent: so a retry asks for the same."""
    share = parse_spend(spend)
    if budget is None:
        raise BadRequest("spend", spend, "needs an account, whose budget it is a share of")
    return Precision.floor(share * budget.exact)


def _parse_positive(value: Exact, parameter: str) -> Fraction:
    number = parse_exact(value, parameter)
    if number <= 0:
        raise BadRequest(parameter, value, "must be above 0")
    return number
