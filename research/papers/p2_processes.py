"""P2 by real processes: relays of 3, 10 and 20 members beside the simulation, and the honest guarantee of each."""

from __future__ import annotations

from math import sqrt
from typing import Any

from research.chained_dp.processes import DELTA, GROUPS, SLICES, run_rounds
from research.papers.charts import BLUE, GREY, ORANGE, dress, figure, headline
from research.papers.exhibit import Exhibit, Found, Moved, Number

TITLES = {"bas": "BAS", "sar": f"SAR, {SLICES} slices", "split": f"BAS split in {GROUPS}"}
SERVER, NEIGHBOURS = "the server alone", "2 colluding members"
SCATTER = 4.0
"""Standard deviations of a mean of d squares; fixed before the first run."""


def run(quick: bool, moved: Moved) -> Found:
    """Rounds of processes."""
    return {"rounds": run_rounds(quick, moved)}


def _title(row: Found) -> str:
    return f"{TITLES[row['mode']]}, K = {row['members']}"


def here(found: Found) -> str:
    """In words."""
    errors = "; ".join(
        f"{_title(row)}: {row['mean square']:.4g} ({row['simulated']:.4g} simulated)" for row in found["rounds"]
    )
    least = min(row["honest"][SERVER] for row in found["rounds"])
    printed = min(row["printed"] for row in found["rounds"])
    return (
        f"Mean square of a coordinate's error, one round of {found['rounds'][0]['dimension']:,} numbers: {errors}. "
        f"The paper's formulas give epsilon {printed:.0f} and more; honestly the server learns {least:.0f} and more, "
        "and two members around a third compute its vector."
    )


def numbers(found: Found) -> list[Number]:
    """The noise that processes added, over m max beta: a mean of d squares scatters by sqrt(2/d)."""
    return [
        Number(
            f"{_title(row)}, error over simulated", row["mean square"] / row["simulated"], 1.0,
            SCATTER * sqrt(2.0 / row["dimension"]),
        )
        for row in found["rounds"]
    ]  # fmt: skip


def draw(found: Found) -> Any:
    """Left: the processes' error over the simulated one. Right: printed and honest epsilons."""
    rows = found["rounds"]
    drawn = figure(11, 1.6 + 0.48 * len(rows))
    left, right = drawn.subplots(1, 2, sharey=True)
    headline(
        drawn,
        "Real processes add the noise that the game says; what the paper promises for it is not what it protects",
        f"One round each, d = {rows[0]['dimension']:,}, preferences uniform on [0, 1.3], δ = {DELTA:g}.",
    )
    places = list(range(len(rows)))
    spread = SCATTER * sqrt(2.0 / rows[0]["dimension"])
    dress(left, "error of the mean, over the simulated one", "ratio (shade: four standard deviations of one round)", "")
    left.axvspan(1 - spread, 1 + spread, color="#dddddd", linewidth=0)
    left.plot([row["mean square"] / row["simulated"] for row in rows], places, "o", color=BLUE)
    left.set_yticks(places, [_title(row) for row in rows])
    left.set_xlim(1 - 1.6 * spread, 1 + 1.6 * spread)
    dress(right, "epsilon of one vector", "epsilon (logarithmic)", "")
    height = 0.36
    right.barh([y - height / 2 for y in places], [row["printed"] for row in rows], height, color=ORANGE,
               label="by the paper's formulas")  # fmt: skip
    right.barh([y + height / 2 for y in places], [row["honest"][SERVER] for row in rows], height, color=GREY,
               label="honest: what the server alone learns")  # fmt: skip
    right.set_xscale("log")
    right.set_xlim(10, 1e6)
    for y, row in zip(places, rows, strict=True):
        if row["honest"][NEIGHBOURS] is None:
            text = "two neighbours: the vector itself"
            right.text(row["honest"][SERVER] * 1.15, y + height / 2, text, fontsize=8, color="#333333", va="center")
    right.invert_yaxis()
    drawn.legend(*right.get_legend_handles_labels(), loc="outside lower center", ncols=2, frameon=False, fontsize=9)
    return drawn


EXHIBIT = Exhibit(
    name="p2-processes",
    paper="P2",
    title="Relays of real processes: BAS, SAR, splitting at K = 3, 10, 20 (no figure in the paper)",
    printed="A simulation only: the paper runs no relay. Its formulas: eq. 3 with sensitivity sqrt d; for SAR the "
    "epsilon of one slice (Theorems 7 and 8).",
    why="Each member is a process of its own, with signed messages, integers on a grid and discrete noise. A relay has "
    "two members at least, so three are not split. The honest guarantee is what `relay host` prints: sensitivity "
    "2 sqrt "
    "d, the whole vector whatever the slicing, for each coalition.",
    run=run,
    here=here,
    draw=draw,
    numbers=numbers,
    together=True,
)
