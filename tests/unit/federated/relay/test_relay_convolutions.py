"""Sums of discrete Gaussians against one discrete Gaussian: the bound of docs/proofs/relay.md, section 3, in balls."""

from __future__ import annotations

from fractions import Fraction

import pytest
from flint import arb, ctx

from noisebank.federated.relay.grid import MIN_SCALE
from noisebank.federated.relay.terms import MAX_DRAWS, MAX_MEMBERS

REACH = 60
"""Numbers outside -REACH .. REACH have mass below exp(-REACH^2 / (2 variance)): nothing at the variances used here."""


@pytest.fixture(autouse=True)
def digits():
    kept, ctx.prec = ctx.prec, 500
    yield
    ctx.prec = kept


def ball(value: Fraction | int) -> arb:
    exact = Fraction(value)
    return arb(exact.numerator) / arb(exact.denominator)


def discrete(variance: Fraction, shift: int = 0) -> dict[int, arb]:
    """Probabilities of a discrete Gaussian, cut at REACH."""
    weights = {z: (-ball(Fraction((z - shift) ** 2, 2) / variance)).exp() for z in range(-REACH, REACH + 1)}
    total = sum(weights.values(), arb(0))
    return {z: weight / total for z, weight in weights.items()}


def convolved(one: dict[int, arb], other: dict[int, arb]) -> dict[int, arb]:
    return {
        z: sum((p * other[z - x] for x, p in one.items() if z - x in other), arb(0)) for z in range(-REACH, REACH + 1)
    }


def summed(variances: list[Fraction]) -> dict[int, arb]:
    found = discrete(variances[0])
    for variance in variances[1:]:
        found = convolved(found, discrete(variance))
    return found


def waves(variances: list[Fraction]) -> arb:
    """The sum of exp(-2 pi^2 v) over the steps, v = S s^2/(S + s^2), S the variance so far: the bound without its 5."""
    total, found = variances[0], arb(0)
    for variance in variances[1:]:
        found += (-2 * arb.pi() ** 2 * ball(total * variance / (total + variance))).exp()
        total += variance
    return found


def furthest(one: dict[int, arb], other: dict[int, arb], near: int = 12) -> arb:
    """The largest |log ratio| of two laws over the numbers that are not all in the cut-off tails."""
    return max((abs((one[z] / other[z]).log()) for z in range(-near, near + 1)), key=float)


HALF = Fraction(1, 2)
CASES = [
    [HALF, HALF], [HALF] * 3, [HALF] * 5, [Fraction(1)] * 2, [Fraction(1)] * 4, [Fraction(2)] * 3,
    [HALF, Fraction(3)], [Fraction(3), HALF, Fraction(1)], [Fraction(5), Fraction(4, 5)],
]  # fmt: skip


@pytest.mark.parametrize("variances", CASES, ids=lambda found: "-".join(str(one) for one in found))
def test_a_sum_is_within_five_waves_of_one_draw(variances):
    far = furthest(summed(variances), discrete(sum(variances, Fraction(0))))
    bound = 5 * waves(variances)
    assert far < bound
    if len(variances) == 2:  # and it is no idle bound: with 2 in the place of 5 it would be false
        assert far > 2 * waves(variances)


def test_equal_scales_give_the_formula_of_the_paper():
    """tau = 10 sum exp(-2 pi^2 s^2 k/(k + 1)): five waves for each of the two laws that are compared."""
    for variance, count in ((HALF, 4), (Fraction(1), 3)):
        printed = sum(
            ((-2 * arb.pi() ** 2 * ball(variance * Fraction(k, k + 1))).exp() for k in range(1, count)), arb(0)
        )
        assert abs(2 * 5 * waves([variance] * count) - 10 * printed) < arb("1e-100")


@pytest.mark.parametrize(("variance", "count", "shift"), [(HALF, 2, 1), (HALF, 4, 2), (Fraction(1), 3, 3)])
def test_the_divergence_of_shifted_sums_is_within_the_bound(variance, count, shift):
    """Computed directly: the Renyi divergence of order a of M(x) and M(x + shift) is that of a discrete Gaussian, at
    most a shift^2/(2 n s^2), and (2a - 1)/(a - 1) tau/2: either law is within tau/2 of it at every point."""
    law = summed([variance] * count)
    tau = 10 * waves([variance] * count)
    inside = range(-REACH + shift, REACH + 1)
    for order in (2, 3, 5):
        moment = sum((law[z] ** order / law[z - shift] ** (order - 1) for z in inside), arb(0))
        divergence = moment.log() / (order - 1)
        own = ball(Fraction(order * shift**2, 2) / (count * variance))  # of one discrete Gaussian: Canonne et al. 2020
        slack = tau / 2 * ball(Fraction(2 * order - 1, order - 1))
        assert divergence < own + slack
        root = ball(Fraction(shift**2)).sqrt() / (ball(count * variance)).sqrt()
        assert divergence < arb(order) / 2 * (root + tau) ** 2  # the second form of the paper's bound, d = 1


def test_coarse_noise_breaks_the_bound_of_a_gaussian():
    """The bound is needed: below variance 1/2 a sum is visibly no discrete Gaussian."""
    small = [Fraction(1, 10)] * 2
    assert furthest(summed(small), discrete(sum(small, Fraction(0))), near=2) > arb("0.3")


def test_at_the_relays_scales_nothing_is_left_of_it():
    """All members, all coordinates, all attempts together: below the slack of one draw, 2^-43."""
    least = Fraction(MIN_SCALE**2)
    exponent = 2 * arb.pi() ** 2 * ball(least * least / (2 * least))  # the first step is the worst
    assert exponent > 10**16
    together = (arb(10 * MAX_MEMBERS * MAX_DRAWS)).log() - exponent
    assert together < arb(2).log() * -43
