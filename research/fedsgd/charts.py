"""Figures 3.8 to 3.10 and 3.12 to 3.15 as charts that state what they show and on which tables. PNG and SVG."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from noisebank.federated.fedsgd import get_model
from noisebank.federated.ldp.parameters import MECHANISM_NAMES
from research.fedsgd.figures import EPSILONS, LEVELS, OUTPUT_EPSILON, PANELS, PIECEWISE, FedSgd
from research.fedsgd.runs import NONE, Errors, Setting
from research.ldp.charts import COLOURS, LABELS, MARKS
from research.papers.charts import mark_made_up

Progress = Callable[[int, int], None]
MISSING = "WISDM, IPUMS Mexico and Brazil and Vehicle cannot be had: named stand-ins."


def draw_charts(found: FedSgd, folder: Path, progress: Progress = lambda done, total: None) -> list[Path]:
    """All charts into `folder`; returns the files written."""
    folder.mkdir(parents=True, exist_ok=True)
    steps: list[tuple[str, Callable[[], Any]]] = [
        ("figure_3_8_logistic", lambda: along_epsilon(found, "logistic", MECHANISM_NAMES, "3.8")),
        ("figure_3_9_linear", lambda: along_epsilon(found, "linear", MECHANISM_NAMES, "3.9")),
        ("figure_3_10_svm", lambda: along_epsilon(found, "hinge", MECHANISM_NAMES, "3.10")),
        ("figure_3_12_linear_levels", lambda: along_epsilon(found, "linear", PIECEWISE, "3.12", LEVELS)),
        ("figure_3_13_logistic_levels", lambda: along_epsilon(found, "logistic", PIECEWISE, "3.13", LEVELS)),
        ("figure_3_14_outputs_linear", lambda: along_outputs(found, "linear", "3.14")),
        ("figure_3_14_outputs_logistic", lambda: along_outputs(found, "logistic", "3.14")),
        ("figure_3_15_outputs_svm", lambda: along_outputs(found, "hinge", "3.15")),
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


def along_epsilon(found: FedSgd, model: str, names: tuple[str, ...], number: str, levels: int = 0) -> Any:
    """Error against epsilon, a panel a table. With levels: filled marks, and hollow ones for the same without."""
    from matplotlib.ticker import NullLocator

    figure, grid = _panels(found, model)
    for axes, name in zip(grid, PANELS[model], strict=True):
        plain = found.runs[name, model][Setting(NONE)].mean
        axes.axhline(plain, color="#888888", linewidth=1.0, linestyle=":")
        for place, mechanism in enumerate(names):
            curve = found.curve(name, model, mechanism, levels)
            x = [epsilon * (1.0 + 0.014 * (place - len(names) / 2)) for epsilon in curve]  # side by side
            _plotted(axes, x, list(curve.values()), mechanism)
            if levels:
                free = found.curve(name, model, mechanism)
                axes.plot(x, [errors.mean for errors in free.values()], MARKS[mechanism], color=COLOURS[mechanism],
                          markersize=6.5, markerfacecolor="none", alpha=0.6)  # fmt: skip
        axes.set_xscale("log")
        if not levels:
            _limit(axes, found, name, model)
        axes.xaxis.set_minor_locator(NullLocator())
        axes.set_xticks(EPSILONS, [f"{epsilon:g}" for epsilon in EPSILONS])
        axes.set_xlabel("epsilon of a device's one report")
    title = _levels_headline(found, model, levels) if levels else _headline(found, model)
    _finish(figure, title, f"P4, Figure {number}. {_runs(found, names)}", names, plain=True)
    return figure


def along_outputs(found: FedSgd, model: str, number: str) -> Any:
    """Error against the number of outputs."""
    from matplotlib.ticker import NullLocator

    figure, grid = _panels(found, model)
    names: tuple[str, ...] = ()
    for axes, name in zip(grid, PANELS[model], strict=True):
        curves = found.outputs(name, model)
        names = tuple(curves)
        for place, (mechanism, curve) in enumerate(curves.items()):
            x = [count * (1.0 + 0.05 * (place - 2)) for count in curve]
            _plotted(axes, x, list(curve.values()), mechanism)
        counts = list(next(iter(curves.values())))
        axes.axhline(curves["three-outputs"][3].mean, color=COLOURS["three-outputs"], linewidth=1.0, linestyle=":")
        axes.set_xscale("log")
        axes.xaxis.set_minor_locator(NullLocator())
        axes.set_xticks(counts, [f"{count:,}" for count in counts])
        axes.set_xlabel("possible outputs of a sent number")
    epsilon = OUTPUT_EPSILON[model]
    title = f"{_name(model)} at ε = {epsilon:g}: {_outputs_headline(found, model)}"
    _finish(figure, title, f"P4, Figure {number}. {_runs(found, names)}", names, plain=False)
    return figure


def _plotted(axes: Any, x: list[float], curve: list[Errors], mechanism: str) -> None:
    """Means with bars of two standard errors."""
    y, bars = [errors.mean for errors in curve], [2.0 * errors.standard_error for errors in curve]
    axes.errorbar(x, y, yerr=bars, color=COLOURS[mechanism], marker=MARKS[mechanism], markersize=4, linewidth=1.2,
                  elinewidth=0.8, capsize=1.5)  # fmt: skip


def _limit(axes: Any, found: FedSgd, name: str, model: str) -> None:
    """Laplace's errors would flatten all others: what does not fit is said in the corner."""
    others = [errors.mean for m in MECHANISM_NAMES if m != "laplace" for errors in found.curve(name, model, m).values()]
    laplace = found.curve(name, model, "laplace")
    top = 1.6 * max(others)
    beyond = [f"{errors.mean:.3g} at ε {epsilon:g}" for epsilon, errors in laplace.items() if errors.mean > top]
    if beyond:
        axes.set_ylim(0.85 * min(*others, found.runs[name, model][Setting(NONE)].mean), top)
        axes.text(0.98, 0.92, "Laplace: " + ", ".join(beyond), transform=axes.transAxes, ha="right", va="top",
                  fontsize=8, color="#222222", backgroundcolor="white", zorder=5)  # fmt: skip


