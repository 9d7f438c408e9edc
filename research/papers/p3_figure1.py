"""P3, Figure 1(b): with the same epsilon, answers about a small population have a larger relative error."""

from __future__ import annotations

from fractions import Fraction
from math import pi, sqrt
from typing import Any

import numpy as np

from noisebank.core.entropy import simulation_rng
from noisebank.privacy.calibration import request_precision
from research.papers.charts import BLUE, INK, ORANGE, dress, figure
from research.papers.exhibit import Exhibit, Found, Moved, Number

EPSILON, DELTA = Fraction(1, 10), Fraction(1, 10**6)
POPULATIONS = (100, 200, 400, 600, 800, 1000)
SHARE = 0.5
"""Of the population is counted."""


def run(quick: bool, moved: Moved) -> Found:
    """Mean relative errors of counts, with Laplace noise and with the bank's."""
    draws, source = 20_000 if quick else 200_000, simulation_rng(11)
    deviation = 1 / sqrt(float(request_precision(EPSILON, DELTA)))
    laplace = np.abs(source.laplace(size=draws)) / float(EPSILON)
    gauss = np.abs(source.standard_normal(draws)) * deviation
    moved(1, 1)
    return {
        "populations": list(POPULATIONS),
        "draws": draws,
        "laplace": [float(laplace.mean()) / (SHARE * size) for size in POPULATIONS],
        "bank": [float(gauss.mean()) / (SHARE * size) for size in POPULATIONS],
        "deviation": deviation,
    }


def here(found: Found) -> str:
    """In words."""
    first, last = found["laplace"][0], found["laplace"][-1]
    return (
        f"Half of a population is counted at epsilon {float(EPSILON):g}. Mean relative error with Laplace noise: "
        f"{first:.1%} of 100 people, {last:.1%} of 1,000; with the bank's Gaussian noise (delta 1e-6) "
        f"{found['bank'][0]:.1%} and {found['bank'][-1]:.1%}."
    )


def numbers(found: Found) -> list[Number]:
    """Means of |noise| are known: 1/epsilon, and sigma sqrt(2/pi)."""
    made = []
    for name, mean, spread in (
        ("Laplace", 1 / float(EPSILON), 1.0),
        ("bank", found["deviation"] * sqrt(2 / pi), sqrt(pi / 2 - 1)),
    ):
        for place, size in enumerate(found["populations"]):
            expected = mean / (SHARE * size)
            ours = found["laplace" if name == "Laplace" else "bank"][place]
            error = 4 * spread * expected / sqrt(found["draws"])
            made.append(Number(f"{name}, relative error of {size} people", ours, expected, error))
    return made


def draw(found: Found) -> Any:
    """Two falling curves, and the paper's two populations."""
    drawn = figure(8.0, 4.4)
    axes = dress(
        drawn.subplots(), "The same noise matters ten times as much in a population a tenth as large (P3, Figure 1b)",
        "people in the population, half of whom are counted", f"mean relative error at epsilon {float(EPSILON):g}",
    )  # fmt: skip
    for name, colour, mark, label in (
        ("laplace", ORANGE, "s", "Laplace noise, pure epsilon (P3)"),
        ("bank", BLUE, "o", "noisebank: Gaussian noise, delta 1e-6"),
    ):
        axes.plot(found["populations"], found[name], color=colour, marker=mark, linewidth=1.8, label=label)
    for place in (0, -1):
        error = found["laplace"][place]
        axes.annotate(f"{error:.1%}", (found["populations"][place], error), xytext=(6, 6), textcoords="offset points",
                      fontsize=9, color=INK)  # fmt: skip
    axes.set_ylim(0)
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
    axes.legend(frameon=False)
    return drawn


EXHIBIT = Exhibit(
    name="p3-figure1",
    paper="P3",
    title="Figure 1(b): relative error against population",
    printed="A falling curve without numbers, after [19]: the relative error at a population of 1,000 is much smaller "
    "than at 100, for the same budget and query.",
    why="As printed. It says why a relative accuracy has no price before the answer is known: P3 takes the true answer "
    "for it, the bank a public floor.",
    run=run,
    here=here,
    draw=draw,
    numbers=numbers,
)
