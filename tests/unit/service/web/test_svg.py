"""Charts without scripts: where points lie on the paper follows from their values alone."""

from __future__ import annotations

import re

import pytest

from noisebank.core.estimates import make_estimate
from noisebank.service.web.svg import draw_gauge, draw_heat_map, draw_interval, draw_lines, draw_progress, round_ticks

TOP, BOTTOM, LEFT, RIGHT = 8.0, 214.0, 54.0, 630.0
"""The corners in which curves are drawn, of 640 x 240."""


def read_points(drawing: str) -> list[list[tuple[float, float]]]:
    """The points of each curve."""
    curves = re.findall(r'<polyline class="[^"]*" points="([^"]*)"', drawing)
    return [[(float(x), float(y)) for x, y in (point.split(",") for point in curve.split())] for curve in curves]


@pytest.mark.parametrize("largest", [0.5, 4.0, 300.0])
def test_curves_go_from_corner_to_corner_and_leave_a_little_room_above(largest: float) -> None:
    (points,) = read_points(draw_lines([("spent", [0.0, largest / 2, largest])], 2, None, "spending"))
    highest = BOTTOM - (BOTTOM - TOP) / 1.06
    expected = [(LEFT, BOTTOM), ((LEFT + RIGHT) / 2, (BOTTOM + highest) / 2), (RIGHT, highest)]
    assert points == [pytest.approx(point, abs=0.051) for point in expected]


@pytest.mark.parametrize(("limit", "drawn"), [(2.0, True), (4.0, True), (4.1, False), (None, False)])
def test_a_limit_is_drawn_unless_it_would_flatten_the_curve(limit: float | None, drawn: bool) -> None:
    drawing = draw_lines([("spent", [0.0, 1.0])], 1, limit, "spending")
    heights = re.findall(r'<line class="limit" x1="54.0" x2="640.0" y1="([\d.]+)" y2="([\d.]+)"', drawing)
    height = f"{BOTTOM - (BOTTOM - TOP) / 1.06:.1f}"
    assert heights == ([(height, height)] if drawn else [])


def test_nothing_spent_is_a_line_at_the_bottom() -> None:
    assert read_points(draw_lines([("spent", [0.0]), ("more", [0.0, 0.0])], 0, None, "x")) == [
        [(LEFT, BOTTOM)], [(LEFT, BOTTOM), (RIGHT, BOTTOM)],
    ]  # fmt: skip


def test_cells_of_a_heat_map_are_named_and_darker_the_more_was_spent() -> None:
    long = "a column of many letters"
    drawing = draw_heat_map(["north", "south"], ["x", long], [[0.0, 0.5], [1.0, 2.0]], 1.0, "cells")
    cells = re.findall(r'<rect class="heat-(\d)" x="(\d+)" y="(\d+)"[^>]*><title>([^<]*)</title>', drawing)
    assert cells == [
        ("0", "150", "74", "north, x: 0"), ("5", "184", "74", f"north, {long}: 0.5"),
        ("9", "150", "100", "south, x: 1"), ("9", "184", "100", f"south, {long}: 2"),
    ]  # fmt: skip
    assert re.findall(r'<text class="label" [^>]*>([^<]*)<', drawing) == ["north", "south"]
    assert re.findall(r'<text class="tick" [^>]*>([^<]*)<', drawing) == ["x", "a column of…"]
    assert 'width="258" height="130"' in drawing
    assert 'class="heat-0"' in draw_heat_map(["r"], ["c"], [[1.0]], 0.0, "no limit") and "heat-9" in drawing


def read_meter(drawing: str) -> tuple[str, float]:
    """The class, and how long the bar is, of 400."""
    (level,) = re.findall(r'<svg class="gauge (\w+)" viewBox="0 0 400 20"', drawing)
    (width,) = re.findall(r'<rect class="used" width="([\d.]+)"', drawing)
    return level, float(width)


