"""`learn sgd` and `reproduce fedsgd`: the commands, the tables, the numbers that follow from runs, the charts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from click.testing import CliRunner

from noisebank import create_bank, open_bank
from noisebank.cli.main import main
from research.fedsgd import figures as experiment
from research.fedsgd.charts import draw_charts
from research.fedsgd.figures import PANELS, FedSgd, _settings, against_reference
from research.fedsgd.runs import NONE, Errors, Setting, cross_validated, descend
from research.fedsgd.tables import LearningTable, table
from research.packaged import read_records
from support.internals import list_tasks, simulation_rng
from support.learning import people

SCHEMA = """
[attributes.age]
low = 0
high = 100
[attributes.town]
values = ["n", "s", "e"]
[attributes.buys]
values = ["no", "yes"]
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    columns = people(300)
    lines = [",".join(map(str, row)) for row in zip(*columns.values(), strict=True)]
    (tmp_path / "people.csv").write_text("\n".join([",".join(columns), *lines]) + "\n")
    (tmp_path / "schema.toml").write_text(SCHEMA)
    create_bank(tmp_path / "bank")
    return tmp_path


def sgd(folder: Path, *more: str, code: int = 0) -> dict[str, Any]:
    arguments = [
        "learn",
        "sgd",
        str(folder / "people.csv"),
        "--schema",
        str(folder / "schema.toml"),
        "--target",
        "buys",
    ]
    arguments += ["--task", "offers", "--group", "100", "--bank", str(folder / "bank"), "--json", *more]
    done = CliRunner().invoke(main, arguments)
    assert done.exit_code == code, done.output
    return dict(json.loads(done.stdout))


def test_learn_sgd_charges_each_device_once_and_goes_on_with_the_same_bits(folder: Path) -> None:
    first = sgd(folder, "--epsilon", "2", "--test", str(folder / "people.csv"), "--out", str(folder / "model.json"))
    assert first["devices"] == 300 and first["groups_on_the_ledger"] == 3 and first["spent_per_device"]["epsilon"] == 2
    assert "epsilon 2, delta 0" in first["guarantee"] and 0 <= first["test"]["misclassification rate"] <= 1
    assert sgd(folder, "--epsilon", "2")["weights"] == first["weights"]
    assert json.loads((folder / "model.json").read_text())["weights"] == first["weights"]
    assert "other terms" in sgd(folder, "--epsilon", "1", code=2)["message"]
    with open_bank(folder / "bank") as bank:
        assert [account.task.name for account in list_tasks(bank.parts)] == ["offers"] and bank.accounts() == ()


def test_learn_sgd_rehearses_without_a_bank_and_reads_parquet(folder: Path) -> None:
    import duckdb

    duckdb.sql(f"COPY (FROM read_csv('{folder}/people.csv', all_varchar = true)) TO '{folder}/people.parquet'")
    (folder / "people.csv").unlink()
    (folder / "people.parquet").rename(folder / "people.csv.parquet")
    arguments = [
        "learn",
        "sgd",
        str(folder / "people.csv.parquet"),
        "--schema",
        str(folder / "schema.toml"),
        "--target",
    ]
    done = CliRunner().invoke(main, [*arguments, "buys", "--task", "t", "-e", "1", "--group", "90", "--rehearse"])
    assert done.exit_code == 0 and "nothing was charged" in done.output and "30 were never asked" in done.output
    done = CliRunner().invoke(main, [*arguments, "age", "--task", "t", "-e", "1", "--model", "linear", "--rehearse"])
    assert done.exit_code == 0 and "buys = no" in done.output


@pytest.mark.parametrize(
    ("table", "words"),
    [("age,town\n1,n\n", "is missing"), ("age,town,buys\nx,n,no\n", "cannot be read"),
     ("age,town,buys\n,n,no\n", "missing"), ("age,town,buys\n1,w,no\n", "must be one of")],
)  # fmt: skip
def test_learn_sgd_refuses_tables_that_are_not_as_the_schema_says(folder: Path, table: str, words: str) -> None:
    (folder / "people.csv").write_text(table)
    assert words in sgd(folder, "--epsilon", "1", code=2)["message"]


def small(model: str = "logistic", rows: int = 2200) -> LearningTable:
    generator = simulation_rng(5)
    hidden = generator.normal(0, 1, rows)
    numbers = np.clip(np.stack([0.5 * hidden, generator.normal(0, 0.3, rows)], axis=1), -1, 1)
    design = np.concatenate([numbers, np.ones((rows, 1))], axis=1)
    return LearningTable("small", "made up", False, design, np.sign(hidden), design, np.clip(hidden / 3, -1, 1))


@pytest.mark.parametrize("model", ["logistic", "linear", "hinge"])
def test_descents_side_by_side_learn(model: str) -> None:
    used = small()
    order = np.arange(len(used.rows))
    settings = [Setting(NONE), Setting("pm-sub", 8.0, 50), Setting("laplace", 8.0)]
    found = descend(model, settings, *used.task(model), [order[:2000], order[::-1][:2000]], [order[2000:]] * 2)
    assert np.shape(found) == (2, 3) and np.max(found) < 0.3


