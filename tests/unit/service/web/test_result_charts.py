"""Charts of results: bars and lines lie where their numbers say, and an interval without bounds says so."""

from __future__ import annotations

import re

import pytest

from noisebank.core.charges import Charge
from noisebank.core.estimates import Estimate, Row
from noisebank.core.records import Case
from noisebank.core.result import Result
from noisebank.core.units import Precision
from noisebank.service.web.result_charts import draw_groups


def read_bars(drawing: str) -> list[tuple[str, float, float, float]]:
    """Of each bar: its label, the height of its middle, start and width."""
    pattern = r'<text class="label" [^>]*>([^<]*)</text><rect class="bar" x="([\d.]+)" y="([\d.]+)" width="([\d.]+)"'
    return [(label, float(y) + 8, float(x), float(width)) for label, x, y, width in re.findall(pattern, drawing)]


def make_groups(*rows: tuple[tuple[str, ...], float | None, float | None, float | None]) -> Result:
    """A result by two keys: keys, value, low and high of each group."""
    charge = Charge(Case.FIRST, Precision(1), Precision(9), Precision(10), 1e-6)
    made = tuple(Row(keys, (Estimate(*numbers),), ("n",)) for keys, *numbers in rows)
    return Result("SELECT", ("k", "l", "n"), ("k", "l"), ("n",), made, charge, ())


def test_bars_start_at_zero_and_lie_below_each_other() -> None:
    groups = (
        (("a",), 100.0, 90.0, 158.0),
        (("b", "c"), -50.0, -50.0, -50.0),
        (("unknown",), None, None, None),
        (("a name of more than twenty-two letters",), 79.0, 0.0, 100.0),
    )
    scale = (640 - 150 - 16) / (158 + 50)
    zero = 150 + 50 * scale
    drawing = draw_groups(make_groups(*groups), "n")
    bars = read_bars(drawing)
    assert [label for label, *_ in bars] == ["a", "b / c", "a name of more than t…"]
    assert [numbers for _, *numbers in bars] == [
        pytest.approx(numbers, abs=0.051)
        for numbers in ([13, zero, 100 * scale], [39, 150, 50 * scale], [65, zero, 79 * scale])
    ]
    assert 'viewBox="0 0 640 106"' in drawing and "n by k, l, with 95% intervals" in drawing
    assert draw_groups(make_groups(groups[2]), "n") == ""


def test_an_interval_without_bounds_goes_from_edge_to_edge_and_says_so() -> None:
    drawing = draw_groups(make_groups((("a",), 10.0, None, None), (("b",), 20.0, 10.0, 30.0)), "n")
    assert '<path class="error open" d="M150.0 13.0H624.0"/>' in drawing
    assert "a: 10, no bound</title>" in drawing and "b: 20.0, 95% between 10.0 and 30.0</title>" in drawing


def test_the_numbers_of_an_axis_are_not_cut_off() -> None:
    drawing = draw_groups(make_groups((("a",), 50_000.0, 0.0, 50_000.0), (("b",), 10.0, 0.0, 20.0)), "n")
    ticks = re.findall(r'<text class="tick" x="([\d.]+)"[^>]*>([^<]*)<', drawing)
    assert ticks[-1][1].replace("\u202f", "") == "50000"
    assert all(float(x) + 4.5 * len(text) <= 640 for x, text in ticks)


def make_months(*values: float) -> Result:
    """A result by months."""
    charge = Charge(Case.FIRST, Precision(1), Precision(9), Precision(10), 1e-6)
    rows = tuple(
        Row((f"2026-{month:02}-01",), (Estimate(value, value - 5, value + 5),), ("n",))
        for month, value in enumerate(values, 1)
    )
    return Result("SELECT", ("month", "n"), ("month",), ("n",), rows, charge, ())


def test_time_is_a_line_with_the_band_of_its_intervals() -> None:
    drawing = draw_groups(make_months(10.0, 25.0, 40.0), "n")
    ((points,),) = [re.findall(r'<polyline class="line trend" points="([^"]*)"', drawing)]
    heights = [float(point.split(",")[1]) for point in points.split()]
    (band,) = re.findall(r'<polygon class="band likely" points="([^"]*)"', drawing)
    ends = [float(point.split(",")[1]) for point in band.split()]
    scale = (240 - 26 - 12) / 45  # from 0 to 45
    assert heights == [pytest.approx(214 - value * scale, abs=0.051) for value in (10, 25, 40)]
    assert ends == [pytest.approx(214 - value * scale, abs=0.051) for value in (5, 20, 35, 45, 30, 15)]
    assert "2026-02-01: 25.0, 95% between 20.0 and 30.0</title>" in drawing
    assert "polyline" not in draw_groups(make_months(10.0, 25.0), "n")  # two are bars
