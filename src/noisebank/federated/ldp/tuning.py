"""Tuning of a, t and beta together for the smallest worst-case variance in the family of `parameters`.

For given a and t the worst case is convex in beta, and its minimum is one of six points known in closed form. For
given a it is quasi-convex in t (it is a convex function of (beta, beta t), and the slopes of a convex set form an
interval), so a shrinking grid over (a, ln t) finds it. Without sampling the optimum has a = 0 or a = c/(c + 2):
the pairs (constant, linear) of Three-Outputs lie on a concave curve (slope 2/(c + a) - 1 falls with a), so a mixture
hardly ever has its optimum in the middle of it.

At eps 1 this gives 4.2671 where HM-TP has 4.4176 and HM 4.2890; at eps 2 .98170 (HM-TP .98428).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from noisebank.federated.ldp.parameters import Parameters, find_parameters

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

A_POINTS, T_POINTS = 17, 33
MIN_A: Final = 1e-9
"""Smaller values of a are rounding errors of the search and become 0."""
SEARCH_ROUNDS: Final = 24
RANGE_SHARE: Final = 0.2
"""Share of the range kept on either side of the best point (over three steps of a, six of t): 0.4^24 remains."""


def tune_parameters(name: str, epsilon: float, scale: float = 1.0) -> Parameters:
    """Returns the parameters of `three-outputs`, `hm-tp` or `best` with the smallest worst case if sampled by `scale`.

    Guarantees: `best` is never above any named mechanism of the family at this epsilon and scale, because each of them
    is a candidate.
    """
    if name == "three-outputs":
        candidates = [_search_grid(name, epsilon, scale, fixed_t=1.0, fixed_beta=0.0)]
    elif name == "hm-tp":
        candidates = [_search_grid(name, epsilon, scale, fixed_t=float(np.exp(epsilon / 3)))]
    else:
        published = [
            find_parameters(other, epsilon) for other in ("duchi", "pm", "hm", "three-outputs", "pm-opt", "hm-tp")
        ]
        candidates = [Parameters(name, epsilon, other.a, other.t, other.beta) for other in published]
        candidates.append(_search_grid(name, epsilon, scale))
        if scale > 1.0:
            candidates.append(_search_grid(name, epsilon, scale, fixed_t=1.0, fixed_beta=0.0))
    return min(candidates, key=lambda candidate: candidate.moments.worst_variance(scale))


def _search_grid(
    name: str, epsilon: float, scale: float, fixed_t: float | None = None, fixed_beta: float | None = None
) -> Parameters:
    """Returns the best point of a grid over (a, ln t) that shrinks around it; beta is solved for at every point."""
    limit = float(np.exp(epsilon) / (np.exp(epsilon) + 2.0))
    lows, highs = np.array([0.0, 0.0]), np.array([limit, epsilon / 2.0 + 1.0])
    floor, ceiling, best, least = lows, highs, Parameters(name, epsilon), np.inf
    for _ in range(SEARCH_ROUNDS):
        a, log_t = np.meshgrid(np.linspace(lows[0], highs[0], A_POINTS), np.linspace(lows[1], highs[1], T_POINTS))
        t = np.exp(log_t) if fixed_t is None else np.full_like(log_t, fixed_t)
        beta, worst = _solve_beta(epsilon, scale, a, t, fixed_beta)
        at = np.unravel_index(np.argmin(worst), worst.shape)
        if worst[at] <= least:
            least = float(worst[at])
            best = Parameters(name, epsilon, float(a[at]) if a[at] > MIN_A else 0.0, float(t[at]), float(beta[at]))
        centre, reach = np.array([best.a, np.log(best.t)]), RANGE_SHARE * (highs - lows)
        lows, highs = np.maximum(floor, centre - reach), np.minimum(ceiling, centre + reach)
    return best


def _solve_beta(
    epsilon: float, scale: float, a: Floats, t: Floats, fixed_beta: float | None = None
) -> tuple[Floats, Floats]:
    """Returns for each (a, t) the best beta and its worst case: at an end, a kink or a stationary point."""
    (p0, p2), (q0, q1) = _piecewise_terms(epsilon, t), _atom_terms(epsilon, a)
    if fixed_beta is not None:
        beta = np.full_like(a, fixed_beta)
        return beta, _worst_variance(scale, p0, p2, q0, q1, beta)
    margin = scale * p2 - 1.0  # > 0: a piecewise report grows with |x|
    with np.errstate(all="ignore"):
        crossing = (1.0 / scale - q1) / (p2 - q1)  # x = 0 and x = 1 equally bad
        peak_at_one = (2.0 / scale - q1) / (2.0 * p2 - q1)  # the peak inside reaches x = 1
        flat = 1.0 / (scale * p2)  # no longer concave in x
        stationary = (1.0 - margin / np.sqrt(1.0 - 4.0 * p2 * (p0 - q0) / (q1 * q1))) / (scale * p2)
    points = np.stack([np.zeros_like(a), np.ones_like(a), crossing, peak_at_one, flat, stationary])
    points = np.clip(np.nan_to_num(points, nan=0.0, posinf=0.0, neginf=0.0), 0.0, 1.0)
    values = _worst_variance(scale, p0, p2, q0, q1, points)
    at = np.argmin(values, axis=0)[None]
    return np.take_along_axis(points, at, 0)[0], np.take_along_axis(values, at, 0)[0]


def _piecewise_terms(epsilon: float, t: Floats) -> tuple[Floats, Floats]:
    """Constant and quadratic term of the piecewise mechanism (`piecewise_moments`, which has no linear term)."""
    c, rise = np.exp(epsilon), np.expm1(epsilon)
    return (t + c) * ((t + 1.0) ** 3 + rise) / (3.0 * t * t * rise * rise), 1.0 + (t + 1.0) / rise


def _atom_terms(epsilon: float, a: Floats) -> tuple[Floats, Floats]:
    """Constant and linear term of Three-Outputs (`three_outputs_moments`, which has no quadratic term)."""
    c, rise = np.exp(epsilon), np.expm1(epsilon)
    square = (c * (c + 1.0) / (rise * (c - a))) ** 2
    return square * (1.0 - a), square * a * rise / c


def _worst_variance(scale: float, p0: Floats, p2: Floats, q0: Floats, q1: Floats, beta: Floats) -> Floats:
    """`Moments.worst_variance` of the mixtures, for arrays."""
    constant, linear = scale * (beta * p0 + (1.0 - beta) * q0), scale * (1.0 - beta) * q1
    quadratic = scale * beta * p2 - 1.0
    ends = constant + np.maximum(0.0, linear + quadratic)
    inside = (quadratic < 0.0) & (linear < -2.0 * quadratic)
    peak = constant - linear * linear / np.where(inside, 4.0 * quadratic, -1.0)
    return np.where(inside, np.maximum(ends, peak), ends)
