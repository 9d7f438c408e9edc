"""P1's running example: linear representations, the posterior of Figure 5, the price of a fresh answer."""

from __future__ import annotations

from typing import Any

from research.inference.bayes import NOTES, example
from research.papers.charts import BLUE, GREY, INK, ORANGE, YELLOW, dress, figure, headline
from research.papers.exhibit import Exhibit, Found, Moved, Number

SPENT = (0, 0.1, 0, 0, 0.408, 0.283, 0, 0.2, 0.2)
OBSERVATION_VARIANCES = (3400, 400, 2400)
PRINTED = {"mean": 84.0, "low": 68.0, "high": 102.0}


def run(quick: bool, moved: Moved) -> Found:
    """All of section 3's numbers."""
    found: Found = {**example(), "printed": PRINTED, "notes": NOTES}
    moved(1, 1)
    return found


def here(found: Found) -> str:
    """In words."""
    known, other = found["posterior"], found["posterior_if_row_3_had_sensitivity_2"]
    return (
        f"Observation variances {', '.join(f'{one:g}' for one in found['observation_variances'])}; posterior mean "
        f"{known['mean']:.2f}, mode {known['mode']:.1f}, 80% in [{known['low']:.1f}, {known['high']:.1f}]. With "
        "sensitivity 2 for "
        f"row 3: mean {other['mean']:.1f}, [{other['low']:.1f}, {other['high']:.1f}]. A fresh answer needs alpha "
        f"{found['alpha']:.6f}. Least squares on all of H has variance {found['least_squares_variance']}, the greedy "
        f"representations {found['greedy_variance']}."
    )


def numbers(found: Found) -> list[Number]:
    """Exact, up to the grid of the posterior."""
    known, other = found["posterior"], found["posterior_if_row_3_had_sensitivity_2"]
    made = [
        Number(f"variance of observation {place}", ours, expected, 1e-6)
        for place, (ours, expected) in enumerate(
            zip(found["observation_variances"], OBSERVATION_VARIANCES, strict=True), 1
        )
    ]
    made += [
        Number(f"spent in cell {place}", ours, expected, 5e-4)
        for place, (ours, expected) in enumerate(zip(found["spent_by_cell"], SPENT, strict=True), 1)
    ]
    return [
        *made,
        Number("alpha", found["alpha"], 0.107296, 1e-6),
        Number("posterior mean", known["mean"], 85.91, 0.01),
        Number("posterior mode", known["mode"], 87.7, 0.1),
        Number("80% interval, low", known["low"], 67.4, 0.15),
        Number("80% interval, high", known["high"], 104.4, 0.15),
        Number("mean if row 3 had sensitivity 2 (as printed)", other["mean"], 84, 0.5),
        Number("low end then (as printed)", other["low"], 68, 1.2),
        Number("high end then (as printed)", other["high"], 102, 1.2),
        Number("variance by least squares", found["least_squares_variance"], 253.8, 0.05),
        Number("variance by greedy representations", found["greedy_variance"], 311.5, 0.05),
    ]


def draw(found: Found) -> Any:
    """Intervals, one above the other."""
    drawn = figure(8.4, 3.4)
    headline(drawn, "P1's printed estimate comes out only with a wrong sensitivity (Figure 5 of P1)")
    axes = dress(drawn.subplots(), "", "answer to the example's question (people; 80% intervals, dot: mean)", "")
    rows = (
        ("printed in P1", found["printed"], ORANGE),
        ("exact posterior, sensitivity 4 (equation 12)", found["posterior"], BLUE),
        ("exact posterior if row 3 had sensitivity 2", found["posterior_if_row_3_had_sensitivity_2"], YELLOW),
    )
    for place, (_, one, colour) in enumerate(rows):
        axes.plot([one["low"], one["high"]], [place, place], color=colour, linewidth=5, solid_capstyle="butt")
        axes.plot(one["mean"], place, "o", color="black", markersize=7)
        axes.text(
            one["high"] + 1, place, f"{one['mean']:.4g}  [{one['low']:.4g}, {one['high']:.4g}]", va="center", fontsize=9
        )
    axes.axvline(90, color=GREY, linewidth=0.9, linestyle=":")
    axes.text(90.4, -0.62, "truth: 90", color=INK, fontsize=9, va="center")
    axes.set_yticks(range(len(rows)), [name for name, _, _ in rows])
    axes.set_ylim(2.6, -0.9)
    axes.set_xlim(60, 128)
    return drawn


EXHIBIT = Exhibit(
    name="p1-example",
    paper="P1",
    title="The running example (equations 5 to 44, Figure 5)",
    printed="T of equation 29; alpha .108; B = [0, .1, 0, 0, .408, .283, 0, .2, .2]; estimate 84, 80% in [68, 102].",
    why="Estimate and interval appear only if row 3 of H has sensitivity 2; its largest weight is 4 (equation "
    "12). Theorem 3.7's proof has a stray 1/2 (its statement is right), theorems 3.3 and 3.5 normalise "
    "wrongly, theorem 3.1's hardness is moot (least squares needs no list of representations, and is better "
    "than the greedy ones), Algorithm 4 returns b for a + b.",
    run=run,
    here=here,
    draw=draw,
    numbers=numbers,
)