def test_stand_ins_have_the_shapes_that_are_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NOISEBANK_DATA", raising=False)
    monkeypatch.setattr("research.packaged.find_spec", lambda name: None)
    read_records.cache_clear()
    table.cache_clear()
    for name, numbers in (("diamonds", 7), ("adult", 12), ("census", 90), ("vehicle", 101)):
        found = table(name, True)
        assert found.rows.shape[1] == numbers and not found.real and "synthetic" in found.title
        assert np.abs(found.rows).max() <= 1 and set(found.classes) == {-1.0, 1.0} and np.abs(found.numbers).max() <= 1
    table.cache_clear()
    read_records.cache_clear()


def made_up_runs() -> FedSgd:
    """Errors that fall with epsilon, Laplace's far above the others."""
    generator, runs = simulation_rng(9), {}
    for model, names in PANELS.items():
        for name in names:
            runs[name, model] = {
                setting: Errors(tuple(0.1 + (3 if setting.mechanism == "laplace" else 1) * 0.1 / (setting.epsilon + 1)
                                      + generator.normal(0, 0.01, 50)))
                for setting in _settings(model)
            }  # fmt: skip
    tables = {name: small() for names in PANELS.values() for name in names}
    return FedSgd(runs, {"within": "42 of 42"}, 1.0, True, 5, 10, tables)


def test_figures_follow_from_the_runs_and_are_drawn(tmp_path: Path) -> None:
    found = made_up_runs()
    plain = found.plain()
    assert json.loads(json.dumps(plain)) == plain
    assert all(row["clearly worse"] for row in plain["laplace"].values()) and len(plain["laplace"]) == 12
    assert list(plain["figures"]["3.8 logistic regression"]["diamonds"]["hm-tp"]) == ["0.5", "1", "2", "4"]
    assert list(plain["figures"]["3.14 by number of outputs, epsilon 4"]["linear"]["adult"]["pm"])[-1] == "2001"
    assert all(abs(row["mean gap in standard errors"]) < 1 for row in plain["discretisation"].values())
    drawn = []
    with patch("matplotlib.figure.Figure.savefig", lambda figure, path, dpi: drawn.append(figure)):
        written = draw_charts(found, tmp_path)
    assert len(written) == len(drawn) == 16 and {path.suffix for path in written} == {".png", ".svg"}
    assert all(
        figure.get_suptitle() and any("Figure 3." in text.get_text() for text in figure.texts) for figure in drawn
    )
    drawn[0].savefig(tmp_path / "one.png")
    assert (tmp_path / "one.png").stat().st_size > 10_000


def test_what_is_said_of_laplace_is_counted_and_few_folds_say_so() -> None:
    found = made_up_runs()
    assert found.describe_laplace() == (
        "Laplace is clearly worse than the worst of the others in 12 of 12 cells (two standard errors)"
    )
    cells = {
        key: {s: Errors(e.values[:2] if s.epsilon < 1 else (0.1, 0.1)) for s, e in row.items()}
        for key, row in found.runs.items()
    }
    quick = FedSgd(cells, {}, 1.0, True, 1, 2, found.tables)
    assert quick.describe_laplace().endswith("2 folds are too few to tell in the others")
    assert "12 of 12" not in quick.describe_laplace()


def test_the_reference_is_compared_and_a_worse_learner_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    def errors(level: float) -> Any:
        def made(model: str, settings: list[Setting], *_: object) -> list[list[float]]:
            generator = simulation_rng(2)
            laplace = {0.5: 0.25, 1.0: 0.15}
            means = [laplace.get(s.epsilon, level) if s.mechanism == "laplace" else level for s in settings]
            return [[mean + generator.normal(0, 0.001) for mean in means] for _ in range(10)]

        return made

    monkeypatch.setattr(experiment, "table", lambda name: small())
    monkeypatch.setattr(experiment, "descend", errors(0.085))
    good = against_reference(10)
    assert good["within"].startswith("42 of 42") and good[NONE]["within"]
    monkeypatch.setattr(experiment, "descend", errors(0.15))
    assert against_reference(10)["within"].startswith("2 of 42"), "only Laplace's two are as they were"


@pytest.mark.slow
def test_cross_validation_runs_in_processes() -> None:
    seen: list[int] = []
    settings = (Setting(NONE), Setting("laplace", 1.0), Setting("duchi", 1.0))
    found = cross_validated([("vehicle", "hinge", settings)], 2, 2, True, lambda done, total: seen.append(done))
    errors = found["vehicle", "hinge"]
    assert seen == [1, 2] and len(errors[Setting(NONE)].values) == 4 and errors[Setting(NONE)].mean < 0.15
    assert len(errors[Setting("laplace", 1.0)].values) == 2, "wide: the first repetition only"
