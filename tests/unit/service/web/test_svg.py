"""Charts without scripts: where points lie on the paper follows from their values alone."""

from __future__ import annotations

import re

import pytest

from noisebank.service.web.svg import draw_heat_map, draw_lines

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
