"""Draws the numbers of a result as SVG: bars with intervals for groups, a line with a band where the key is time.

The picture and the table beside it have the same numbers; an interval without bounds is drawn to both edges, dashed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup, escape

from noisebank.core.estimates import Row
from noisebank.core.rendering import NO_BOUND, format_confidence, is_time_series, row_label, time_labels
from noisebank.core.result import Result
from noisebank.service.web.formatting import format_number
from noisebank.service.web.svg import round_ticks

MAX_BARS = 60
MAX_TIME_LABELS = 6


@dataclass(frozen=True, slots=True)
class Bar:
    """One row's number. An end is None if nothing bounds it."""

    label: str
    value: float
    low: float | None
    high: float | None

    @property
    def known_low(self) -> float:
        """The lower end, or the value itself."""
        return self.value if self.low is None else self.low

    @property
    def known_high(self) -> float:
        """The upper end, or the value itself."""
        return self.value if self.high is None else self.high

    @property
    def error(self) -> float | None:
        """What decides how many digits are shown."""
        return (self.known_high - self.known_low) / 4 or None

    def describe(self, level: str) -> str:
        """Returns the number with its interval, in words."""
        ends = [NO_BOUND if end is None else format_number(end, self.error) for end in (self.low, self.high)]
        text = f"{self.label}: {format_number(self.value, self.error)}"
        return f"{text}, {NO_BOUND}" if ends == [NO_BOUND] * 2 else f"{text}, {level} between {ends[0]} and {ends[1]}"


def draw_groups(result: Result, item: str) -> Markup:
    """Draw one item by groups: a line over time, or bars."""
    bars = [bar for row in result.rows if (bar := _make_bar(row, item)) is not None]
    if not bars:
        return Markup("")
    return _draw_line(result, item, bars) if is_time_series(result) else _draw_bars(result, item, bars)


def _make_bar(row: Row, item: str) -> Bar | None:
    estimate = row[item]
    if estimate.value is None:
        return None
    return Bar(row_label(row), estimate.value, estimate.low, estimate.high)


def _draw_bars(result: Result, item: str, bars: Sequence[Bar]) -> Markup:
    """Draw one bar per group with its interval; the largest `MAX_BARS` if there are more."""
    level = format_confidence(result.confidence)
    title = f"{item} by {', '.join(result.by)}, with {level} intervals; the table has the same numbers"
    largest = sorted(range(len(bars)), key=lambda index: -bars[index].value)[:MAX_BARS]
    drawn = [bars[index] for index in sorted(largest)]
    low, high = min(0.0, *(bar.known_low for bar in drawn)), max(0.0, *(bar.known_high for bar in drawn))
    high = high if high > low else low + 1.0
    row, side, width = 26, 150.0, 640.0
    scale = (width - side - 16) / (high - low)

    def x_of(point: float) -> float:
        return side + (point - low) * scale

    height = row * len(drawn) + 28
    parts = [f'<svg class="bars" viewBox="0 0 {width:.0f} {height}" role="img" aria-label="{escape(title)}">']
    for tick in round_ticks(low, high, 6):
        parts.append(f'<line class="grid" x1="{x_of(tick):.1f}" x2="{x_of(tick):.1f}" y1="0" y2="{height - 24}"/>')
        label = format_number(tick)
        room = 4.5 * len(label)  # half of it; at the edge it would be cut off
        x = max(room, min(width - room, x_of(tick)))
        parts.append(f'<text class="tick" x="{x:.1f}" y="{height - 8}" text-anchor="middle">{label}</text>')
    for line, bar in enumerate(drawn):
        middle = line * row + row / 2
        start, stop = sorted((x_of(0.0), x_of(bar.value)))
        name = bar.label if len(bar.label) <= 22 else bar.label[:21] + "…"
        parts.append(
            f"<g><title>{escape(bar.describe(level))}</title>"
            f'<text class="label" x="{side - 10}" y="{middle + 5:.1f}" text-anchor="end">{escape(name)}</text>'
            f'<rect class="bar" x="{start:.1f}" y="{middle - 8:.1f}" width="{max(stop - start, 0.5):.1f}" height="16"/>'
        )
        if bar.low is None or bar.high is None:
            parts.append(f'<path class="error open" d="M{x_of(low):.1f} {middle:.1f}H{x_of(high):.1f}"/></g>')
        else:
            least, most = f"{x_of(bar.low):.1f}", f"{x_of(bar.high):.1f}"
            parts.append(f'<path class="error" d="M{least} {middle - 5:.1f}v10m0-5H{most}m0-5v10"/></g>')
    parts.append(f'<line class="axis" x1="{x_of(0.0):.1f}" x2="{x_of(0.0):.1f}" y1="0" y2="{height - 24}"/>')
    return Markup("".join(parts) + "</svg>")


def _draw_line(result: Result, item: str, bars: Sequence[Bar]) -> Markup:
    """Draw a line through the numbers, with the band of their intervals."""
    level = format_confidence(result.confidence)
    title = f"{item} over {result.by[0]}, with the band of the {level} intervals; the table has the same numbers"
    low, high = min(bar.known_low for bar in bars), max(bar.known_high for bar in bars)
    low, high = min(low, 0.0) if low < 0.3 * high else low, high if high > low else low + 1.0
    width, height, left, foot = 640.0, 240.0, 64.0, 26.0

    def x_of(index: int) -> float:
        return left + 8 + index / max(1, len(bars) - 1) * (width - left - 24)

    def y_of(value: float) -> float:
        return (height - foot) - (value - low) / (high - low) * (height - foot - 12)

    def points_of(values: Sequence[float]) -> list[str]:
        return [f"{x_of(index):.1f},{y_of(value):.1f}" for index, value in enumerate(values)]

    parts = [
        f'<svg class="lines trend" viewBox="0 0 {width:.0f} {height:.0f}" role="img" aria-label="{escape(title)}">'
    ]
    for tick in round_ticks(low, high, 5):
        parts.append(f'<line class="grid" x1="{left}" x2="{width}" y1="{y_of(tick):.1f}" y2="{y_of(tick):.1f}"/>')
        label = format_number(tick)
        parts.append(f'<text class="tick" x="{left - 8}" y="{y_of(tick) + 4:.1f}" text-anchor="end">{label}</text>')
    labels = [text for text, row in zip(time_labels(result), result.rows, strict=True) if row[item].value is not None]
    step = -(-len(bars) // MAX_TIME_LABELS)
    for place, index in enumerate(range(0, len(bars), step)):
        kind = "tick spare" if place % 2 else "tick"  # narrow screens have room for every second one
        x, text = x_of(index), escape(labels[index])
        parts.append(f'<text class="{kind}" x="{x:.1f}" y="{height - 6}" text-anchor="middle">{text}</text>')
    outline = [*points_of([bar.known_low for bar in bars]), *reversed(points_of([bar.known_high for bar in bars]))]
    parts.append(f'<polygon class="band likely" points="{" ".join(outline)}"/>')
    parts.append(f'<polyline class="line trend" points="{" ".join(points_of([bar.value for bar in bars]))}"/>')
    for index, bar in enumerate(bars):
        point = f'<circle class="point" cx="{x_of(index):.1f}" cy="{y_of(bar.value):.1f}" r="3"/>'
        parts.append(f"<g><title>{escape(bar.describe(level))}</title>{point}</g>")
    return Markup("".join(parts) + "</svg>")