@pytest.mark.parametrize(
    ("used", "level", "width"),
    [
        (0.0, "calm", 0.0), (0.001, "calm", 2.0), (0.5, "calm", 200.0), (0.7, "calm", 280.0), (0.71, "high", 284.0),
        (0.9, "high", 360.0), (0.91, "full", 364.0), (1.0, "full", 400.0), (1.5, "full", 400.0), (-1.0, "calm", 0.0),
    ],
)  # fmt: skip
def test_a_gauge_is_as_long_as_what_is_used_and_warns_when_it_is_nearly_all(used, level, width) -> None:
    assert read_meter(draw_gauge(3 * used, 3.0, "t")) == (level, width)


@pytest.mark.parametrize(("done", "level", "width"), [(0, "calm", 0.0), (1, "calm", 100.0), (4, "done", 400.0)])
def test_progress_is_done_at_its_end_only(done, level, width) -> None:
    assert read_meter(draw_progress(done, 4, "t")) == (level, width)
    assert read_meter(draw_progress(9, 4, "t")) == ("done", 400.0) and read_meter(draw_progress(1, 0, "t"))[1] == 0.0


def test_titles_are_escaped() -> None:
    for drawing in (draw_gauge(1, 2, '"<b>'), draw_progress(1, 2, '"<b>'), draw_lines([], 1, None, '"<b>')):
        assert '"<b>' not in drawing and "&#34;&lt;b&gt;" in drawing


def read_ends(drawing: str, name: str) -> tuple[float, float]:
    (ends,) = re.findall(rf'<line class="{name}" x1="([\d.]+)" x2="([\d.]+)"', drawing)
    return float(ends[0]), float(ends[1])


def test_an_interval_is_drawn_to_scale_around_the_answer() -> None:
    drawing = draw_interval(make_estimate(100.0, 80.4, 119.6, 10.0), 0.95)
    (low, high), (middle, _) = read_ends(drawing, "span"), read_ends(drawing, "answer")
    assert middle == 320.0 and (low, high) == pytest.approx((320 - 1.96 * 96.25, 320 + 1.96 * 96.25), abs=0.06)
    (bell,) = re.findall(r'<polyline class="bell" points="([^"]*)"', drawing)
    heights = [float(point.split(",")[1]) for point in bell.split()]
    assert min(heights) == heights[30] == 12.0 and heights[0] == heights[-1] == pytest.approx(96.0, abs=0.6)
    assert "with 95% confidence" in drawing
    skewed = draw_interval(make_estimate(5.0, 4.0, 8.0), 0.9)
    (low, high), (middle, _) = read_ends(skewed, "span"), read_ends(skewed, "answer")
    assert middle - low == pytest.approx((high - low) / 4, abs=0.1) and 'class="bell"' not in skewed
    assert draw_interval(make_estimate(5.0, float("-inf"), 8.0), 0.9) == ""


@pytest.mark.parametrize(
    ("low", "high", "count", "ticks"),
    [
        (0.0, 10.0, 5, [0, 2, 4, 6, 8, 10]), (0.0, 9.9, 5, [0, 2, 4, 6, 8]), (-1.0, 1.0, 4, [-1, -0.5, 0, 0.5, 1]),
        (0.0, 0.03, 3, [0, 0.01, 0.02, 0.03]), (1.0, 1.0, 3, []), (2.0, 1.0, 3, []), (0.0, float("inf"), 3, []),
        (0.0, 7_000.0, 5, [0, 2_000, 4_000, 6_000]), (95.0, 306.0, 4, [100, 200, 300]),
    ],
)  # fmt: skip
def test_ticks_are_round_and_inside(low: float, high: float, count: int, ticks: list[float]) -> None:
    assert round_ticks(low, high, count) == ticks


def test_a_band_is_filled_from_its_floor_to_its_top_and_back() -> None:
    drawing = draw_lines([("spent", [0.0, 2.0])], 1, None, "x", ("between", [0.0, 1.0], [0.0, 2.0]))
    (outline,) = re.findall(r'<polygon class="band between" points="([^"]*)"', drawing)
    points = [tuple(map(float, point.split(","))) for point in outline.split()]
    highest = BOTTOM - (BOTTOM - TOP) / 1.06
    expected = [(LEFT, BOTTOM), (RIGHT, (BOTTOM + highest) / 2), (RIGHT, highest), (LEFT, BOTTOM)]
    assert points == [pytest.approx(point, abs=0.051) for point in expected]
