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
    stand_ins,
)

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


def draw_charts(folder: Path, quick: bool = False, progress: Progress = lambda done, total: None) -> list[Path]:
    """All charts into `folder` (made if need be); returns the files written."""
    folder.mkdir(parents=True, exist_ok=True)
    rows, runs = (10_000, 2) if quick else (100_000, 4)
    steps: list[tuple[str, Callable[[], Any]]] = [
        ("figure_3_2_worst_variance", worst_variance),
        ("figure_3_3_p00", zero_probability),
        ("figure_3_4_density", density),
        ("figure_3_5_pm_sub_pm_opt", window_choice),
        ("figure_3_6_means", lambda: means(rows, runs)),
        ("figure_3_7_gaussian", lambda: gaussians(rows, runs)),
        ("figure_3_11_levels", lambda: discretised(rows, runs)),
    ]
    written = []
    for done, (name, make) in enumerate(steps):
        progress(done, len(steps))
        figure = make()
        for kind in ("png", "svg"):
            written.append(folder / f"{name}.{kind}")
            figure.savefig(written[-1], dpi=150)
    progress(len(steps), len(steps))
    return written


def _figure(width: float = 8.0, height: float = 4.8) -> Any:
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def _axes(axes: Any, title: str, x: str, y: str) -> Any:
    axes.set_title(title, loc="left", fontsize=11)
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    axes.spines[["top", "right"]].set_visible(False)
    return axes


def worst_variance() -> Any:
    """Figure 3.2, and the same divided by `best`, where the differences can be seen."""
    epsilons = np.linspace(0.25, 8.0, 94)
    curves = {
        name: np.array([find_parameters(name, float(e)).moments.worst_variance() for e in epsilons])
        for name in MECHANISM_NAMES
    }
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


def zero_probability() -> Any:
    """Figure 3.3."""
    epsilons = np.linspace(0.01, 8.0, 800)
    figure = _figure()
    title = "Three-Outputs is Duchi's mechanism up to ln 2; beyond it reports 0 more and more often"
    axes = _axes(figure.subplots(), title, "epsilon (local, pure)", "probability of reporting 0 when x = 0")
    axes.plot(epsilons, [optimal_a(float(e)) for e in epsilons], color=COLOURS["three-outputs"], linewidth=2)
    for edge, text in ((log(2), "ln 2"), (log((3 + 65**0.5) / 2), "ln 5.53:\nat its limit\n$e^ε/(e^ε+2)$")):
        axes.axvline(edge, color="#bbbbbb", linewidth=0.8, linestyle=":")
        axes.text(edge + 0.08, 0.03, text, fontsize=9, color="#555555")
    axes.set_xlim(0, 8)
    axes.set_ylim(0, 1.02)
    return figure


def density() -> Any:
    """Figure 3.4, from the exact law of the grid."""
    epsilon, made = 1.0, make_mechanism("pm-opt", 1.0)
    figure = _figure()
    title = "A piecewise report is likelier near its input, by a factor e^ε and no more (PM-OPT, ε = 1)"
    axes = _axes(figure.subplots(), title, "reported value y (the number lies in [-1, 1])", "probability density of y")
    high = 0.0
    for x, colour, style in ((0.0, "#0072B2", "-"), (0.5, "#D55E00", "--"), (1.0, "#009E73", "-.")):
        law = made.output_law(x)
        step = float(made.to_values([1])[0] - made.to_values([0])[0])
        edges, heights = [], []
        for start, stop, weight in law.iter_runs():
            edges += [float(made.to_values([start])[0]) - step / 2, float(made.to_values([stop - 1])[0]) + step / 2]
            heights += [weight / law.total_weight / step] * 2
        axes.plot(edges, heights, color=colour, linestyle=style, linewidth=2, label=f"x = {x:g}")
        high = max(high, *heights)
    axes.axhline(high / np.exp(epsilon), color="#bbbbbb", linewidth=0.8, linestyle=":")
    axes.text(
        0,
        high / np.exp(epsilon) - 0.006,
        "highest density divided by e",
        fontsize=8,
        color="#555555",
        ha="center",
        va="top",
    )
    axes.set_ylim(0, high * 1.15)
    axes.legend(frameon=False, loc="upper left")
    return figure


