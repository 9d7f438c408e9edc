"""Figures 3 to 8 of Chained-DP, and who is protected from whom, as charts that state what they show. PNG and SVG."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from noisebank.federated.relay import collusion
from research.chained_dp.recomputed import DIMENSIONS, GROUPS, KINDS, RANGES, SIZES, SPLIT_USERS, Chained, chained

Progress = Callable[[int, int], None]
LABELS = {"LDP": "everyone alone (LDP)", "Chained": "relay (Chained-DP)", "Central": "central optimum"}
COLOURS = {"LDP": "#D55E00", "Chained": "#0072B2", "Central": "#009E73"}
MARKS = {"LDP": "s", "Chained": "o", "Central": "^"}
GREY, INK = "#777777", "#222222"
"""Of helping lines, and of words: no line has the words' colour."""


def draw_charts(
    folder: Path,
    quick: bool = False,
    progress: Progress = lambda done, total: None,
    found: Chained | None = None,
    kinds: tuple[str, ...] = ("png", "svg"),
) -> list[Path]:
    """All charts into `folder` (made if need be); returns the files written."""
    folder.mkdir(parents=True, exist_ok=True)
    made = found or chained(quick)
    steps: list[tuple[str, Callable[[Chained], Any]]] = [
        ("chained_figure_3_budgets", budgets),
        ("chained_figure_4_error_by_range", error_by_range),
        ("chained_figure_5_cost_by_range", cost_by_range),
        ("chained_figure_6_split", split),
        ("chained_figure_7_error_by_users", error_by_users),
        ("chained_figure_8_thresholds", thresholds),
        ("chained_trust", trust),
    ]
    written = []
    for done, (name, draw) in enumerate(steps):
        progress(done, len(steps))
        figure = draw(made)
        for kind in kinds:
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


def _style(kind: str) -> dict[str, Any]:
    return {"color": COLOURS[kind], "marker": MARKS[kind], "markersize": 5, "linewidth": 1.8, "label": LABELS[kind]}


def budgets(made: Chained) -> Any:
    """Figure 3: the paper's epsilon, and the one that holds."""
    figure = _figure(11, 4.8)
    left, right = figure.subplots(1, 2, sharey=True)
    for kind in KINDS:
        rows = [made.budgets[d][kind] for d in DIMENSIONS]
        errors = [row["mse of the vector"] for row in rows]
        left.plot([row["paper's sensitivity"] for row in rows], errors, **_style(kind))
        right.plot([row["epsilon"] for row in rows], errors, **_style(kind))
    honest, printed = (made.budgets[50]["Chained"][name] for name in ("epsilon", "paper's sensitivity"))
    figure.suptitle(
        f"At d = 50 the relay's epsilon is {honest:.0f}, not {printed:.0f}: these preferences protect nobody",
        x=0.01, ha="left",
    )  # fmt: skip
    _axes(
        left,
        "as the paper counts (sensitivity √d)",
        "epsilon of one vector, δ = 1e-5",
        "squared error of the mean vector",
    )
    _axes(right, "whole vector, sensitivity 2√d, exact", "epsilon of one vector, δ = 1e-5", "")
    for axes in (left, right):
        axes.set_ylim(0)
        axes.set_xlim(0)
    marks = f"marks: d = {', '.join(map(str, DIMENSIONS))},\nat the mean noise of each scheme, K = 10"
    right.text(0.03, 0.97, marks, fontsize=9, color=INK, va="top", transform=right.transAxes)
    left.legend(frameon=False)
    return figure


def error_by_range(made: Chained) -> Any:
    """Figure 4."""
    ratio = made.ranges[1.3]["mse"]["LDP"] / made.ranges[1.3]["mse"]["Chained"]
    title = f"Ten users: the relay's error is {ratio:.1f} times smaller than LDP's for the same preferences"
    return _by_range(made, "mse", title, "mean squared error of a coordinate")


def cost_by_range(made: Chained) -> Any:
    """Figure 5."""
    row = made.ranges[1.3]["cost"]
    more, times = row["Chained"] / row["Central"] - 1, row["LDP"] / row["Central"]
    title = f"Selfish users in a relay pay {more:.0%} more than the optimum, alone {times:.1f} times as much"
    return _by_range(made, "cost", title, "average cost of a user")


def _by_range(made: Chained, name: str, title: str, label: str) -> Any:
    figure = _figure()
    axes = _axes(figure.subplots(), title, "preferences are uniform on [0, this]", label)
    for kind in KINDS:
        axes.plot(RANGES, [made.ranges[top][name][kind] for top in RANGES], **_style(kind))
    axes.set_xlim(0)
    axes.set_ylim(0)
    axes.legend(frameon=False)
    return figure


