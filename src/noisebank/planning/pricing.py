"""The price step: a wish becomes a target precision. Public numbers only."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from noisebank.errors import BadRequest
from noisebank.privacy.calibration import Calibration, request_precision
from noisebank.units import LEAST_PRECISION, MOST_PRECISION, Exact, Precision, exact, on_ladder


@dataclass(frozen=True, slots=True)
class PrivacyWish:
    """As private as (epsilon, delta) for this answer alone."""

    epsilon: Fraction
    delta: Fraction
    calibration: Calibration = Calibration.ANALYTIC

    def precision(self, sensitivity: Fraction) -> Precision:
        """Independent of the sensitivity: precision is dimensionless."""
        return request_precision(self.epsilon, self.delta, self.calibration)

    def plain(self) -> dict[str, str]:
        """As text, for the vault and for opened records."""
        return {"epsilon": str(self.epsilon), "delta": str(self.delta), "calibration": self.calibration.value}

    def __str__(self) -> str:
        return f"epsilon {float(self.epsilon):g}, delta {float(self.delta):g} ({self.calibration.value})"


@dataclass(frozen=True, slots=True)
class NoiseWish:
    """Noise of this standard deviation, in the answer's own unit."""

    sigma: Fraction

    def precision(self, sensitivity: Fraction) -> Precision:
        """Delta^2 / sigma^2, rounded down."""
        return Precision.floor((sensitivity / self.sigma) * (sensitivity / self.sigma))

    def plain(self) -> dict[str, str]:
        """As text, for the vault and for opened records."""
        return {"sigma": str(self.sigma)}

    def __str__(self) -> str:
        return f"sigma {float(self.sigma):g}"


Wish = PrivacyWish | NoiseWish


def wish(
    epsilon: Exact | None = None,
    delta: Exact | None = None,
    sigma: Exact | None = None,
    calibration: str = "analytic",
) -> Wish:
    """What the caller asked for: (epsilon, delta), or sigma; exactly one of them."""
    if sigma is not None:
        if epsilon is not None or delta is not None:
            raise BadRequest("sigma", sigma, "ask by epsilon and delta or by sigma, not by both")
        value = exact(sigma, "sigma")
        if value <= 0:
            raise BadRequest("sigma", sigma, "must be above 0")
        return NoiseWish(value)
    if epsilon is None or delta is None:
        missing = "epsilon" if epsilon is None else "delta"
        raise BadRequest(missing, "nothing", "say epsilon and delta, or sigma")
    try:
        rule = Calibration(calibration)
    except ValueError:
        raise BadRequest("calibration", calibration, "must be analytic or classical") from None
    pair = PrivacyWish(exact(epsilon, "epsilon"), exact(delta, "delta"), rule)
    if pair.epsilon <= 0:
        raise BadRequest("epsilon", epsilon, "must be above 0")
    if not 0 < pair.delta < 1:
        raise BadRequest("delta", delta, "must lie in (0, 1)")
    return pair


def price(wished: Wish, sensitivity: Fraction) -> Precision:
    """The target precision: what the wish names, rounded down to the ladder."""
    target = on_ladder(wished.precision(sensitivity))
    if target < LEAST_PRECISION:
        raise BadRequest("precision", target, f"is too little to be useful; ask for at least {LEAST_PRECISION}")
    if target > MOST_PRECISION:
        raise BadRequest("precision", "more than 2^96 units", "is more than any account can hold; ask for more noise")
    return target
