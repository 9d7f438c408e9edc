"""Draws a result with matplotlib, which is imported when first needed: bars with intervals, or a bell."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from math import exp
from textwrap import wrap
from typing import TYPE_CHECKING

from noisebank.core.errors import BadRequest
from noisebank.core.rendering import NO_BOUND, format_confidence, is_time_series, row_label, time_labels

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from noisebank.core.estimates import Estimate
    from noisebank.core.result import Result

MAX_BARS = 60
MAX_LABEL_CHARACTERS = 48
"""Of all labels below a line together: more would overlap."""
BLUE, GREY = "#0072B2", "#444444"
TITLE_CHARACTERS, TITLE_LINES = 13, 3
"""Of the question above a figure: characters per inch."""
BAR_HEIGHT = 0.32
"""Of one group, in inches."""


def plot_result(result: Result) -> Figure:
    """Draws one panel per item: bars with intervals for groups; for one number a bell where its noise is Gaussian, else
    its interval alone. The numbers are those of the table."""
    try:
        figure_module = import_module("matplotlib.figure")
    except ImportError:
        raise BadRequest("output", "matplotlib", "is not installed: pip install matplotlib") from None
    if not result.rows:
        raise BadRequest("output", "plot", "this result has no rows")
    with import_module("matplotlib").rc_context({"text.parse_math": False}):  # a dollar in a key is no formula
        return _draw_result(result, figure_module.Figure)


def _draw_result(result: Result, make_figure: Callable[..., Figure]) -> Figure:
    count = min(len(result.rows), MAX_BARS)
    height = 3.4 if is_time_series(result) else 1.4 + BAR_HEIGHT * count if result.by else 2.6
    panels = len(result.items)
    width = 6.4 * panels if panels > 1 else 7.2
    title = wrap(result.sql, int(width * TITLE_CHARACTERS), max_lines=TITLE_LINES, placeholder=" …")
    figure = make_figure(figsize=(width, height + 0.15 * len(title)), layout="constrained")
    axes = figure.subplots(1, panels, squeeze=False)[0]
    for name, panel in zip(result.items, axes, strict=True):
        if is_time_series(result):
            _draw_line(panel, result, name)
        elif result.by:
            _draw_bars(panel, result, name)
        else:
            _draw_number(panel, result.rows[0][name])
        label = f"{name}, with {format_confidence(result.confidence)} interval"
        (panel.set_ylabel if is_time_series(result) else panel.set_xlabel)(label)
        panel.spines[["top", "right"]].set_visible(False)
    figure.suptitle("\n".join(title), x=0.01, ha="left", fontsize=9)
    return figure


def _draw_bars(panel: Axes, result: Result, name: str) -> None:
    """Draws one bar per group in the result's order, the first at the top."""
    rows = result.rows[:MAX_BARS]
    for index, row in enumerate(rows):
        estimate = row[name]
        if estimate.value is not None:
            panel.barh(index, estimate.value, color=BLUE, alpha=0.55, height=0.7)
        if estimate.low is not None and estimate.high is not None:
            panel.plot([estimate.low, estimate.high], [index, index], color=GREY, linewidth=1.6)
            panel.plot([estimate.low, estimate.high], [index, index], "|", color=GREY, markersize=7)
        if estimate.value is not None and (estimate.low is None or estimate.high is None):
            panel.annotate(NO_BOUND, (estimate.value, index), color=GREY, va="center", fontsize=8)
    panel.set_yticks(range(len(rows)), [row_label(row) for row in rows])
    panel.invert_yaxis()
    panel.axvline(0, color=GREY, linewidth=0.8)
    if len(result.rows) > MAX_BARS:
        panel.set_title(f"the first {MAX_BARS} of {len(result.rows)} rows", fontsize=8, loc="right")


def _draw_line(panel: Axes, result: Result, name: str) -> None:
    """Draws a line over time with the band of the intervals; there is none where nothing bounds a number."""
    points = [(index, row[name]) for index, row in enumerate(result.rows) if row[name].value is not None]
    places = [index for index, _ in points]
    panel.plot(places, [estimate.value or 0.0 for _, estimate in points], color=BLUE, marker="o", markersize=3)
    bounded = [(index, each.low, each.high) for index, each in points if each.low is not None and each.high is not None]
    panel.fill_between(
        [index for index, _, _ in bounded], [low for _, low, _ in bounded], [high for _, _, high in bounded],
        color=BLUE, alpha=0.25, linewidth=0,
    )  # fmt: skip
    labels = time_labels(result)
    step = -(-len(labels) // max(2, MAX_LABEL_CHARACTERS // max(map(len, labels))))
    ticks = range(0, len(labels), step)
    panel.set_xticks(list(ticks), [labels[index] for index in ticks])


def _draw_number(panel: Axes, estimate: Estimate) -> None:
    panel.set_yticks([])
    panel.spines["left"].set_visible(False)
    low, high, value = estimate.low, estimate.high, estimate.value
    if value is None or low is None or high is None:
        panel.text(0.5, 0.5, "nothing can be said", ha="center", transform=panel.transAxes)
        return
    if estimate.stddev:
        _draw_bell(panel, value, estimate.stddev, low, high)
    else:  # no bell: the noise is not Gaussian, or there is none
        panel.plot([low, high], [0, 0], color=BLUE, linewidth=6, alpha=0.4, solid_capstyle="butt")
        panel.plot([value], [0], "o", color=BLUE)
        panel.set_ylim(-1, 1)
    label = estimate.label or f"{value:,.6g}"
    panel.annotate(label, (value, 0.05 if not estimate.stddev else 1.02), ha="center", va="bottom")


def _draw_bell(panel: Axes, value: float, stddev: float, low: float, high: float) -> None:
    def curve(left: float, right: float) -> tuple[list[float], list[float]]:
        points = [left + (right - left) * step / 120 for step in range(121)]
        return points, [exp(-0.5 * ((point - value) / stddev) ** 2) for point in points]

    width = max(3.2 * stddev, high - value)
    panel.plot(*curve(value - width, value + width), color=BLUE)
    panel.fill_between(*curve(low, high), color=BLUE, alpha=0.25)
    panel.plot([value, value], [0, 1], color=GREY, linewidth=1)
    panel.set_ylim(0, 1.25)
