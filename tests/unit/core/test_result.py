"""`Result`: one table wherever it is shown, without NaN; single numbers only where there is one."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from noisebank.core.charges import Charge, ChargedQuestion, Inference
from noisebank.core.errors import BadRequest
from noisebank.core.estimates import Estimate, Row, Verdict, make_estimate
from noisebank.core.intervals import confidence_interval
from noisebank.core.receipts import Receipt
from noisebank.core.records import Case
from noisebank.core.rendering import result_html, result_text
from noisebank.core.result import Result
from noisebank.core.units import Precision

numbers = st.floats(-1e9, 1e9, allow_nan=False)
deviations = st.floats(1e-6, 1e6)
names = st.text(st.characters(codec="utf-8", exclude_categories=("C", "Z")), min_size=1, max_size=8)
amounts = st.integers(0, 10**30).map(Precision)


@st.composite
def estimates(draw: st.DrawFn) -> Estimate:
    value, stddev = draw(numbers), draw(deviations)
    if draw(st.booleans()):  # Gaussian noise
        return make_estimate(value, *confidence_interval(value, stddev), stddev, Fraction(value))
    low, high = value - draw(deviations), value + draw(deviations)
    ends = draw(st.sampled_from([(low, high), (float("-inf"), high), (low, float("inf"))]))
    label, verdict = draw(st.none() | names), Verdict(0.1, 0.95, 20.0, draw(st.booleans()), draw(st.none() | amounts))
    return make_estimate(value, *ends, label=label, verdict=draw(st.sampled_from([None, verdict])))


def part(case: Case = Case.FIRST, inferred: Inference | None = None) -> ChargedQuestion:
    receipt = Receipt(b"a" * 32, b"i" * 32, {"value": [1, 2]}, b"s" * 32, 7, "0x" + "1" * 40, 3, b"d" * 32)
    return ChargedQuestion("SELECT 1", case, Precision(5), Precision(10**18), receipt, inferred)


@st.composite
def results(draw: st.DrawFn) -> Result:
    columns = tuple(draw(st.lists(names, min_size=1, max_size=5, unique=True)))
    count = draw(st.integers(0, len(columns) - 1))
    by = tuple(draw(st.permutations(columns))[:count])
    items = tuple(name for name in columns if name not in by)
    rows = tuple(
        Row(tuple(draw(st.none() | names) for _ in by), tuple(draw(estimates()) for _ in items), items)
        for _ in range(draw(st.integers(1, 4)) if by else 1)
    )
    charge = Charge(draw(st.sampled_from(Case)), draw(amounts), draw(amounts), Precision(10**20), 1e-6)
    inferred = Inference(("age", "town"), 3, True, Precision(7))
    return Result("SELECT …", columns, by, items, rows, charge, (part(), part(Case.INFER, inferred)), 0.95, ("a note",))


@given(results())
def test_json_and_back_is_the_same(result: Result) -> None:
    text = json.dumps(result.to_json(), allow_nan=False)
    assert Result.from_json(json.loads(text)) == result


@given(results())
def test_an_interval_contains_its_value(result: Result) -> None:
    for row in result:
        for estimate in row.estimates:
            assert estimate.value is not None
            assert estimate.low is None or estimate.low <= estimate.value
            assert estimate.high is None or estimate.value <= estimate.high


@given(results())
def test_tables_have_the_columns_of_the_select(result: Result) -> None:
    pandas, arrow = pytest.importorskip("pandas"), pytest.importorskip("pyarrow")
    expected = []
    for name in result.columns:
        expected.append(name)
        if name not in result.by:
            expected += [f"{name}_{ending}" for ending in ("low", "high", "stddev")]
            expected += [f"{name}_label"] * any(row[name].label is not None for row in result)
    if len(set(expected)) < len(expected):
        with pytest.raises(BadRequest, match="AS"):
            result.to_pandas()
        return
    frame, table = result.to_pandas(), result.to_arrow()
    assert isinstance(frame, pandas.DataFrame) and isinstance(table, arrow.Table)
    assert list(frame.columns) == table.column_names == expected
    assert len(frame) == table.num_rows == len(result.rows)
    for name in result.items:
        assert (
            [float(each) for each in frame[name]] == table.column(name).to_pylist() == [r[name].value for r in result]
        )
        missing = [each is pandas.NA for each in frame[f"{name}_low"]]
        assert missing == [row[name].low is None for row in result]  # not NaN


@given(results())
def test_nothing_is_shown_as_nan(result: Result) -> None:
    for text in (result_text(result), result_html(result), result.to_csv() if len(result.items) == 1 else ""):
        assert "nan" not in text.replace("SELECT", "").lower() or any(
            "nan" in name.lower() for name in all_text(result)
        )


def all_text(result: Result) -> list[str]:
    labels = [estimate.label or "" for row in result for estimate in row.estimates]
    return [*result.columns, *(key or "" for row in result for key in row.keys), *labels]


def one(value: float = 12.5, stddev: float = 2.0) -> Result:
    row = Row((), (make_estimate(value, *confidence_interval(value, stddev), stddev, Fraction(value)),), ("n",))
    charge = Charge(Case.FIRST, Precision(6 * 10**15), Precision(91 * 10**16), Precision(10**18), 1e-6)
    return Result("SELECT count(*) AS n FROM t", ("n",), (), ("n",), (row,), charge, (part(),))


def test_a_single_number_has_its_shortcuts() -> None:
    result = one()
    assert (result.value, float(result), result.exact) == (12.5, 12.5, Fraction(25, 2))
    assert (result.low, result.high) == result.interval() == confidence_interval(12.5, 2.0)
    assert result.stddev == 2.0 and result.interval(0.5) == confidence_interval(12.5, 2.0, 0.5)
    assert result.receipt is result.parts[0].receipt and result.cost == Precision(6 * 10**15)
    assert result["n"] is result.estimate and [row.value for row in result] == [12.5]


def test_several_numbers_have_none() -> None:
    row = one().rows[0]
    table = replace(
        one(), by=("town",), columns=("town", "n"), rows=(replace(row, keys=("a",)), replace(row, keys=("b",)))
    )
    for name in ("value", "low", "high", "stddev", "exact", "estimate", "verdict"):
        with pytest.raises(BadRequest, match="2 rows of n"):
            getattr(table, name)
    with pytest.raises(BadRequest, match="2 rows"):
        table["n"]
    assert [each["n"].value for each in table] == [12.5, 12.5]


def test_what_is_not_known_is_said() -> None:
    empty = replace(one(), rows=(Row((), (make_estimate(5.0, float("-inf"), float("inf")),), ("n",)),))
    with pytest.raises(BadRequest, match="standard deviation of n"):
        _ = empty.stddev
    with pytest.raises(BadRequest, match="low of n"):
        empty.interval()
    with pytest.raises(BadRequest, match="ask with this confidence"):
        empty.interval(0.5)
    with pytest.raises(BadRequest, match="several answers"):
        _ = empty.exact
    assert "5 (95%: no bound)" in repr(empty)


def test_the_budget_is_shown_as_a_share_first_and_the_half_width_after_the_sign() -> None:
    text = repr(one())
    assert "n        12.5 ± 3.9 (95%: 8.6 to 16.4; standard deviation 2.0)" in text
    assert "cost     0.6% of the budget; 91% left (epsilon 0.303 alone, at delta 1e-06)" in text
    assert "0.6% of the budget; 91% left" in one()._repr_html_()


def grouped(count: int) -> Result:
    rows = tuple(Row((f"k{place}",), (make_estimate(5.0, 4.0, 7.0),), ("n",)) for place in range(count))
    return replace(one(), by=("k",), columns=("k", "n"), rows=rows)


def test_long_tables_show_their_beginning_and_say_how_much_is_not_shown() -> None:
    for text in (repr(grouped(20)), grouped(20)._repr_html_()):
        assert "k19" in text and "more rows" not in text
    for text in (repr(grouped(23)), grouped(23)._repr_html_()):
        assert "k19" in text and "k20" not in text and "and 3 more rows" in text
    assert "k22" in result_text(grouped(23)) and "more rows" not in result_text(grouped(23))  # a terminal scrolls


def test_long_plots_show_their_beginning_and_say_so() -> None:
    pytest.importorskip("matplotlib")
    whole, part = (grouped(count).plot().axes[0] for count in (60, 61))
    assert len(whole.patches) == len(part.patches) == 60
    assert not whole.get_title("right") and part.get_title("right") == "the first 60 of 61 rows"


def test_csv_has_all_digits_and_runs_nowhere() -> None:
    row = replace(one(1 / 3).rows[0], keys=("=1+1",))
    (read,) = csv.DictReader(io.StringIO(replace(one(), by=("k",), columns=("k", "n"), rows=(row,)).to_csv()))
    assert float(read["n"]) == 1 / 3 and read["k"] == "'=1+1" and float(read["n_stddev"]) == 2.0


def test_html_is_escaped() -> None:
    row = replace(one().rows[0], keys=("<script>",))
    html = replace(one(), by=("<b>",), columns=("<b>", "n"), rows=(row,), sql="<i>")._repr_html_()
    assert not {"<script>", "<i>"} & set(html.split()) and "<script>" not in html and "<i>" not in html


def test_plots_agree_with_the_numbers() -> None:
    pytest.importorskip("matplotlib")
    bell = one().plot().axes[0]
    assert max(line.get_ydata().max() for line in bell.lines if len(line.get_ydata()) > 2) == pytest.approx(1.0)
    band = bell.collections[0].get_paths()[0].vertices[:, 0]
    assert (band.min(), band.max()) == pytest.approx(one().interval())
    derived = replace(one(), rows=(Row((), (make_estimate(5.0, 4.0, 7.0),), ("n",)),)).plot().axes[0]
    assert not derived.collections and list(derived.lines[0].get_xdata()) == [4.0, 7.0]  # no bell
    rows = tuple(Row((key,), (make_estimate(v, v - 1, v + 2),), ("n",)) for key, v in (("a", 3.0), ("b", -1.0)))
    bars = replace(one(), by=("k",), columns=("k", "n"), rows=rows).plot().axes[0]
    assert [bar.get_width() for bar in bars.patches] == [3.0, -1.0]
    assert [list(line.get_xdata()) for line in bars.lines[::2]][:2] == [[2.0, 5.0], [-2.0, 1.0]]
    assert [0, 0] in [list(line.get_xdata()) for line in bars.lines]  # where bars of either sign begin


def test_a_plot_over_time_is_a_line_through_the_numbers_with_a_band() -> None:
    pytest.importorskip("matplotlib")
    values = [3.0, None, -1.0, 4.0, 5.0]
    rows = tuple(
        Row(
            (f"2026-0{month}-01",),
            (Estimate(None, None, None) if v is None else make_estimate(v, v - 1, v + 2),),
            ("n",),
        )
        for month, v in enumerate(values, 1)
    )
    panel = replace(one(), by=("m",), columns=("m", "n"), rows=rows).plot().axes[0]
    (line,) = panel.lines
    assert list(line.get_xdata()) == [0, 2, 3, 4] and list(line.get_ydata()) == [3.0, -1.0, 4.0, 5.0]
    corners = panel.collections[0].get_paths()[0].vertices
    assert {(x, y) for x, y in corners} == {
        (place, value + change) for place, value in ((0, 3.0), (2, -1.0), (3, 4.0), (4, 5.0)) for change in (-1, 2)
    }
    assert [label.get_text() for label in panel.get_xticklabels()] == [f"2026-0{month}" for month in range(1, 6)]


@pytest.mark.parametrize(
    ("labels", "first"),
    [
        ([f"{year}-01-01" for year in range(1995, 2027)], "1995"),
        ([f"{year}-{month:02}-01" for year in (2025, 2026) for month in range(1, 13)], "2025-01"),
        ([f"2026-01-{day:02}" for day in range(1, 32)], "2026-01-01"),
        ([f"2026-01-01 {hour:02}:00:00" for hour in range(24)], "2026-01-01 00:00:00"),
    ],
)
def test_labels_below_a_line_do_not_overlap_and_leave_out_what_all_share(labels: list[str], first: str) -> None:
    pytest.importorskip("matplotlib")
    rows = tuple(Row((label,), (make_estimate(3.0, 2.0, 5.0),), ("n",)) for label in labels)
    figure = replace(one(), by=("m",), columns=("m", "n"), rows=rows).plot()
    figure.canvas.draw()
    drawn = figure.axes[0].get_xticklabels()
    boxes = [label.get_window_extent() for label in drawn]
    assert drawn[0].get_text() == first and len(drawn) > 1
    assert all(left.x1 < right.x0 for left, right in pairwise(boxes))


def test_a_dollar_in_a_key_or_question_is_no_formula() -> None:
    pytest.importorskip("matplotlib")
    rows = tuple(Row((key,), (make_estimate(3.0, 2.0, 5.0),), ("n",)) for key in ("$x^$", "$\\frac$"))
    sql = "SELECT CASE WHEN a THEN '$x^$' ELSE '$\\frac$' END AS k, " + ", ".join(
        f"COUNT(*) AS n{i}" for i in range(40)
    )
    figure = replace(one(), by=("k",), columns=("k", "n"), rows=rows, sql=sql).plot()
    figure.canvas.draw()
    title = figure._suptitle
    assert title is not None and title.get_text().count("\n") == 2 and title.get_text().endswith("…")
    assert title.get_window_extent().x1 <= figure.bbox.x1  # nothing is cut off
