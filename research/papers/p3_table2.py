"""P3, Table II: the total budget of ten users by default epsilon, for four functions and three schemes."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from research.accuracy.opu import DEFAULTS, NOTES, ONE_VALUE, budget_row
from research.papers.charts import BLUE, GREY, ORANGE, YELLOW, below, dress, figure, headline
from research.papers.exhibit import Exhibit, Found, Moved, Number


def run(quick: bool, moved: Moved) -> Found:
    """All forty cells, with one true value a function, and with one a type."""
    rows = []
    for place, function in enumerate(ONE_VALUE, 1):
        rows += [asdict(budget_row(function, default, 3 if quick else 20)) for default in DEFAULTS]
        moved(place, len(ONE_VALUE))
    return {"rows": rows, "notes": [note for note in NOTES if note.startswith("Table II,")]}


def here(found: Found) -> str:
    """In words."""
    off = [abs(row["opu"] - row["opu_paper"]) for row in found["rows"]]
    typed = [abs(row["opu_by_type"] - row["opu_paper"]) for row in found["rows"]]
    last = next(row for row in found["rows"] if row["function"] == "Count" and row["eps_def"] == 1.0)
    return (
        f"OPU within .01 in {sum(one <= 0.0101 for one in off)} of 40 cells with one true value a function, within "
        ".12 in "
        f"{sum(one <= 0.12 for one in typed)} with two. Closed form 4 eps_def + 236.67/Y: Count (Y = 200) at 1.0 gives "
        f"{last['opu']:.2f}, printed 5.18. BST is 9 eps_def, standard DP 10 eps_def."
    )


def numbers(found: Found) -> list[Number]:
    """The closed form where every search ends inside, the printed entries where they fit, and the flat columns."""
    made = []
    for row in found["rows"]:
        name, default = row["function"], row["eps_def"]
        where = f"{name} at {default:g}"
        if default >= 0.5:
            closed = 4 * default + 236.67 / ONE_VALUE[name][0]
            made.append(Number(f"closed form, {where}", row["opu"], round(closed, 4), 0.0026))
        if name != "Count":
            made.append(Number(f"printed OPU, {where}", row["opu"], row["opu_paper"], 0.0101))
        elif default >= 0.3:
            made.append(Number(f"printed OPU, {where}", row["opu"], row["opu_paper"], 0.12))
        if name != "Count" or default >= 0.3:
            made.append(Number(f"9 eps_def, {where}", row["bst"], round(9 * default, 2), 0.0101))
            made.append(Number(f"10 eps_def, {where}", row["standard"], round(10 * default, 2), 0.0101))
    return made


def draw(found: Found) -> Any:
    """Lines are ours, rings are printed."""
    drawn = figure(10.6, 4.4)
    panels = drawn.subplots(1, 4, sharey=True)
    headline(
        drawn,
        "P3's Table II comes out of a search that looks at the true answer: nothing of it is private",
        "Lines: recomputed (true values fitted: the paper prints none); rings: as printed.",
    )
    ways = (
        ("standard", GREY, ":", "flat epsilon"),
        ("bst", YELLOW, "--", "flat, repeats reused (“BST-DP”)"),
        ("opu", ORANGE, "-", "P3's search: NOT private"),
    )
    for axes, function in zip(panels, ONE_VALUE, strict=True):
        rows = [row for row in found["rows"] if row["function"] == function]
        dress(axes, function, "default epsilon", "total epsilon of ten users" if axes is panels[0] else "")
        for way, colour, style, label in ways:
            axes.plot(DEFAULTS, [row[way] for row in rows], color=colour, linestyle=style, linewidth=1.8, label=label)
            axes.plot(
                DEFAULTS, [row[f"{way}_paper"] for row in rows], "o", markerfacecolor="none", color=colour, markersize=6
            )
        if function == "Count":
            by_type = [row["opu_by_type"] for row in rows]
            axes.plot(DEFAULTS, by_type, color=BLUE, linewidth=1.2, label="the same, two true values")
        axes.set_ylim(0, 10.5)
        axes.set_xlim(0, 1.05)
    below(drawn, panels[0], 4)
    return drawn


EXHIBIT = Exhibit(
    name="p3-table2",
    paper="P3",
    title="Table II: total budget of ten users",
    printed="Count 0.45 to 5.18, Avg 0.41 to 4.01, Max 0.40 to 4.00, Min 0.43 to 4.03 for default epsilons .1 to 1; "
    "BST 9, standard 10 times the default.",
    why="The paper prints no true values, so they are fitted. The printed .89 or 5.99 are float sums cut off "
    "after two decimals. Count at .1 and .2 depends on single draws. The columns go up to 10 although the "
    "budget is 8. Sensitivity 1 for Avg, Max and Min is wrong. Above all, epsilon is chosen by looking at "
    "the true answer, and published (see below).",
    run=run,
    here=here,
    draw=draw,
    numbers=numbers,
)