def split(made: Chained) -> Any:
    """Figure 6."""
    figure = _figure()
    gain = max(made.split[groups]["random"]["ours"] / made.split[groups]["sorted"]["ours"] for groups in GROUPS)
    title = f"{SPLIT_USERS} users in groups: sorting by preference saves up to {1 - 1 / gain:.0%} of the error"
    axes = _axes(figure.subplots(), title, "number of relays", "mean squared error of a coordinate")
    looks = {"random": ("#CC79A7", "D", "split at random"), "sorted": ("#0072B2", "o", "split by preference"),
             "LDP": (COLOURS["LDP"], "s", LABELS["LDP"])}  # fmt: skip
    for name, (colour, mark, label) in looks.items():
        values = [made.split[groups][name]["ours"] for groups in GROUPS]
        axes.loglog(GROUPS, values, color=colour, marker=mark, markersize=5, linewidth=1.8, label=label)
    _plain_ticks(axes, GROUPS)
    axes.legend(frameon=False)
    return figure


def error_by_users(made: Chained) -> Any:
    """Figure 7, with logarithmic axes: on linear ones both curves seem to meet."""
    figure = _figure()
    ratio = made.errors[100]["LDP"]["ours"] / made.errors[100]["Chained"]["ours"]
    title = f"The relay's advantage grows with the number of users: {ratio:.0f} times at K = 100"
    axes = _axes(figure.subplots(), title, "number of users K", "mean squared error of a coordinate")
    for kind in KINDS:
        axes.loglog(SIZES, [made.errors[users][kind]["ours"] for users in SIZES], **_style(kind))
    note = 'The paper reads off linear axes that\nthe methods "tend to be consistent".'
    axes.text(3, axes.get_ylim()[0] * 1.5, note, fontsize=9, color=INK)
    _plain_ticks(axes, SIZES)
    axes.legend(frameon=False)
    return figure


def thresholds(made: Chained) -> Any:
    """Figure 8, with the attackers that the paper leaves out or gets wrong."""
    figure = _figure()
    title = "How rare colluders must be, for a slice to be exposed with chance 1/K² at most"
    axes = _axes(figure.subplots(), title, "number of users K", "largest probability that a member colludes")
    looks = {"weak": ("#0072B2", "o", "both neighbours collude (eq. 33)"),
             "strong": ("#D55E00", "s", "one before and one after (eq. 32, corrected)"),
             "published": ("#000000", "^", "one before, and the sum is known")}  # fmt: skip
    for name, (colour, mark, label) in looks.items():
        values = [made.thresholds[users][name]["ours"] for users in SIZES]
        axes.loglog(SIZES, values, color=colour, marker=mark, markersize=5, linewidth=1.8, label=label)
    printed = collusion.printed_strong_chance(10, 0.1)
    axes.text(
        3,
        1.2e-6,
        f"Eq. 32 as printed has no threshold: at K = 10, p = .1 it gives {printed:.2f}.",
        fontsize=9,
        color=INK,
    )
    axes.set_ylim(8e-7)
    _plain_ticks(axes, SIZES)
    axes.legend(frameon=False)
    return figure


def trust(made: Chained) -> Any:
    """What each coalition learns, for noise sized to the same goal."""
    figure = _figure(11, 6.4)
    goal = made.repairs["goal epsilon"]
    schemes = [name for name, row in made.repairs.items() if isinstance(row, dict)]
    coalitions = [
        name for name in made.repairs[schemes[0]]["epsilon"] if "server" in name or name.startswith(("one", "2"))
    ]
    title = "A relay promises nothing once two talk; masked noise holds for as many colluders as it was sized for"
    axes = _axes(
        figure.subplots(), title, f"epsilon of a whole vector (K = 10, d = 50, δ = 1e-5, sized for {goal})", ""
    )
    colours = ("#D55E00", "#E69F00", "#56B4E9", "#0072B2", "#999999")
    height = 0.16
    for place, (scheme, colour) in enumerate(zip(schemes, colours, strict=True)):
        row = made.repairs[scheme]
        where = [number + (place - 2) * height for number in range(len(coalitions))]
        known = [row["epsilon"][name] for name in coalitions]
        axes.barh(where, [20.0 if value is None else max(value, 0.06) for value in known], height * 0.9, color=colour,
                  label=f"{scheme}: squared error {row['mse']:.3g}")  # fmt: skip
        for y, value in zip(where, known, strict=True):
            if value is None:
                axes.text(19.8, y, "the vector itself", fontsize=7, color="white", ha="right", va="center_baseline")
    axes.axvline(goal, color=GREY, linewidth=0.8, linestyle=":")
    axes.set_yticks(range(len(coalitions)), coalitions)
    axes.invert_yaxis()
    axes.set_xlim(0, 20)
    figure.legend(loc="outside lower center", ncols=3, frameon=False, fontsize=9)
    return figure


def _plain_ticks(axes: Any, values: tuple[int, ...]) -> None:
    from matplotlib.ticker import NullLocator

    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xticks(values, [str(value) for value in values])
