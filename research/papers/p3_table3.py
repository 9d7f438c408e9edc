"""P3, Table III: how many of ten users are satisfied, by default epsilon and decrement."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from research.accuracy.opu import DEFAULTS, ETAS, NOTES, ONE_VALUE, satisfied_row
from research.papers.charts import BLUE, ORANGE, below, dress, figure, headline
from research.papers.exhibit import Exhibit, Found, Moved, Number


def run(quick: bool, moved: Moved) -> Found:
    """All 120 cells; the fewest and the most over the seeds."""
    rows = []
    for place, eta in enumerate(ETAS, 1):
        rows += [
            asdict(satisfied_row(eta, name, default, 5 if quick else 20)) for name in ONE_VALUE for default in DEFAULTS
        ]
        moved(place, len(ETAS))
    agree = {
        reading: sum(row[reading][0] <= row["paper"] <= row[reading][1] for row in rows)
        for reading in ("drawn", "by_type")
    }
    return {"rows": rows, "agree": agree, "notes": [note for note in NOTES if note.startswith("Table III")]}


def here(found: Found) -> str:
    """In words."""
    agree = found["agree"]
    return (
        f"The printed number lies in our range for {agree['drawn']} of 120 cells with one true value a function, for "
        f"{agree['by_type']} with two. Max and Min at eta .05: printed 5, found 4."
    )


def numbers(found: Found) -> list[Number]:
    """Where both readings leave no room: Avg at every eta, Max and Min at the finest."""
    return [
        Number(
            f"satisfied, {row['function']}, eta {row['eta']:g}, eps_def {row['eps_def']:g}",
            row["by_type"][1],
            row["paper"],
            0,
        )
        for row in found["rows"]
        if row["function"] == "Avg" or (row["eta"] == 0.0005 and row["function"] != "Count")
    ]


def draw(found: Found) -> Any:
    """One panel a decrement and function."""
    drawn = figure(10.6, 6.4)
    grid = drawn.subplots(len(ETAS), len(ONE_VALUE), sharex=True, sharey=True)
    headline(
        drawn,
        f"A coarse search skips users; {found['agree']['by_type']} of 120 printed cells can be explained (P3, Table "
        "III)",
        "Bands: fewest to most over seeds, two true values a function; rings: as printed.",
    )
    for row, eta in enumerate(ETAS):
        for column, function in enumerate(ONE_VALUE):
            axes = grid[row][column]
            cells = [one for one in found["rows"] if one["eta"] == eta and one["function"] == function]
            dress(
                axes,
                f"{function}, η = {eta:g}",
                "default epsilon" if row == 2 else "",
                "satisfied of 10" if column == 0 else "",
            )
            low, high = ([one["by_type"][end] for one in cells] for end in (0, 1))
            axes.fill_between(
                DEFAULTS,
                [v - 0.12 for v in low],
                [v + 0.12 for v in high],
                color=BLUE,
                alpha=0.45,
                linewidth=0,
                label="recomputed",
            )
            axes.plot(
                DEFAULTS,
                [one["paper"] for one in cells],
                "o",
                markerfacecolor="none",
                color=ORANGE,
                markersize=6,
                label="printed",
            )
            axes.set_ylim(0, 11)
    below(drawn, grid[0][0], 2)
    return drawn


EXHIBIT = Exhibit(
    name="p3-table3",
    paper="P3",
    title="Table III: satisfied users",
    printed="Ten of ten for the finest decrement except Count at .1 and .2; four to ten for coarser ones. (The "
    "caption prints .005 twice.)",
    why="Which users are skipped depends on true values that are not printed and on single draws. Max and Min at "
    "eta .05 fit no values that fit Table II. Algorithm 1 never recomputes the accuracy inside its loop and "
    "tests its budget the wrong way round; both are repaired here. Type N has opposite meanings in sections "
    "III and IV.",
    run=run,
    here=here,
    draw=draw,
    numbers=numbers,
)
