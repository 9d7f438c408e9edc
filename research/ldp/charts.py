"""Figures 3.2 to 3.7 and 3.11 of the thesis as charts that state what they show. PNG and SVG, colour-blind safe."""

from __future__ import annotations

from collections.abc import Callable
from math import ceil, log
from pathlib import Path
from typing import Any

import numpy as np

from noisebank.federated.ldp.catalogue import make_mechanism
from noisebank.federated.ldp.parameters import MECHANISM_NAMES, find_parameters, optimal_a
from noisebank.federated.ldp.vectors import make_published_vector_mechanism
from research.ldp.tables import (
    GAUSSIAN_MEANS,
    Numbers,
    added,
    adult,
    average_variance,
    errors,
    gaussian,
    packaged,
    stand_ins,
)
from research.papers.charts import mark_made_up

Progress = Callable[[int, int], None]
LABELS = {
    "laplace": "Laplace", "duchi": "Duchi", "pm": "PM", "hm": "HM", "three-outputs": "Three-Outputs",
    "pm-opt": "PM-OPT", "pm-sub": "PM-SUB", "hm-tp": "HM-TP", "best": "best (tuned jointly)",
}  # fmt: skip
COLOURS = {
    "laplace": "#999999", "duchi": "#E69F00", "pm": "#56B4E9", "hm": "#CC79A7", "three-outputs": "#D55E00",
    "pm-opt": "#332288", "pm-sub": "#0072B2", "hm-tp": "#009E73", "best": "#000000",
}  # fmt: skip
MARKS = dict(zip(MECHANISM_NAMES, "sovD^PXd*", strict=True))
SHOWN = ("laplace", "duchi", "pm", "hm", "three-outputs", "pm-sub", "hm-tp")
EPSILONS = (0.5, 1.0, 2.0, 4.0)
LEVELS = 1000


Found = dict[str, Any]
"""What a figure shows, as JSON keeps it."""


def draw_charts(folder: Path, quick: bool = False, progress: Progress = lambda done, total: None) -> list[Path]:
    """All charts into `folder` (made if need be); returns the files written."""
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for done, (name, (measure, draw)) in enumerate(FIGURES.items()):
        progress(done, len(FIGURES))
        figure = draw(measure(quick))
        for kind in ("png", "svg"):
            written.append(folder / f"{name}.{kind}")
            figure.savefig(written[-1], dpi=150)
    progress(len(FIGURES), len(FIGURES))
    return written


def table_size(quick: bool) -> tuple[int, int]:
    """Devices of a made-up table, and runs over it."""
    return (10_000, 2) if quick else (100_000, 4)


def _figure(width: float = 8.0, height: float = 4.8) -> Any:
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def _axes(axes: Any, title: str, x: str, y: str) -> Any:
    axes.set_title(title, loc="left", fontsize=11)
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    axes.spines[["top", "right"]].set_visible(False)
    return axes


def measure_worst_variance(quick: bool = False) -> Found:
    """The curves of Figure 3.2."""
    return _measure_curves(MECHANISM_NAMES, np.linspace(0.25, 8.0, 32 if quick else 94))


def _measure_curves(names: tuple[str, ...], epsilons: Any) -> Found:
    curves = {
        name: [float(find_parameters(name, float(e)).moments.worst_variance()) for e in epsilons] for name in names
    }
    return {"epsilons": [float(e) for e in epsilons], "curves": curves}


def worst_variance(found: Found) -> Any:
    """Figure 3.2, and the same divided by `best`, where the differences can be seen."""
    epsilons, curves = found["epsilons"], {name: np.array(curve) for name, curve in found["curves"].items()}
    figure = _figure(11, 4.8)
    left, right = figure.subplots(1, 2)
    for name, curve in curves.items():
        style = {"color": COLOURS[name], "linewidth": 2.2 if name == "best" else 1.5, "label": LABELS[name]}
        left.semilogy(epsilons, curve, **style)
        if name not in ("laplace", "duchi"):
            right.plot(epsilons, curve / curves["best"], **style)
    figure.suptitle(
        "Tuning a, t and beta together gives the smallest worst-case variance at every epsilon", x=0.01, ha="left"
    )
    _axes(left, "worst-case variance", "epsilon (local, pure)", "variance of a report on a number in [-1, 1]")
    _axes(right, "relative to the jointly tuned mechanism", "epsilon (local, pure)", "times the variance of `best`")
    right.set_ylim(0.98, 1.5)
    right.set_xlim(0, 8)
    notes = (
        (1.59, "HM beats HM-TP\nfrom ln 2 to 1.59", 0.08, 1.07),
        (5.44, "PM-OPT beats HM-TP\nabove 5.44", 5.52, 1.1),
    )
    for edge, text, x, y in notes:
        right.axvline(edge, color="#bbbbbb", linewidth=0.8, linestyle=":")
        right.text(x, y, text, fontsize=8, color="#555555")
    left.legend(fontsize=8, frameon=False)
    return figure


