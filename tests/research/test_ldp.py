"""`reproduce ldp` and `bench local` on a small scale."""

from __future__ import annotations

import json

import pytest

from research.benches.local import bench_local
from research.ldp.chapter3 import REFERENCE, best_sweep, ldp
from research.ldp.tables import adult, errors, gaussian, stand_ins
from support.internals import MECHANISM_NAMES


@pytest.fixture(scope="module")
def made():
    return ldp(quick=True)


def test_crossovers_to_three_digits(made):
    assert tuple(made.crossovers.values()) == pytest.approx(REFERENCE["crossovers"], abs=6e-5)


def test_where_hm_tp_is_not_best(made):
    assert made.not_always_best["HM beats HM-TP"] == pytest.approx(REFERENCE["hm_beats_hm_tp"], abs=5e-3)
    assert made.not_always_best["PM-OPT beats HM-TP above"] == pytest.approx(REFERENCE["pm_opt_beats_hm_tp"], abs=5e-3)


def test_levels_vectors_and_sweep(made):
    for m, worst in REFERENCE["levels"].items():
        assert made.levels["levels"][m]["worst variance"] == pytest.approx(worst, rel=1.5e-3)
    assert made.vectors["PM-SUB eps 4 by k"][1] == pytest.approx(17.66, abs=0.006)
    assert made.vectors["PM-SUB eps 4 by k"][2] == pytest.approx(15.84, abs=0.006)
    assert made.best_sweep["never above"]
    assert all(slack >= 0 for row in made.exact_privacy.values() for slack in row.values())


def test_expected_mean_squared_errors_are_the_reference_s(made):
    for epsilon, row in REFERENCE["mse_e5"].items():
        for name, value in row.items():
            found = made.mean_estimation["mse_e5"][epsilon][name]
            assert found["expected"] / 10 == pytest.approx(value, rel=0.03), (epsilon, name)  # a tenth of the devices
            assert abs(found["measured"] - found["expected"]) < 6 * found["spread"]


def test_plain_is_json(made):
    plain = json.loads(json.dumps(made.plain()))
    assert plain["worst_variances"]["1"]["best"] == pytest.approx(4.26715, abs=1e-5)
    assert plain["parameters"]["2"]["beta (HM-TP)"] == pytest.approx(0.239696, abs=1e-6)


@pytest.mark.slow
def test_the_whole_sweep():
    found = best_sweep(200)
    assert found["points"] == 200 and found["never above"]


def test_bench_has_every_mechanism():
    found = bench_local(values=1 << 14, rounds=1)
    assert set(found["mechanisms"]) == set(MECHANISM_NAMES)
    assert all(row["values_per_second"] > 0 for row in found["mechanisms"].values())


def test_tables_have_the_shapes_of_the_ones_they_stand_for(monkeypatch):
    assert [(table.rows.shape, table.attributes) for table in stand_ins(50)] == [
        ((50, 3), 5), ((50, 5), 19), ((50, 6), 16), ((50, 6), 7)
    ]  # fmt: skip
    assert all(abs(table.rows).max() <= 1 for table in [*stand_ins(1000), gaussian(1.0, 1000)])
    monkeypatch.delenv("NOISEBANK_DATA", raising=False)
    assert adult() is None


def test_adult_is_read_where_it_is(monkeypatch, tmp_path):
    line = "{}, State-gov, {}, Bachelors, 13, N, A, N, W, Male, {}, 0, 40, US, <=50K\n"
    rows = [line.format(age, 70000 + age, age % 7).replace("13", str(age % 16)) for age in range(20, 60)]
    text = "".join(rows).replace(", 0, 40,", ", 5, 40,", 1).replace(", 5, 40,", ", 5, 41,", 1)
    (tmp_path / "adult.data").write_text(text + "\n")
    monkeypatch.setenv("NOISEBANK_DATA", str(tmp_path))
    found = adult()
    assert found.rows.shape == (40, 6) and found.rows.min() == -1 and found.rows.max() == 1


def test_errors_follow_expectation():
    found = errors(gaussian(0.0, 4000), ("pm", "three-outputs"), (4.0,), runs=8, levels=20)
    for curve in found.values():
        assert 0.4 < curve.measured[0] / curve.expected[0] < 1.9


@pytest.mark.slow
def test_charts_are_written(tmp_path):
    from research.ldp.charts import draw_charts

    seen = []
    written = draw_charts(tmp_path / "charts", quick=True, progress=lambda done, total: seen.append(done))
    assert len(written) == 14 and all(path.stat().st_size > 5000 for path in written)
    assert seen == list(range(8))
