"""P0, case 2C under attack: what one analyst gets by averaging blurs, by the paper's rule and on the bridge."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import sqrt
from typing import Any

import numpy as np

from noisebank.core.entropy import simulation_rng
from noisebank.core.records import BridgePoint
from noisebank.core.units import GridValue, Precision
from noisebank.planning.linear import Vector
from noisebank.planning.pricing import NoiseTarget, compute_target
from noisebank.planning.reuse import bridge_law
from noisebank.privacy.noise import NormalLaw
from noisebank.privacy.noise import draw_value as drawn_from
from research.papers.charts import BLUE, GREY, INK, ORANGE, YELLOW, dress, figure
from research.papers.exhibit import Exhibit, Found, Moved, Number
from research.papers.seeded import SeededEntropy

SIGMAS = tuple(Fraction(350 - step, 100) for step in range(50))
"""What the analyst asks for, in descending order, over a base answer with noise 1 that somebody else has paid for."""
ONE = Fraction(1)
FINEST = 2.0**53


def run(quick: bool, moved: Moved) -> Found:
    """Exact covariances from the bank's own laws; and how low bits of floats leak."""
    base, wanted = _precision(ONE), [_precision(sigma) for sigma in SIGMAS]
    ways = {
        "paper": _covariance(base, wanted, lambda known: known[:1]),
        "bridge": _covariance(base, wanted, lambda known: known),
    }
    at_once = [_precision(Fraction(3))] * len(SIGMAS)
    stale = _covariance(base, at_once, lambda known: known[:1])
    moved(1, 2)
    draws = 40_000 if quick else 400_000
    found: Found = {
        "requests": list(range(1, len(SIGMAS) + 1)),
        "promised": [float(sigma) for sigma in SIGMAS],
        **{name: [_best(one[1 : n + 1, 1 : n + 1]) for n in range(1, len(SIGMAS) + 1)] for name, one in ways.items()},
        "stale": _best_of_equals(stale[1:, 1:]),
        "float_advantage": _float_leak(draws),
        "grid_advantage": _grid_leak(2_000 if quick else 10_000),
    }
    moved(2, 2)
    return found


def _precision(sigma: Fraction) -> Precision:
    return compute_target(NoiseTarget(sigma), ONE)


def _covariance(base: Precision, wanted: Sequence[Precision], seen: Any) -> Vector:
    """Of the base and of each blur, where `seen` says which earlier answers a blur is drawn from.

    The law of a blur is linear in the answers it looks at: its weights are read off by giving one of them the value 1.
    """
    mixes, order = np.eye(1, 1 + len(wanted)), [base]
    spreads = [1.0 / float(base)]
    for place, precision in enumerate(wanted, 1):
        known = seen(list(range(place)))
        by_precision = sorted(known, key=lambda one: order[one])
        mix = np.zeros(1 + len(wanted))
        for one in by_precision:
            points = [BridgePoint(order[each], GridValue(int(each == one), 0)) for each in by_precision]
            law = bridge_law(precision, ONE, points)
            mix += float(law.mean) * mixes[one]
        mix[place] = 1.0
        mixes, order = np.vstack([mixes, mix]), [*order, precision]
        spreads.append(float(law.variance))
    found: Vector = mixes @ np.diag(spreads) @ mixes.T
    return found


def _best(covariance: Vector) -> float:
    """The standard deviation of the best unbiased combination."""
    ones = np.ones(len(covariance))
    return 1.0 / sqrt(float(ones @ np.linalg.solve(covariance, ones)))


def _best_of_equals(covariance: Vector) -> float:
    """Of answers with the same law, the average."""
    return sqrt(float(covariance.mean()))


def _float_leak(draws: int) -> float:
    """Blurs of an exact 0 and an exact 1, in floats: how much better than guessing "a multiple of 2^-53?" is."""
    generator = simulation_rng(1)
    shares = [np.mean(np.mod((base + generator.normal(size=draws) * sqrt(8)) * FINEST, 1) == 0) for base in (0.0, 1.0)]
    return abs(float(shares[1] - shares[0]))