def _panels(found: FedSgd, model: str) -> tuple[Any, Any]:
    from matplotlib.figure import Figure

    names = PANELS[model]
    figure = Figure(figsize=(4.1 * len(names) + 0.6, 5.4), layout="constrained")
    grid = figure.subplots(1, len(names), squeeze=False)[0]
    for axes, name in zip(grid, names, strict=True):
        used = found.panel(name, model)
        axes.set_title(f"{used.title}, d = {used.dimension}", loc="left", fontsize=9.5)
        if not used.real:
            mark_made_up(axes)
        axes.spines[["top", "right"]].set_visible(False)
    grid[0].set_ylabel(f"{get_model(model).error_name}" + (" (target in [-1, 1])" if model == "linear" else ""))
    return figure, grid


def _finish(figure: Any, title: str, note: str, names: tuple[str, ...], plain: bool) -> None:
    from matplotlib.lines import Line2D

    handles = [
        Line2D([], [], color=COLOURS[n], marker=MARKS[n], markersize=5, linewidth=1.2, label=LABELS[n]) for n in names
    ]
    if plain:
        handles.append(Line2D([], [], color="#888888", linestyle=":", linewidth=1.0, label="without noise"))
    figure.suptitle(f"{title}\n \n ", x=0.01, ha="left", fontsize=12)  # the empty lines leave room for the note
    figure.text(0.01, 0.935, note, fontsize=8.5, color="#555555", va="top")
    figure.legend(handles=handles, loc="outside lower center", ncols=min(len(handles), 10), frameon=False, fontsize=8.5)


def _runs(found: FedSgd, names: tuple[str, ...]) -> str:
    devices = "Each row is a device that reports one gradient, once."
    laplace = f" Laplace on the tables of 90 numbers and more: 1 x {found.folds} folds." if "laplace" in names else ""
    runs = f"{found.repetitions} x {found.folds} folds; bars: two standard errors; groups of 1,000."
    return f"{devices} {runs}\n{MISSING}{laplace}"


def _name(model: str) -> str:
    return {"logistic": "Logistic regression", "linear": "Linear regression", "hinge": "Support vector machine"}[model]


def _headline(found: FedSgd, model: str) -> str:
    """What the figure shows, from its own numbers: Laplace's distance, and whether the others can be told apart."""
    worse = []
    for name in PANELS[model]:
        laplace = found.curve(name, model, "laplace")[EPSILONS[0]].mean
        others = [found.curve(name, model, m)[EPSILONS[0]].mean for m in MECHANISM_NAMES if m != "laplace"]
        worse.append(laplace / max(others))
    if min(worse) > 1.0:
        said = f"at ε = 0.5 Laplace errs {min(worse):.2g} to {max(worse):.2g} times as much as the worst of the others"
    else:
        said = "the tables differ in whether Laplace is worst at ε = 0.5"
    return f"{_name(model)}: {said}"


def _levels_headline(found: FedSgd, model: str, levels: int) -> str:
    rows = [row for name, row in found.discretisation().items() if name.endswith(model)]
    mean = sum(row["mean gap in standard errors"] for row in rows) / len(rows)
    same = f"errs the same with {2 * levels + 1:,} outputs (filled) as with all of them (hollow)"
    return f"{_name(model)} {same}: {mean:+.1f} standard errors on average"


def _outputs_headline(found: FedSgd, model: str) -> str:
    """Three outputs against 2,001, averaged over tables and mechanisms."""
    ratios = []
    for name in PANELS[model]:
        for mechanism, curve in found.outputs(name, model).items():
            if mechanism != "three-outputs":
                ratios.append(curve[3].mean / curve[2 * LEVELS + 1].mean)
    return (
        f"3 outputs instead of {2 * LEVELS + 1:,} change the error by {sum(ratios) / len(ratios) - 1:+.1%} on average"
    )
