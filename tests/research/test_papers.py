"""The papers' figures: numbers of the committed run are within their spreads, a quick run repeats the exact ones."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from noisebank import Precision
from research.__main__ import main
from research.papers import p0_blur, p0_figure5, p0_requests, p1_systems, page
from research.papers.catalogue import chosen, exhibit
from research.papers.exhibit import Number, near, rounded, unmoved
from research.papers.names import EXHIBITS, RECORDED
from research.papers.running import run_all, run_one
from research.papers.seeded import SeededEntropy
from support.internals import BadRequest, Calibration, PrivacyTarget, compute_target
from support.paths import ROOT

COMMITTED = json.loads((ROOT / "docs" / "results" / "papers.json").read_text())
QUICKLY = ("p0-table2", "p0-blur", "p0-figure8-9", "p1-example", "p3-table2")
"""Exact or nearly so, and done in seconds."""
SMALL = 80_000


# -- the committed run ---------------------------------------------------------------------------


def test_every_figure_and_table_is_in_the_committed_run() -> None:
    assert list(COMMITTED) == list(EXHIBITS)
    for name, one in COMMITTED.items():
        assert one["here"] and one["seconds"] >= 0, name


@pytest.mark.parametrize("name", EXHIBITS)
def test_every_number_of_the_committed_run_is_within_its_spread(name: str) -> None:
    for number in COMMITTED[name]["numbers"]:
        assert number["within"], number
        assert abs(number["ours"] - number["expected"]) <= number["spread"] * (1 + 1e-6), number


def known(name: str, number: str) -> float:
    """A reference value of the committed run."""
    (found,) = [one for one in COMMITTED[name]["numbers"] if one["name"] == number]
    return float(found["expected"])


def test_the_committed_references_are_those_of_the_independent_computation() -> None:
    """Nobody may move a reference to where ours happens to be."""
    assert known("p0-table2", "cumulative precision after Q13") == 17.444444
    assert known("p0-table2", "naive precision") == 25.847778
    assert known("p0-figure5", "P0 epsilon with reuse, mean") == 2.321
    assert known("p0-figure5", "P0 epsilon naive, mean") == 7.843
    assert known("p0-figure5", "P0 saving, mean") == 0.704
    assert known("p0-figure5", "P4 epsilon naive") == 7.029
    assert known("p0-blur", "noise after averaging 50 blurs, paper's rule") == 1.091
    assert known("p0-blur", "advantage from low bits, float blur") == 0.093
    assert known("p1-example", "variance by least squares") == 253.8
    assert known("p1-figure7", "5.3 improved baseline, spent (nettrace)") == 2.766
    assert known("p1-figure8", "Gaussian planner on 5.4, inference") == 0.977
    assert known("p1-planner", "1024 cells, with a first look") == 2974
    assert known("p3-relative", "sound epsilon at 200") == 10.8
    assert known("p3-relative", "epsilon published for a count of 201") == 0.1655


def test_pages_and_small_images_are_committed() -> None:
    papers = (ROOT / "docs" / "results" / "papers.md").read_text()
    for name in EXHIBITS:
        image = ROOT / "docs" / "images" / "papers" / f"{name}.png"
        assert 0 < image.stat().st_size < SMALL, name
        assert COMMITTED[name]["title"] in papers
    budget = (ROOT / "docs" / "results" / "budget.md").read_text()
    assert "not private" in budget and "../images/papers/budget.png" in budget


# -- a quick run ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], Path]:
    folder = tmp_path_factory.mktemp("papers")
    return {name: run_one(name, True, folder) for name in QUICKLY}, folder


@pytest.mark.parametrize("name", QUICKLY)
def test_quick_numbers_are_within(made: tuple[dict[str, Any], Path], name: str) -> None:
    off = [number for number in made[0][name]["numbers"] if not number["within"]]
    assert made[0][name]["numbers"] and not off


@pytest.mark.parametrize("name", QUICKLY)
def test_png_svg_and_json_are_written(made: tuple[dict[str, Any], Path], name: str) -> None:
    _, folder = made
    assert (folder / f"{name}.png").read_bytes().startswith(b"\x89PNG")
    assert (folder / f"{name}.png").stat().st_size < SMALL
    assert "<svg" in (folder / f"{name}.svg").read_text()[:2000]
    text = (folder / f"{name}.json").read_text()
    assert "NaN" not in text and json.loads(text)["name"] == name


def test_a_run_repeats(made: tuple[dict[str, Any], Path]) -> None:
    again = run_one("p0-blur", True, None)
    assert again["data"] == made[0]["p0-blur"]["data"] and again["numbers"] == made[0]["p0-blur"]["numbers"]


def test_figure_5_with_few_seeds() -> None:
    runs = [p0_requests.spend(seed) for seed in range(25)]
    scale = p0_figure5.classical_epsilon(Precision(10**18), p0_requests.BUDGET[1])
    bank, naive = (np.sqrt([getattr(run, way)[-1] / 1e18 for run in runs]) * scale for way in ("bank", "naive"))
    assert bank.mean() == pytest.approx(2.321, abs=0.04) and naive.mean() == pytest.approx(7.843, abs=0.2)
    assert np.mean(1 - bank / naive) == pytest.approx(0.704, abs=0.01)
    assert all(run.cases["FIRST"] == 5 and run.cases.total() == 150 for run in runs)


def test_a_whole_bank_charges_what_the_planner_says() -> None:
    assert p0_figure5._bank(3)["looks"] > 5  # it raises if the contract charged another amount


def test_p1_systems_on_a_short_run() -> None:
    setting = p1_systems.Setting(within=(50, 1e3), miss=0.2, budget=1.0, requests=60)
    for system in p1_systems.MAKES:
        found = p1_systems.one_run(system, "nettrace", 0, setting)
        assert 0 < found["answered"][-1] <= 1 and found["spent"][-1] <= 1.0 + 1e-9, system
    # A look is an investment: after 60 requests it has not paid for itself (.193 against .183), after 150 it has.
    longer = replace(setting, requests=150)
    dynamic, ours = (p1_systems.many_runs(system, "searchlogs", 3, longer) for system in ("dynamic", "ours"))
    assert ours["spent_end"] < 0.75 * dynamic["spent_end"] and len(ours["spent"]) == 3


# -- a test that could not fail would prove nothing ----------------------------------------------


def test_wrong_noise_and_wrong_rules_are_off(monkeypatch: pytest.MonkeyPatch) -> None:
    def louder(request: p0_requests.Request) -> Precision:  # epsilon taken 5% too large
        wished = PrivacyTarget(request.epsilon * 21 / 20, request.delta, Calibration.CLASSICAL)
        return compute_target(wished, p0_blur.ONE)

    monkeypatch.setattr(p0_requests.Request, "wanted", property(louder))
    scale = p0_figure5.classical_epsilon(Precision(10**18), p0_requests.BUDGET[1])
    ends = [np.sqrt(p0_requests.spend(seed).bank[-1] / 1e18) * scale for seed in range(25)]
    assert abs(np.mean(ends) - 2.321) > 0.04


def test_a_blur_by_the_papers_rule_is_off() -> None:
    found = run_one("p0-blur", True, None)["data"]
    swapped = p0_blur.numbers({**found, "bridge": found["paper"]})
    assert not next(number for number in swapped if number.name.endswith("bridge")).within


def test_numbers() -> None:
    assert Number("x", 1.04, 1.0, 0.05).within and not Number("x", 1.06, 1.0, 0.05).within
    assert near("x", 10.9, 10.0, 0.1).within and not near("x", 11.1, 10.0, 0.1).within
    assert rounded({1: (0.123456789123, "a")}) == {"1": [0.123456789, "a"]}


def test_seeded_noise_has_the_wanted_scale() -> None:
    draws = np.array(SeededEntropy(1).discrete_gaussians(2.0**30, 4000)) / 2.0**30
    assert 0.95 < draws.std() < 1.05 and len(SeededEntropy(1).token(7)) == 7


# -- command and pages ---------------------------------------------------------------------------


def test_names() -> None:
    assert chosen("all") == EXHIBITS + RECORDED and chosen("p1")[0] == "p1-example" and chosen("budget") == ("budget",)
    assert {"p4-incentives", "p4-figure5-8"} < set(chosen("p4")), "chapter 5 is part of the thesis"
    assert all(exhibit(name).name == name for name in chosen("all"))
    with pytest.raises(BadRequest):
        exhibit("p9-figure1")


def test_the_command(tmp_path: Path) -> None:
    runner = CliRunner()
    ran = runner.invoke(main, ["reproduce", "p1-example", "--quick", "--out", str(tmp_path / "a"), "--json"])
    assert ran.exit_code == 0 and json.loads(ran.stdout)["p1-example"]["numbers"]
    shown = runner.invoke(main, ["reproduce", "p1-example", "--quick", "--out", str(tmp_path / "b")])
    assert shown.exit_code == 0 and "within their spread" in shown.stdout
    assert runner.invoke(main, ["reproduce", "nonsense"]).exit_code == 2


def test_two_processes_give_what_one_gives(tmp_path: Path) -> None:
    seen: list[tuple[int, int]] = []
    found = run_all(("p1-example", "p0-blur"), True, tmp_path, lambda done, total: seen.append((done, total)))
    assert list(found) == ["p1-example", "p0-blur"] and seen[-1] == (2, 2)
    assert found["p0-blur"]["data"] == run_one("p0-blur", True, None)["data"]


def test_the_budget_page_marks_what_is_not_private() -> None:
    rows = {way: [[1, 2]] for way in ("naive", "per type", "bayes", "unsound", "ours")}
    data = {"asked": 3, "epsilons": [0.4], "kinds": {"ranges": {"cells": 64, **rows}}}
    text = page.budget_page({"data": data, "here": "here", "title": "title", "why": "why"})
    assert "**not private**" in text and "| ranges | 64 | 0.4 | 2 | 2 | 2 | 2 | **2** |" in text


def test_listing_the_names_loads_no_figure() -> None:
    code = "import sys, noisebank.cli.main; print([m for m in sys.modules if 'papers.p' in m or m == 'matplotlib'])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env={**os.environ})
    assert done.stdout.strip() == "[]"


@pytest.mark.slow
def test_all_of_it_quickly(tmp_path: Path) -> None:
    found = run_all(chosen("all"), True, tmp_path, unmoved)
    off = [number["name"] for one in found.values() for number in one["numbers"] if not number["within"]]
    assert not off
    assert len(page.write_pages(tmp_path, tmp_path / "docs")) == len(EXHIBITS) + 3 + 7
