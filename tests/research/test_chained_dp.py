"""`reproduce chained` on a small scale."""

from __future__ import annotations

import json

import pytest

from research.chained_dp.charts import draw_charts, trust
from research.chained_dp.recomputed import REFERENCE, chained, errors, relay_itself
from research.chained_dp.terminal import show_chained


@pytest.fixture(scope="module")
def made():
    return chained(quick=True)


def test_everything_is_within_its_spread(made):
    assert made.all_within
    text = json.dumps(made.plain())
    assert json.loads(text)["errors"]["10"]["Chained"]["expected"] == REFERENCE["mse"][10][1]


def test_a_wrong_number_would_be_noticed(monkeypatch):
    monkeypatch.setitem(REFERENCE["mse"], 10, (0.04095, 0.007445 * 1.1, 0.00442))
    assert not errors(2000)[10]["Chained"]["within"]


def test_exact_values(made):
    for users, row in made.errors.items():
        for kind in ("LDP", "Chained"):
            cell = row[kind]
            assert abs(cell["ours"] - cell["exact"]) <= 5 * cell["spread"] + 1e-4 * cell["exact"], (users, kind)


def test_claims_have_both_numbers(made):
    assert {claim["where"] for claim in made.claims} >= {
        "Theorem 1",
        "Theorem 3",
        "eq. 29",
        "eq. 32",
        "Theorems 6 to 8",
    }
    assert all(claim["ours"] is not None and claim["holds"] for claim in made.claims)


def test_repairs_hold_where_the_relay_does_not(made):
    relay, masked = made.repairs["relay (BAS)"], made.repairs["masked, 3 colluders"]
    assert relay["epsilon"]["2 colluding members"] is None
    assert masked["epsilon"]["3 colluding members and the server"] <= 4.0
    assert masked["mse"] == pytest.approx(relay["mse"] * 10 / 7, rel=1e-3)
    assert made.repairs["everyone alone (LDP)"]["mse"] > 6 * masked["mse"]


def test_remedies_are_measured(made):
    for row in made.remedies["zeros with probability p"].values():
        assert row["added error, measured"] == pytest.approx(row["added error, expected"], rel=0.15)
    for row in made.remedies["past slices with probability p"].values():
        for name, added in row["added error, measured"].items():
            assert added == pytest.approx(row["added error, expected"][name], rel=0.15), name
        for where in ("in its own round", "in any round"):  # 5 standard deviations of 2,000 draws
            assert row[f"exposure {where}, measured"] == pytest.approx(row[f"exposure {where}, expected"], abs=0.032)
        assert row["exposure in any round, expected"] > 0.96 * row["exposure without"]  # a delay, no remedy
        assert row["added error, expected"]["unrelated rounds"] > row["added error, expected"]["vectors stay close"]
    clip = made.remedies["re-clip each slice"]
    assert clip["N = 50"]["sensitivity of the whole"] == clip["N = 1"]["sensitivity of the whole"]
    assert clip["N = 50"]["squared length lost, uneven"] > clip["N = 5"]["squared length lost, uneven"] > 0.1
    slices = made.remedies["exposed slices, K 10, p .1"]
    assert slices["N = 50"]["any"] > 2 * slices["N = 1"]["any"]


def test_the_products_own_noise_has_the_promised_variance():
    assert relay_itself(20)["within"]


def test_charts_and_words(made, tmp_path, capsys):
    assert draw_charts(tmp_path, found=made, kinds=()) == []  # every figure is made; saving them all takes seconds
    trust(made).savefig(tmp_path / "trust.svg")
    assert (tmp_path / "trust.svg").stat().st_size > 5_000
    show_chained({**made.plain(), "charts": ["trust.svg"]})
    said = capsys.readouterr().out
    assert "Theorem 3" in said and "NO" not in said.split("Theorem 1")[0].split()
