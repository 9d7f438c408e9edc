"""P0, Figures 8 and 9: utility and noise against epsilon, from an account's own quotes."""

from __future__ import annotations

from math import log, sqrt
from typing import Any

import numpy as np

from research.papers.charts import BLUE, GREEN, ORANGE, dress, figure, headline
from research.papers.exhibit import Exhibit, Found, Moved, Number
from research.papers.p0_requests import NAMES
from research.papers.seeded import SeededEntropy, survey_account

EPSILONS = tuple(range(1, 9))
DELTA = "0.00001"
SENSITIVITIES = (202, 404, 0.0002, 0.0002, 0.0002)
WORDS = (
    "average personal income",
    "average family income",
    "frequency of citizens",
    "frequency of white",
    "frequency of over 60",
)


def run(quick: bool, moved: Moved) -> Found:
    """Quotes cost nothing; one number is drawn many times to see how often it is off by more than alpha."""
    found: Found = {"epsilons": EPSILONS, "queries": {}}
    with survey_account(0, budget="60") as account:
        for place, (name, words) in enumerate(zip(NAMES, WORDS, strict=True), 1):
            rows: dict[str, list[float]] = {"classical": [], "analytic": []}
            for epsilon in EPSILONS:
                for rule, row in rows.items():
                    quote = account.quote(name, epsilon=epsilon, delta=DELTA, calibration=rule)
                    row.append(quote.stddev or 0.0)
            question = account.parse(name)
            moves = float(account.context.sensitivity_of(question.query) * question.unit)
            found["queries"][words] = {**rows, "sensitivity": moves}
            moved(place, len(NAMES))
    draws = np.array(SeededEntropy(3).discrete_gaussians(2.0**30, 20_000 if quick else 200_000)) / 2.0**30
    found["outside_two_sigma"] = float(np.mean(np.abs(draws) > 2))
    return found


def here(found: Found) -> str:
    """In words."""
    income, citizen = found["queries"][WORDS[0]], found["queries"][WORDS[2]]
    return (
        f"Sensitivities {_sensitivities(found)} from the policy alone. "
        f"Alpha = 2 sigma of the average income falls from {2 * income['classical'][0]:,.0f} (epsilon 1) to "
        f"{2 * income['classical'][-1]:,.0f} (epsilon 8), of a frequency from {2 * citizen['classical'][0]:.5f} to "
        f"{2 * citizen['classical'][-1]:.6f}. {found['outside_two_sigma']:.2%} of draws are off by more than alpha. "
        "With the "
        f"exact calibration the same epsilon takes {1 - income['analytic'][0] / income['classical'][0]:.0%} less "
        "noise at 1 "
        f"and {1 - income['analytic'][-1] / income['classical'][-1]:.1%} less at 8."
    )


def _sensitivities(found: Found) -> str:
    return ", ".join(f"{one['sensitivity']:g}" for one in found["queries"].values())


def numbers(found: Found) -> list[Number]:
    """Lemma 1, query by query."""
    made = [Number("share of draws beyond 2 sigma", found["outside_two_sigma"], 0.0455, 0.004)]
    for (words, one), moves in zip(found["queries"].items(), SENSITIVITIES, strict=True):
        made.append(Number(f"sensitivity of {words}", one["sensitivity"], moves, 1e-9))
        for epsilon, sigma in zip(EPSILONS, one["classical"], strict=True):
            expected = 2 * moves * sqrt(2 * log(1.25e5)) / epsilon
            made.append(
                Number(f"alpha of {words} at epsilon {epsilon}", 2 * sigma, float(f"{expected:.9g}"), 1e-6 * expected)
            )
    return made


def draw(found: Found) -> Any:
    """Two rows of what is the same curve, scaled: alpha left, noise right."""
    drawn = figure(10.6, 4.8)
    left, right = drawn.subplots(1, 2)
    gain = 1 - found["queries"][WORDS[0]]["analytic"][0] / found["queries"][WORDS[0]]["classical"][0]
    headline(
        drawn,
        f"Error and noise fall as 1/ε; the exact calibration needs {gain:.0%} less noise at ε = 1 than the paper's "
        "formula",
        "One answer at δ = 1e-5. Solid: the paper's formula (Lemma 1); dashed: noisebank's exact calibration.",
    )
    lines = ((WORDS[1], ORANGE, "average family income (dollars)", "s"), (WORDS[0], BLUE, "average personal income "
    "(dollars)", "o"),
             (WORDS[2], GREEN, "frequencies (share of people)", "^"))  # fmt: skip
    for axes, factor, title, y in (
        (left, 2.0, "Figure 8: error not passed by 95% of answers (α = 2σ)", "α, in the unit of the answer"),
        (right, 1.0, "Figure 9: standard deviation of the noise", "σ, in the unit of the answer"),
    ):
        dress(axes, title, "epsilon of one answer", y)
        for words, colour, label, mark in lines:
            one = found["queries"][words]
            axes.semilogy(
                EPSILONS, [factor * v for v in one["classical"]], color=colour, marker=mark, markersize=5, label=label
            )
            axes.semilogy(EPSILONS, [factor * v for v in one["analytic"]], color=colour, linestyle="--", linewidth=1.2)
        axes.set_xticks(EPSILONS)
        axes.set_ylim(1e-5, 3e5)
    left.legend(frameon=False, loc="center right", fontsize=9)
    return drawn


EXHIBIT = Exhibit(
    name="p0-figure8-9",
    paper="P0",
    title="Figures 8 and 9: utility and noise against epsilon",
    printed="Five falling curves each, three of them one above the other; sensitivities 202, 404 and .0002; alpha = "
    "2 sigma at beta = .05, delta 1e-5, epsilon 1 to 8.",
    why="No difference. Alpha = 2 sigma is a little generous (4.55% of answers are off by more, not 5%). The "
    "formula is only valid below epsilon of about 8.41 at this delta.",
    run=run,
    here=here,
    draw=draw,
    made_up=lambda found: "a survey of 5,000 people with the ranges that P0 prints",
    numbers=numbers,
)