def _grid_leak(draws: int) -> float:
    """The same for the bank's draws: all of them lie on one grid that public numbers decide."""
    shares = []
    for base in (0, 1):
        entropy = SeededEntropy(2 + base)
        values = [drawn_from(NormalLaw(Fraction(base), Fraction(8)), entropy).exact * 2**53 for _ in range(draws)]
        shares.append(sum(value.denominator == 1 for value in values) / draws)
    return abs(shares[1] - shares[0])


def here(found: Found) -> str:
    """In words."""
    return (
        f"Fifty requests for noise 3.50, 3.49, ... 3.01 over an answer of noise 1: combined, the paper's blurs have "
        "noise "
        f"{found['paper'][-1]:.3f} where 3.01 was promised. On the bridge they have {found['bridge'][-1]:.4f}. Fifty "
        "blurs "
        f"drawn at once from the same old answers average to {found['stale']:.3f}: draws are serialised. Blurs in "
        "floats tell "
        f"0 from 1 with advantage {found['float_advantage']:.3f}, on the grid {found['grid_advantage']:.3f}."
    )


def numbers(found: Found) -> list[Number]:
    """Covariances are exact up to the ladder's 2^-32; leaks are counted."""
    return [
        Number("noise after averaging 50 blurs, paper's rule", found["paper"][-1], 1.091, 0.0006),
        Number("noise after averaging 50 blurs, bridge", found["bridge"][-1], 3.01, 0.0001),
        Number("noise after averaging 50 stale blurs", found["stale"], 1.08, 0.005),
        Number("advantage from low bits, float blur", found["float_advantage"], 0.093, 0.01),
        Number("advantage from low bits, grid", found["grid_advantage"], 0, 0),
    ]


def draw(found: Found) -> Any:
    """Noise against requests."""
    drawn = figure(8.4, 4.6)
    axes = dress(
        drawn.subplots(), "Blurring with fresh noise can be averaged away; on the bridge it cannot (P0, case 2C)",
        "requests by one analyst (noise wanted: 3.50, 3.49, ... 3.01)", "standard deviation of the best combination",
    )  # fmt: skip
    places = found["requests"]
    axes.plot(
        places,
        found["promised"],
        color=INK,
        linewidth=1.6,
        linestyle=":",
        zorder=3,  # the bridge's line lies below it: they are one
        label="promised: the least noise wanted so far",
    )
    axes.plot(
        places, found["bridge"], color=BLUE, linewidth=2.4, label="noisebank: Brownian bridge between recorded answers"
    )
    axes.plot(
        places,
        found["paper"],
        color=ORANGE,
        linewidth=2.2,
        linestyle="--",
        label="paper: fresh noise on the better answer",
    )
    axes.plot(
        50,
        found["stale"],
        "v",
        color=YELLOW,
        markersize=8,
        label="bridge, if 50 threads drew from the same old answers",
    )
    axes.axhline(1, color=GREY, linewidth=0.8)
    axes.text(1, 0.78, "noise of the base answer, which the analyst has not paid for", color=INK, fontsize=9)
    axes.set_ylim(0, 5.2)
    axes.set_xlim(0, 51)
    axes.legend(frameon=False, loc="upper right", fontsize=9)
    return drawn


EXHIBIT = Exhibit(
    name="p0-blur",
    paper="P0",
    title="Case 2C under attack (not in the paper)",
    printed="Nothing: the paper proves that case 2C costs the account nothing, which is right, and does not ask what "
    "one analyst learns.",
    why="The account's budget is safe either way. The noise that one analyst was promised is not, which matters "
    "as soon as analysts have limits of their own.",
    run=run,
    here=here,
    draw=draw,
    numbers=numbers,
)
