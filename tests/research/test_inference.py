"""Benchmarks of inference and the reproduction of P1, against the numbers that they must hit."""

from __future__ import annotations

import json

import numpy as np
import pytest
from click.testing import CliRunner

from research.__main__ import main
from research.benches.cell_workloads import make_workload
from research.benches.planner import answer_ranges, price_pool, price_ranges
from research.benches.reuse import Cells, OneSum, answer_plainly, bench_reuse
from research.inference.bayes import LARGE, ZCDP_BUDGET, example, gaussian, section
from research.inference.laplace_system import LaplaceSystem


def test_ranges_over_1024_cells_are_nearly_all_answered() -> None:
    found = bench_reuse("range", 1024, 3000, 0)
    assert found["inference"] >= 2900
    assert 150 < found["naive"] <= found["per_type"] < 320
    assert found["budget"]["epsilon"] == 1 and found["budget"]["delta"] == 1e-6
    assert found["budgets"][0]["inference_detail"]["error_of_wanted"] < 1


def test_the_first_computations_are_met_at_the_budget_that_they_used() -> None:
    """Means of four runs: 183 naively as one sum, 871 and 870 by cells."""
    works = [make_workload("range", 1024, 3000, seed) for seed in range(4)]
    one = [answer_plainly(work, OneSum(ZCDP_BUDGET), reuse=False).answered for work in works]
    cells = [answer_plainly(work, Cells(ZCDP_BUDGET, 1024), reuse=False).answered for work in works]
    typed = [answer_plainly(work, Cells(ZCDP_BUDGET, 1024), reuse=True).answered for work in works]
    assert (np.mean(one), np.mean(cells), np.mean(typed)) == (182.5, 871, 870)


@pytest.mark.parametrize("name", ["adult", "nettrace", "searchlogs"])
def test_without_data_the_same_shapes_are_made_up_and_said_so(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NOISEBANK_DATA", raising=False)
    found = bench_reuse(name, queries=60)
    assert "made up" in found["source"]
    assert [row["budget"]["epsilon"] for row in found["budgets"]] == [0.4, 0.8, 1.6, 3.2, 6.4]
    for row in found["budgets"]:
        assert row["naive"] <= row["per_type"] <= 60 and row["inference"] >= row["per_type"] - 5
    total = make_workload(name, queries=1).counts.sum()
    assert total == {"adult": 32_560, "nettrace": 25_714, "searchlogs": 335_889}[name]


def test_the_running_example_of_the_paper() -> None:
    found = example()
    assert found["representations"] == [
        [0, 0, 0.5, -0.5, 0, 0, 0], [0, 1, 0, 0, 1, 0, 0], [1, 0, 0, 0, 0, -1, 0.5]
    ]  # fmt: skip
    assert found["observation_variances"] == [3400, 400, 2400]
    assert found["alpha"] == 0.107296
    assert found["spent_by_cell"] == [0, 0.1, 0, 0, 0.408, 0.283, 0, 0.2, 0.2]
    known = found["posterior"]
    assert (known["mean"], round(known["mode"], 1)) == (85.91, 87.7)
    assert known["low"] == pytest.approx(67.4, abs=0.1) and known["high"] == pytest.approx(104.4, abs=0.1)
    assert round(found["posterior_if_row_3_had_sensitivity_2"]["mean"]) == 84
    assert (found["greedy_variance"], found["least_squares_variance"]) == (311.5, 253.8)


def test_section_5_baselines() -> None:
    dynamic = section(LARGE, (50, 1e4), 0.05, 4.0, runs=12)
    assert dynamic["spent"] == pytest.approx(0.938, abs=0.06) and dynamic["inside"] == pytest.approx(0.95, abs=0.01)
    bounded = section(LARGE, (1, 1e3), 0.2, 1.0, runs=12)
    assert bounded["answered"] == pytest.approx(0.332, abs=0.05) and bounded["spent"] == pytest.approx(1, abs=0.01)


def test_the_planner_answers_nearly_all_of_section_5_4() -> None:
    found = gaussian(ZCDP_BUDGET, runs=2)
    assert found["naive"] == pytest.approx(0.688, abs=0.06)
    assert found["per_type"] == pytest.approx(0.72, abs=0.06)
    assert found["inference"] == pytest.approx(0.977, abs=0.02)


def test_the_papers_system_infers_and_keeps_its_budget() -> None:
    generator = np.random.default_rng(0)
    counts = generator.integers(0, 500, 8).astype(float)
    system = LaplaceSystem(counts, 1.0, 0.8, True, generator)
    system.plant_tree(0.3)
    replies = [system.ask(generator.integers(0, 2, 8) + np.eye(8)[0], 200.0) for _ in range(20)]
    assert sum(reply is not None and reply.inferred for reply in replies) > 10
    assert system.spent.max() <= 1.0
    assert system.ask(np.eye(8)[0], 0.001) is None


def test_the_planner_answers_a_pool_for_hardly_more_than_the_optimum() -> None:
    found = price_pool((2, 3, 5), 2)
    assert found["questions"] == 651 and abs(found["optimum"] - 6.17) < 0.01
    assert found["online"] < 1.6 and found["online_64"] < 1.45 and found["expected"] < 1.001


def test_ranges_and_prefixes_are_near_their_bounds() -> None:
    ranges, prefixes = price_ranges(1024, prefixes=False), price_ranges(1024, prefixes=True)
    assert ranges["bound"] < ranges["mean"] < 14.2 < ranges["Hb"] <= ranges["H2"]
    assert prefixes["bound"] < prefixes["mean"] < 9.3 < prefixes["Hb"]
    assert answer_ranges(1024, 400) == 400


def test_commands() -> None:
    runner = CliRunner()
    ran = runner.invoke(main, ["bench", "reuse", "--cells", "32", "--queries", "50", "--json"])
    assert ran.exit_code == 0 and {"naive", "per_type", "inference", "budget"} <= json.loads(ran.stdout).keys()
    assert runner.invoke(main, ["bench", "reuse", "--cells", "32", "--queries", "50"]).exit_code == 0
    assert runner.invoke(main, ["bench", "reuse", "--workload", "nonsense"]).exit_code == 2