def window_choice() -> Any:
    """Figure 3.5, as a ratio: the two curves cannot be told apart otherwise."""
    epsilons = np.linspace(0.1, 8.0, 160)
    best, pm, sub = (
        np.array([find_parameters(name, float(e)).moments.worst_variance() for e in epsilons])
        for name in ("pm-opt", "pm", "pm-sub")
    )
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


def _panels(
    tables: list[Numbers], runs: int, title: str, note: str, names: tuple[str, ...], levels: int | None = None
) -> Any:
    """One panel a table: lines are expected errors, marks measured ones."""
    from matplotlib.ticker import NullLocator

    figure = _figure(3.1 * len(tables) + 0.6, 5.0)
    grid = figure.subplots(1, len(tables), sharey=True, squeeze=False)[0]
    for axes, table in zip(grid, tables, strict=True):
        for name, curve in errors(table, names, EPSILONS, runs, levels).items():
            axes.loglog(EPSILONS, curve.expected, color=COLOURS[name], linewidth=1.4)
            axes.plot(EPSILONS, curve.measured, MARKS[name], color=COLOURS[name], markersize=4.5, alpha=0.75)
        _axes(axes, table.title, "epsilon for the record", "")
        axes.title.set_fontsize(9)
        axes.xaxis.set_minor_locator(NullLocator())
        axes.set_xticks(EPSILONS, [f"{epsilon:g}" for epsilon in EPSILONS])
    grid[0].set_ylabel("mean squared error of a mean\n(numbers in [-1, 1])")
    note += f"\nLines: expected from the exact moments; marks: measured, {runs} runs averaged."
    figure.suptitle(f"{title}\n \n ", x=0.01, ha="left", fontsize=12)  # the empty lines leave room for the note
    figure.text(0.01, 0.93, note, fontsize=8.5, color="#555555", va="top")
    handles = [_handle(name) for name in names]
    figure.legend(handles=handles, loc="outside lower center", ncols=len(names), frameon=False, fontsize=9)
    return figure


def _handle(name: str) -> Any:
    from matplotlib.lines import Line2D

    return Line2D([], [], color=COLOURS[name], marker=MARKS[name], markersize=5, linewidth=1.4, label=LABELS[name])


def means(rows: int, runs: int) -> Any:
    """Figure 3.6 on stand-ins."""
    real = adult()
    tables = [*stand_ins(rows), *([real] if real else [])]
    note = f"Synthetic stand-ins of the same shape ({rows:,} rows): WISDM, MX, BR and Vehicle cannot be had."
    note += f" Adult: {len(real.rows):,} real rows." if real else " Adult is missing too (NOISEBANK_DATA is not set)."
    title = "Every bounded mechanism beats Laplace; which of them is best depends on the table and on epsilon"
    return _panels(tables, runs, title, note, SHOWN)


def gaussians(rows: int, runs: int) -> Any:
    """Figure 3.7."""
    tables = [gaussian(mean, rows) for mean in GAUSSIAN_MEANS]
    title = "Piecewise reports win where values lie near 0; at the edge of [-1, 1] the mechanisms differ little"
    return _panels(tables, runs, title, f"Synthetic, {rows:,} devices, one report each.", SHOWN)


def discretised(rows: int, runs: int) -> Any:
    """Figure 3.11."""
    names, tables = ("duchi", "pm", "hm", "three-outputs", "pm-sub", "hm-tp"), stand_ins(rows)[:3]
    cost = max(_cost(table, name, epsilon) for table in tables for name in names for epsilon in EPSILONS)
    title = f"{2 * LEVELS + 1:,} levels, 11 bits a number, add at most {ceil(1e6 * cost) / 1e6:.4%} to the error"
    note = f"Synthetic stand-ins of the same shape ({rows:,} rows): WISDM, MX and BR cannot be had."
    return _panels(tables, runs, title, note, names, LEVELS)


def _cost(table: Numbers, name: str, epsilon: float) -> float:
    """What the levels add, relative to the error without them."""
    dimension = table.rows.shape[1]
    made = make_published_vector_mechanism(name, epsilon * dimension / table.attributes, dimension)
    return made.scale * added(made, LEVELS) / average_variance(made, table.rows)