def measure_zero_probability(quick: bool = False) -> Found:
    """The curve of Figure 3.3."""
    epsilons = [float(e) for e in np.linspace(0.01, 8.0, 200)]
    return {"epsilons": epsilons, "chances": [float(optimal_a(e)) for e in epsilons]}


def zero_probability(found: Found) -> Any:
    """Figure 3.3."""
    figure = _figure()
    title = "Three-Outputs is Duchi's mechanism up to ln 2; beyond it reports 0 more and more often"
    axes = _axes(figure.subplots(), title, "epsilon (local, pure)", "probability of reporting 0 when x = 0")
    axes.plot(found["epsilons"], found["chances"], color=COLOURS["three-outputs"], linewidth=2)
    for edge, text in ((log(2), "ln 2"), (log((3 + 65**0.5) / 2), "ln 5.53:\nat its limit\n$e^ε/(e^ε+2)$")):
        axes.axvline(edge, color="#bbbbbb", linewidth=0.8, linestyle=":")
        axes.text(edge + 0.08, 0.03, text, fontsize=9, color="#555555")
    axes.set_xlim(0, 8)
    axes.set_ylim(0, 1.02)
    return figure


def measure_density(quick: bool = False) -> Found:
    """The laws of Figure 3.4: edges and heights of their steps."""
    made, laws = make_mechanism("pm-opt", 1.0), {}
    step = float(made.to_values([1])[0] - made.to_values([0])[0])
    for x in (0.0, 0.5, 1.0):
        law = made.output_law(x)
        edges: list[float] = []
        heights: list[float] = []
        for start, stop, weight in law.iter_runs():
            edges += [float(made.to_values([start])[0]) - step / 2, float(made.to_values([stop - 1])[0]) + step / 2]
            heights += [float(weight / law.total_weight / step)] * 2
        laws[f"{x:g}"] = {"edges": edges, "heights": heights}
    return {"epsilon": 1.0, "laws": laws}


def density(found: Found) -> Any:
    """Figure 3.4, from the exact law of the grid."""
    figure = _figure()
    title = "A piecewise report is likelier near its input, by a factor e^ε and no more (PM-OPT, ε = 1)"
    axes = _axes(figure.subplots(), title, "reported value y (the number lies in [-1, 1])", "probability density of y")
    looks = (("#0072B2", "-"), ("#D55E00", "--"), ("#009E73", "-."))
    for (x, law), (colour, style) in zip(found["laws"].items(), looks, strict=True):
        axes.plot(law["edges"], law["heights"], color=colour, linestyle=style, linewidth=2, label=f"x = {x}")
    high = max(max(law["heights"]) for law in found["laws"].values())
    low = high / np.exp(found["epsilon"])
    axes.axhline(low, color="#bbbbbb", linewidth=0.8, linestyle=":")
    axes.text(0, low - 0.006, "highest density divided by e", fontsize=8, color="#555555", ha="center", va="top")
    axes.set_ylim(0, high * 1.15)
    axes.legend(frameon=False, loc="upper left")
    return figure


def measure_window_choice(quick: bool = False) -> Found:
    """The curves of Figure 3.5."""
    return _measure_curves(("pm-opt", "pm", "pm-sub"), np.linspace(0.1, 8.0, 160))


def window_choice(found: Found) -> Any:
    """Figure 3.5, as a ratio: the two curves cannot be told apart otherwise."""
    epsilons = found["epsilons"]
    best, pm, sub = (np.array(found["curves"][name]) for name in ("pm-opt", "pm", "pm-sub"))
    figure = _figure()
    title = (
        f"PM-SUB's simple t = e^(ε/3) costs at most {(sub / best).max() - 1:.1%} of variance; PM's triples it by ε = 8"
    )
    axes = _axes(figure.subplots(), title, "epsilon (local, pure)", "worst-case variance relative to PM-OPT")
    for name, curve in (("pm", pm), ("pm-sub", sub)):
        axes.plot(epsilons, curve / best, color=COLOURS[name], linewidth=2, label=LABELS[name])
    axes.axhline(1.0, color=COLOURS["pm-opt"], linewidth=1.5, linestyle="--", label="PM-OPT")
    axes.set_xlim(0, 8)
    axes.legend(frameon=False)
    return figure


def _measure_panels(
    tables: list[Numbers], runs: int, title: str, note: str, names: tuple[str, ...], levels: int | None = None
) -> Found:
    """Errors on each table, expected from the exact moments and measured."""
    panels = [
        {
            "title": table.title,
            "made up": table.made_up,
            "numbers": table.rows.shape[1],
            "curves": {
                name: {"expected": curve.expected, "measured": curve.measured}
                for name, curve in errors(table, names, EPSILONS, runs, levels).items()
            },
        }
        for table in tables
    ]
    return {"title": title, "note": note, "runs": runs, "panels": panels}


