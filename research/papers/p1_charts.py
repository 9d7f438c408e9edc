"""The layout of P1's figures: a row a measure, a column a histogram."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from research.papers.charts import BLUE, GREEN, GREY, INK, ORANGE, PINK, below, dress, figure, headline
from research.papers.exhibit import Found
from research.papers.p1_systems import HISTOGRAMS, TITLES

STYLES = {
    "static": (GREY, "s", "Laplace, static budget"),
    "dynamic": (ORANGE, "^", "Laplace, dynamic budget (“improved baseline”)"),
    "least squares": (GREEN, "v", "the same + unweighted least squares"),
    "bayes": (PINK, "D", "Laplace + Bayesian inference (P1)"),
    "ours": (BLUE, "o", "noisebank's planner (Gaussian, δ = 1e-6)"),
}
MEASURES = {
    "spent": "epsilon spent\n(largest cell)",
    "answered": "share answered\n($R_a$)",
    "inside": "truths inside the\ninterval ($R_i$)",
    "error": "mean error over\nrequirement ($E$)",
}


def grid(
    found: Found, x: Sequence[float], measures: Sequence[str], finding: str, note: str, label: str, nominal: float
) -> Any:
    """`found[histogram][system][measure]` has mean, 5% and 95%."""
    drawn = figure(9.4, 1.9 * len(measures) + 1.9)
    panels = drawn.subplots(len(measures), len(HISTOGRAMS), sharex=True, sharey="row", squeeze=False)
    headline(drawn, finding, note)
    for column, name in enumerate(HISTOGRAMS):
        for row, measure in enumerate(measures):
            axes = panels[row][column]
            dress(
                axes,
                TITLES[name] if row == 0 else "",
                label if row == len(measures) - 1 else "",
                MEASURES[measure] if column == 0 else "",
            )
            if measure == "inside":
                axes.axhline(nominal, color=GREY, linewidth=0.9, linestyle=":")
                if column == len(HISTOGRAMS) - 1:
                    inside = axes.get_yaxis_transform()
                    axes.text(1.01, nominal, "promised", color=INK, fontsize=8, va="center", transform=inside)
            for system, (colour, mark, words) in STYLES.items():
                if system not in found[name]:
                    continue
                mean, low, high = ([_number(value) for value in one] for one in found[name][system][measure])
                every = max(1, len(x) // 7)
                axes.plot(
                    x, mean, color=colour, marker=mark, markevery=every, markersize=4.5, linewidth=1.6, label=words
                )
                if found[name][system]["runs"] > 1:
                    axes.fill_between(x, low, high, color=colour, alpha=0.17, linewidth=0)
    for row, measure in enumerate(measures):  # now that both columns are drawn: they share their limits
        panels[row][0].set_ylim(*((None, 1.02) if measure in ("answered", "inside") else (0, None)))
    below(drawn, panels[0][0], 2)
    return drawn


def _number(value: float | None) -> float:
    return float("nan") if value is None else value
