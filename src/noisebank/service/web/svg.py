"""Draws gauges, bars, curves and heat maps as SVG, for the templates (`draw`).

No script and no inline style: classes get their colours from the style sheet. Every picture has a title that says in
words what it shows, and stands beside a table with the same numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import exp, floor, isfinite, log10

from markupsafe import Markup, escape

from noisebank.core.estimates import Estimate
from noisebank.core.rendering import digits_error, format_confidence
from noisebank.service.web.formatting import format_number

MAX_HEAT_SIDE = 40
"""Rows or columns of a heat map; finer ones are merged, the fullest cell of each square counts."""


def draw_gauge(used: float, total: float, title: str) -> Markup:
    """Draw how much of something is used: the fuller, the worse."""
    share = min(1.0, max(0.0, used / total)) if total else 0.0
    level = "full" if share > 0.9 else "high" if share > 0.7 else "calm"
    return _draw_meter(level, title, max(share * 400, 2.0 if share else 0.0))


def draw_progress(done: float, total: float, title: str) -> Markup:
    """Draw how far something has come: the fuller, the better."""
    share = min(1.0, max(0.0, done / total)) if total else 0.0
    return _draw_meter("done" if share == 1.0 else "calm", title, share * 400)


def _draw_meter(level: str, title: str, width: float) -> Markup:
    return Markup(
        '<svg class="gauge {}" viewBox="0 0 400 20" preserveAspectRatio="none" role="img" aria-label="{}">'
        '<rect class="track" width="400" height="20" rx="4"/><rect class="used" width="{}" height="20" rx="4"/></svg>'
    ).format(level, title, f"{width:.1f}")


def draw_interval(estimate: Estimate, confidence: float) -> Markup:
    """Draw where the true value may lie: the interval, and the noise as a bell where it is Gaussian."""
    value, low, high, stddev = estimate.value, estimate.low, estimate.high, estimate.stddev
    if value is None or low is None or high is None or high <= low:
        return Markup("")
    spread, digits = stddev or (high - low) / 4, digits_error(estimate)
    left, right = min(low, value) - spread, max(high, value) + spread
    left, right = (min(left, value - 3.2 * spread), max(right, value + 3.2 * spread)) if stddev else (left, right)
    width, base, top = 640.0, 96.0, 12.0

    def x_of(point: float) -> float:
        return 12 + (point - left) / (right - left) * (width - 24)

    def bell_points(start: float, stop: float) -> str:
        points = [start + (stop - start) * step / 60 for step in range(61)]
        return " ".join(
            f"{x_of(x):.1f},{base - (base - top) * exp(-0.5 * ((x - value) / spread) ** 2):.1f}" for x in points
        )

    ends = f"{format_number(low, digits)} and {format_number(high, digits)}"
    title = f"The true value lies between {ends} with {format_confidence(confidence)} confidence"
    parts = [f'<svg class="interval" viewBox="0 0 {width:.0f} 132" role="img" aria-label="{escape(title)}">']
    if stddev:
        shade = f"{x_of(low):.1f},{base} {bell_points(low, high)} {x_of(high):.1f},{base}"
        bell = f'<polyline class="bell" points="{bell_points(left, right)}"/>'
        parts.append(f'<polygon class="likely" points="{shade}"/>{bell}')
    else:
        box = f'x="{x_of(low):.1f}" y="{base - 30}" width="{x_of(high) - x_of(low):.1f}" height="30"'
        parts.append(f'<rect class="likely" {box}/>')
    parts += [
        f'<line class="axis" x1="12" x2="{width - 12}" y1="{base}" y2="{base}"/>',
        f'<line class="answer" x1="{x_of(value):.1f}" x2="{x_of(value):.1f}" y1="{top}" y2="{base}"/>',
    ]
    for tick in round_ticks(left, right, 6):
        parts.append(f'<line class="axis" x1="{x_of(tick):.1f}" x2="{x_of(tick):.1f}" y1="{base}" y2="{base + 5}"/>')
        label = format_number(tick)
        parts.append(f'<text class="tick" x="{x_of(tick):.1f}" y="{base + 20}" text-anchor="middle">{label}</text>')
    parts.append(f'<line class="span" x1="{x_of(low):.1f}" x2="{x_of(high):.1f}" y1="{base}" y2="{base}"/>')
    return Markup("".join(parts) + "</svg>")


def draw_lines(
    curves: Sequence[tuple[str, Sequence[float]]], max_x: float, limit: float | None, title: str,
    band: tuple[str, Sequence[float], Sequence[float]] | None = None,
) -> Markup:  # fmt: skip
    """Draw curves over the number of answers: what browsers without scripts show instead of the interactive chart.

    `band` is filled between two of them.
    """
    width, height, left, foot = 640.0, 240.0, 54.0, 26.0
    most = max([value for _, values in curves for value in values], default=0.0)
    limit = None if limit is None or limit > 4 * most > 0 else limit  # far above: it would flatten the curves
    top = max(limit or 0.0, most) * 1.06 or 1.0

    def y_of(value: float) -> float:
        return (height - foot) - value / top * (height - foot - 8)

    parts = [f'<svg class="lines" viewBox="0 0 {width:.0f} {height:.0f}" role="img" aria-label="{escape(title)}">']
    for tick in round_ticks(0.0, top, 5):
        parts.append(f'<line class="grid" x1="{left}" x2="{width}" y1="{y_of(tick):.1f}" y2="{y_of(tick):.1f}"/>')
        parts.append(f'<text class="tick" x="{left - 8}" y="{y_of(tick) + 4:.1f}" text-anchor="end">{tick:.3g}</text>')
    for tick in round_ticks(0.0, max_x, 6):
        x = left + tick / (max_x or 1.0) * (width - left - 10)
        parts.append(
            f'<text class="tick" x="{x:.1f}" y="{height - 8}" text-anchor="middle">{format_number(tick)}</text>'
        )
    if limit is not None:
        parts.append(f'<line class="limit" x1="{left}" x2="{width}" y1="{y_of(limit):.1f}" y2="{y_of(limit):.1f}"/>')

    def points_of(values: Sequence[float]) -> list[str]:
        count = max(1, len(values) - 1)
        return [
            f"{left + index / count * (width - left - 10):.1f},{y_of(value):.1f}" for index, value in enumerate(values)
        ]

    if band is not None:
        name, floor_values, top_values = band
        outline = " ".join([*points_of(floor_values), *reversed(points_of(top_values))])
        parts.append(f'<polygon class="band {escape(name)}" points="{outline}"/>')
    for name, values in curves:
        parts.append(f'<polyline class="line {escape(name)}" points="{" ".join(points_of(values))}"/>')
    return Markup("".join(parts) + "</svg>")


def draw_heat_map(
    rows: Sequence[str], columns: Sequence[str], values: Sequence[Sequence[float]], limit: float, title: str
) -> Markup:
    """Draw cells with what was spent on each, the darker the more; 0 to `limit`."""
    cell, side, head = (34, 150, 74) if len(columns) <= 20 else (18, 150, 74)
    width, height = side + cell * len(columns) + 40, head + 26 * len(rows) + 4
    parts = [
        f'<svg class="heat" width="{width}" height="{height}" viewBox="0 0 {width} {height}" role="img" '
        f'aria-label="{escape(title)}">'
    ]
    for index, name in enumerate(columns):
        x = side + index * cell + cell / 2
        text = escape(name if len(name) <= 12 else name[:11] + "…")
        parts.append(f'<text class="tick" transform="translate({x:.0f} {head - 6}) rotate(-40)">{text}</text>')
    for line, name in enumerate(rows):
        y = head + line * 26
        text = escape(name if len(name) <= 22 else name[:21] + "…")
        parts.append(f'<text class="label" x="{side - 8}" y="{y + 17}" text-anchor="end">{text}</text>')
        for index, value in enumerate(values[line]):
            level = 0 if value <= 0 or limit <= 0 else min(9, 1 + floor(value / limit * 8.999))
            x = side + index * cell
            parts.append(
                f'<rect class="heat-{level}" x="{x}" y="{y}" width="{cell - 2}" height="24" rx="3">'
                f"<title>{escape(name)}, {escape(columns[index])}: {value:.4g}</title></rect>"
            )
    return Markup("".join(parts) + "</svg>")


def round_ticks(low: float, high: float, count: int) -> list[float]:
    """Return about `count` round numbers between two ends.

    >>> round_ticks(0.0, 1.0, 5), round_ticks(-3.0, 12.0, 4)
    ([0.0, 0.2, 0.4, 0.6, 0.8, 1.0], [0.0, 5.0, 10.0])
    """
    if not isfinite(high - low) or high <= low:
        return []
    rough = (high - low) / count
    power = 10.0 ** floor(log10(rough))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= rough * 0.99)
    first, last = -floor(-low / step), floor(high / step + 1e-9)
    return [round(index * step, 12) for index in range(first, last + 1)]
