"""Chained-DP recomputed: errors, costs, price of anarchy, splits, collusion; each claim of the paper beside what holds.

Every number comes from the product's own functions. `REFERENCE` holds what an independent computation gave. The paper's
figures carry no numbers in its text, so "paper" is the value of its printed formula where there is one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from math import log, sqrt
from typing import Any

import numpy as np

from noisebank.core.entropy import SystemEntropy, simulation_rng
from noisebank.core.units import Precision
from noisebank.federated.relay import collusion, game
from noisebank.federated.relay.grid import STEPS_PER_BOUND, draw_noise, scale_for_variance
from noisebank.federated.relay.split import order_by_preference, split_error, split_groups
from noisebank.privacy.calibration import account_epsilon
from research.chained_dp.claims import claims
from research.chained_dp.remedies import remedies, repairs

Progress = Callable[[int, int], None]
Row = dict[str, Any]
TOP = 1.3
"""Preferences are uniform on [0, TOP] unless said otherwise."""
USERS, DIMENSION, DELTA = 10, 50, Fraction(1, 10**5)
SIZES = (3, 5, 10, 20, 50, 100)
RANGES = tuple(round(0.1 * step, 1) for step in range(1, 14))
DIMENSIONS = (2, 10, 25, 50, 75, 100)
GROUPS = (2, 5, 10, 20, 50, 100)
SPLIT_USERS = 200
KINDS = ("LDP", "Chained", "Central")

REFERENCE: dict[str, Any] = {
    "mse": {
        3: (0.1365, 0.0682, 0.0484),
        10: (0.04095, 0.007445, 0.00442),
        20: (0.02047, 0.00195, 0.00111),
        100: (0.004095, 8.11e-5, 4.4e-5),
    },
    "cost": (4.914, 1.427, 1.323),
    "split": {2: (4.06e-5, 3.06e-5, 2.05e-3), 10: (1.95e-4, 1.12e-4, None), 100: (1.36e-3, 1.03e-3, None)},
    "collusion": {"weak": 0.0080, "strong": 0.0848, "published": 0.3487},
    "thresholds": {"weak": 0.112, "strong": 0.0304, "published": 0.00224},
    "anarchy_limit": 1.857,
    "eq_29_fails": 0.416,
    "epsilon_d50": 203.0,
}


@dataclass(frozen=True, slots=True)
class Chained:
    """All of it. Mean squared errors are per coordinate of the mean, vectors in [-1, 1]^d."""

    errors: dict[int, dict[str, Row]]
    budgets: dict[int, Row]
    ranges: dict[float, Row]
    costs: dict[str, Row]
    anarchy: Row
    split: dict[int, dict[str, Row]]
    collusion: dict[str, Row]
    thresholds: dict[int, dict[str, Row]]
    relay_itself: Row
    remedies: Row
    repairs: Row
    claims: list[Row]
    all_within: bool

    def plain(self) -> dict[str, object]:
        """For --json: keys are text."""
        return {name: _texted(getattr(self, name)) for name in self.__slots__}


def chained(quick: bool = False, progress: Progress = lambda done, total: None) -> Chained:
    """Everything above; `quick` uses a tenth of the draws."""
    draws, steps, done = (2_000 if quick else 20_000), 12, 0

    def step(value: Any) -> Any:
        nonlocal done
        done += 1
        progress(done, steps)
        return value

    found = (
        step(errors(draws)),
        step({d: budget_at(d) for d in DIMENSIONS}),
        step({top: at_range(top, draws) for top in RANGES}),
        step(average_costs(draws)),
        step(anarchy(draws)),
        step({groups: split(groups, 50 if quick else 400) for groups in GROUPS}),
        step(exposures(draws * 10)),
        step({users: thresholds(users) for users in SIZES}),
        step(relay_itself(10 if quick else 100)),
        step(remedies(draws)),
        step(repairs()),
        step(claims(draws)),
    )
    return Chained(*found, all_within=_all_within(found))


def preferences(users: int, draws: int, top: float = TOP, seed: int = 1) -> Any:
    """Made-up users."""
    return simulation_rng(seed).uniform(0.0, top, (draws, users))


def errors(draws: int) -> dict[int, dict[str, Row]]:
    """Figure 7, and Figure 4 at 1.3: variance of a coordinate of the mean, by number of users. Exact where it can be:
    .65 m/K for LDP and 1.3 m/(K (K + 1)) for the relay, since the largest of K has mean 1.3 K/(K + 1)."""
    found = {}
    for users in SIZES:
        exact = (game.TOP_UP * TOP / 2 / users, game.TOP_UP * TOP / (users * (users + 1)), None)
        expected = REFERENCE["mse"].get(users, (None, None, None))
        rows = _three(preferences(users, draws, seed=users))
        found[users] = {
            kind: _row(rows[kind] / users**2, expected[place], exact=exact[place]) for place, kind in enumerate(KINDS)
        }
    return found


def _three(betas: Any) -> dict[str, Any]:
    """Total variance of the sum for each draw."""
    schemes = (game.local_variances, game.subgame_perfect, game.central_optimum)
    return {kind: scheme(betas).sum(axis=-1) for kind, scheme in zip(KINDS, schemes, strict=True)}


def epsilon(variance: float, dimension: int, delta: Fraction = DELTA) -> float:
    """Of a whole vector in [-1, 1]^d under noise of this variance: mu = 2 sqrt(d)/sigma, converted exactly."""
    return float(account_epsilon(Precision.ceil(Fraction(4 * dimension) / Fraction(variance)), delta))


def classical(variance: float, dimension: int, reach: float = 1.0) -> float:
    """Eq. 3 with sensitivity reach sqrt(d): the paper takes reach 1, a vector in [-1, 1]^d has 2."""
    return reach * sqrt(dimension / variance) * sqrt(2 * log(1.25 / float(DELTA)))


def budget_at(dimension: int) -> Row:
    """Figure 3 at the mean noise of each scheme."""
    largest, mean = game.TOP_UP * TOP * USERS / (USERS + 1), game.TOP_UP * TOP / 2
    central = float(game.central_optimum(preferences(USERS, 2000)).sum(axis=-1).mean())
    row: Row = {}
    for kind, variance, total in (
        ("LDP", mean, USERS * mean),
        ("Chained", largest, largest),
        ("Central", central, central),
    ):
        row[kind] = {
            "mse of the vector": _rounded(dimension * total / USERS**2),
            "epsilon": _rounded(epsilon(variance, dimension)),
            "paper's sensitivity": _rounded(classical(variance, dimension)),
        }
    row["eq. 30 as printed, any d"] = _rounded(2 * log(1.30 / float(DELTA)) / largest)
    if dimension == DIMENSION:
        ours, printed = row["Chained"]["epsilon"], row["Chained"]["paper's sensitivity"]
        expected = REFERENCE["epsilon_d50"]
        row["check"] = {"ours": ours, "expected": expected, "paper": printed, "within": abs(ours - expected) < 0.5}
    return row


def at_range(top: float, draws: int) -> Row:
    """Figures 4 and 5: errors and average costs when preferences are uniform on [0, top]. Both are linear in it."""
    betas = preferences(USERS, draws, top)
    spread, paid = _three(betas), _costs(betas)
    return {
        "mse": {kind: _rounded(float(spread[kind].mean()) / USERS**2) for kind in KINDS},
        "cost": {kind: _rounded(float(paid[kind].mean())) for kind in KINDS},
    }


def _costs(betas: Any) -> dict[str, Any]:
    return {
        "LDP": game.local_costs(betas).mean(axis=-1),
        "Chained": game.relay_costs(betas, game.subgame_perfect(betas)).mean(axis=-1),
        "Central": game.relay_costs(betas, game.central_optimum(betas)).mean(axis=-1),
    }


def average_costs(draws: int) -> dict[str, Row]:
    """Figure 5 at 1.3."""
    paid = _costs(preferences(USERS, draws, seed=5))
    return {kind: _row(paid[kind], REFERENCE["cost"][place]) for place, kind in enumerate(KINDS)}


def anarchy(draws: int) -> Row:
    """The price of anarchy, its true bounds, and how often the printed one fails."""
    betas = preferences(USERS, draws, seed=6)
    prices = game.price_of_anarchy(betas)
    fails = (prices >= game.printed_anarchy_bound(betas)).astype(float)
    limit = game.anarchy_limit(USERS)
    return {
        "mean": _rounded(float(prices.mean())),
        "largest drawn": _rounded(float(prices.max())),
        "limit for K = 10": {"ours": _rounded(limit), "expected": REFERENCE["anarchy_limit"],
                             "within": abs(limit - REFERENCE["anarchy_limit"]) < 5e-4},
        "eq. 29 as printed fails": _row(fails, REFERENCE["eq_29_fails"]),
        "max/min fails": float((prices > betas.max(axis=-1) / betas.min(axis=-1)).mean()),
    }  # fmt: skip


def split(groups: int, runs: int) -> dict[str, Row]:
    """Figure 6: 200 users in groups."""
    made = simulation_rng(60 + groups)
    rows: dict[str, list[float]] = {"random": [], "sorted": [], "LDP": []}
    for _ in range(runs):
        betas = made.uniform(0.0, TOP, SPLIT_USERS)
        rows["random"].append(split_error(betas, split_groups(range(SPLIT_USERS), groups)))
        rows["sorted"].append(split_error(betas, split_groups(order_by_preference(betas), groups)))
        rows["LDP"].append(float(game.local_variances(betas).sum()) / SPLIT_USERS**2)
    expected = REFERENCE["split"].get(groups, (None, None, None))
    return {name: _row(np.array(values), expected[place]) for place, (name, values) in enumerate(rows.items())}


def exposures(draws: int) -> dict[str, Row]:
    """Chance that a slice is seen bare at K = 10, p = .1: formula, simulation, print."""
    made, p = simulation_rng(8), 0.1
    place = made.integers(0, USERS, draws)
    bad = made.random((draws, USERS - 1)) < p
    before = np.arange(USERS - 1)[None] < place[:, None]
    left, right = (bad & before).any(axis=1), (bad & ~before).any(axis=1)
    rows = np.arange(draws)
    beside = (place > 0) & bad[rows, np.maximum(place - 1, 0)] & (place < USERS - 1)
    beside &= bad[rows, np.minimum(place, USERS - 2)]
    simulated = {"weak": beside, "strong": left & right, "published": left}
    paper = {
        "weak": collusion.weak_chance(USERS, p),
        "strong": collusion.printed_strong_chance(USERS, p),
        "published": None,
    }
    found = {}
    for name, chance in collusion.CHANCES.items():
        row = _row(simulated[name].astype(float), REFERENCE["collusion"][name], exact=chance(USERS, p))
        found[name] = {**row, "paper": None if paper[name] is None else _rounded(paper[name] or 0.0)}
    return found


def thresholds(users: int) -> dict[str, Row]:
    """Figure 8: the p up to which a slice is exposed with chance 1/K^2 at most."""
    rows = {}
    for name, chance in collusion.CHANCES.items():
        ours = collusion.collusion_threshold(chance, users)
        row: Row = {"ours": _rounded(ours), "paper": None}
        if name == "weak":
            row["paper"] = _rounded(sqrt(1.0 / (users * (users - 2))))
        if users == USERS:
            expected = REFERENCE["thresholds"][name]
            row |= {"expected": expected, "within": abs(ours - expected) <= 0.005 * expected}
        rows[name] = row
    return rows


def relay_itself(runs: int) -> Row:
    """The error of sums that carry the product's own noise, K = 10, d = 50, against m max beta/K^2."""
    entropy, ratios = SystemEntropy(), []
    for betas in preferences(USERS, runs, seed=9):
        variance = float(game.subgame_perfect(betas).sum())
        drawn = draw_noise(scale_for_variance(Fraction(variance)), DIMENSION, entropy).view(np.int64) / STEPS_PER_BOUND
        ratios.append(float(np.square(drawn).mean()) / variance)
    return _row(np.array(ratios), 1.0)


def _row(values: Any, expected: float | None, exact: float | None = None) -> Row:
    """Mean, its standard error, and whether the expected value lies within four of them (and its own rounding)."""
    mean, spread = float(np.mean(values)), float(np.std(values)) / sqrt(len(values))
    row: Row = {"ours": _rounded(mean), "spread": _rounded(spread, 2)}
    if exact is not None:
        row["exact"] = _rounded(exact)
    if expected is not None:
        row |= {"expected": expected, "within": abs(mean - expected) <= 4.0 * spread + 0.012 * expected}
    return row


def _all_within(value: Any) -> bool:
    if isinstance(value, dict):
        return bool(value.get("within", True)) and all(_all_within(part) for part in value.values())
    return all(_all_within(part) for part in value) if isinstance(value, (list, tuple)) else True


def _rounded(value: float, digits: int = 5) -> float:
    """To this many significant digits: more would be noise on the page."""
    return float(f"{value:.{digits}g}")


def _texted(value: Any) -> Any:
    if isinstance(value, dict):
        return {f"{key:g}" if isinstance(key, float) else str(key): _texted(part) for key, part in value.items()}
    return [_texted(part) for part in value] if isinstance(value, (tuple, list)) else value