def panels(found: Found) -> Any:
    """Figures 3.6, 3.7 and 3.11: one panel a table, lines are expected errors, marks measured ones."""
    from matplotlib.ticker import NullLocator

    tables = found["panels"]
    columns = min(4, len(tables))
    lines_of_panels = -(-len(tables) // columns)
    figure = _figure(3.1 * columns + 0.6, 1.4 + 3.6 * lines_of_panels)
    every = figure.subplots(lines_of_panels, columns, sharey=True, squeeze=False)
    grid = every.reshape(-1)
    for axes in grid[len(tables) :]:
        axes.set_visible(False)
    for axes, table in zip(grid, tables, strict=False):
        for name, curve in table["curves"].items():
            axes.loglog(EPSILONS, curve["expected"], color=COLOURS[name], linewidth=1.4)
            axes.plot(EPSILONS, curve["measured"], MARKS[name], color=COLOURS[name], markersize=4.5, alpha=0.75)
        _axes(axes, "", "epsilon for the record", "")
        axes.set_title(table["title"], loc="left", fontsize=9)  # small: a long one would run into the next panel's
        axes.xaxis.set_minor_locator(NullLocator())
        axes.set_xticks(EPSILONS, [f"{epsilon:g}" for epsilon in EPSILONS])
        if table.get("made up"):
            mark_made_up(axes)
    for row in every:
        row[0].set_ylabel("mean squared error of a mean\n(numbers in [-1, 1])")
    lines = f"Lines: expected from the exact moments; marks: measured, {found['runs']} runs averaged."
    figure.suptitle(
        f"{found['title']}\n \n ", x=0.01, ha="left", fontsize=12
    )  # the empty lines leave room for the note
    below = 1 - 0.36 / float(figure.get_figheight())
    figure.text(0.01, below, f"{found['note']}\n{lines}", fontsize=8.5, color="#555555", va="top")
    handles = [_handle(name) for name in tables[0]["curves"]]
    figure.legend(handles=handles, loc="outside lower center", ncols=len(handles), frameon=False, fontsize=9)
    return figure


def _handle(name: str) -> Any:
    from matplotlib.lines import Line2D

    return Line2D([], [], color=COLOURS[name], marker=MARKS[name], markersize=5, linewidth=1.4, label=LABELS[name])


def measure_means(quick: bool = False) -> Found:
    """Figure 3.6 on stand-ins."""
    rows, runs = table_size(quick)
    real = adult()
    others = [*packaged(), *([real] if real else [])]
    tables = [*stand_ins(rows), *others]
    note = f"WISDM, MX, BR and Vehicle cannot be had: made-up tables of the same shape ({rows:,} rows)."
    note += " Real: " + "; ".join(f"{one.title.split(' ')[0]}, {len(one.rows):,} rows" for one in others) + "."
    title = "Every bounded mechanism beats Laplace; which of them is best depends on the table and on epsilon"
    return _measure_panels(tables, runs, title, note, SHOWN)


def measure_gaussians(quick: bool = False) -> Found:
    """Figure 3.7."""
    rows, runs = table_size(quick)
    tables = [gaussian(mean, rows) for mean in GAUSSIAN_MEANS]
    title = "Piecewise reports win where values lie near 0; at the edge of [-1, 1] the mechanisms differ little"
    return _measure_panels(tables, runs, title, f"Synthetic, {rows:,} devices, one report each.", SHOWN)


def measure_discretised(quick: bool = False) -> Found:
    """Figure 3.11."""
    rows, runs = table_size(quick)
    names, tables = ("duchi", "pm", "hm", "three-outputs", "pm-sub", "hm-tp"), stand_ins(rows)[:3]
    cost = max(_cost(table, name, epsilon) for table in tables for name in names for epsilon in EPSILONS)
    title = f"{2 * LEVELS + 1:,} levels, 11 bits a number, add at most {ceil(1e6 * cost) / 1e6:.4%} to the error"
    note = f"Synthetic stand-ins of the same shape ({rows:,} rows): WISDM, MX and BR cannot be had."
    return {**_measure_panels(tables, runs, title, note, names, LEVELS), "largest cost": cost}


def _cost(table: Numbers, name: str, epsilon: float) -> float:
    """What the levels add, relative to the error without them."""
    dimension = table.rows.shape[1]
    made = make_published_vector_mechanism(name, epsilon * dimension / table.attributes, dimension)
    return made.scale * added(made, LEVELS) / average_variance(made, table.rows)


FIGURES: dict[str, tuple[Callable[[bool], Found], Callable[[Found], Any]]] = {
    "figure_3_2_worst_variance": (measure_worst_variance, worst_variance),
    "figure_3_3_p00": (measure_zero_probability, zero_probability),
    "figure_3_4_density": (measure_density, density),
    "figure_3_5_pm_sub_pm_opt": (measure_window_choice, window_choice),
    "figure_3_6_means": (measure_means, panels),
    "figure_3_7_gaussian": (measure_gaussians, panels),
    "figure_3_11_levels": (measure_discretised, panels),
}
"""By file name: what measures a figure, and what draws it."""
