"""Commands of a bank's owner, in this process, on a bank on disk. The whole file takes five seconds."""

from __future__ import annotations

import json
from contextlib import closing
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from noisebank.cli.main import main
from noisebank.core.entropy import SystemEntropy
from noisebank.service.auth import ACCESS_FILE, AccessControl
from noisebank.service.roles import Role
from support.banks import write_people

SMOKERS, ADULTS = "SELECT COUNT(*) FROM people WHERE smoker", "SELECT COUNT(*) FROM people WHERE age > 40"


class Desk:
    """Runs commands on one bank."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "bank"

    def run(self, *words: object, code: int = 0) -> str:
        return run([*words, "--bank", self.folder], code)

    def read(self, *words: object) -> Any:
        return json.loads(self.run(*words, "--json"))


def run(words: list[object], code: int = 0) -> str:
    """What a command prints; its errors, if it shall fail."""
    done = CliRunner().invoke(main, list(map(str, words)))
    assert done.exit_code == code, (words, done.output, done.exception)
    return done.stderr if code else done.stdout


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    made = Desk(tmp_path)
    run(["init", made.folder])
    write_people(tmp_path, rows=200)
    made.run("open", tmp_path / "people.toml", "--yes")
    return made


def test_an_answer_is_shown_in_three_ways_and_proved(desk: Desk, tmp_path: Path) -> None:
    first = desk.read("ask", SMOKERS, "--within", 20, "--key", "a", "--receipt", tmp_path / "receipt")
    assert abs(first["rows"][0]["COUNT(*)"]["value"] - 133) < 60 and first["charge"]["case"] == "FIRST"
    again = desk.read("ask", SMOKERS, "--within", 20, "--key", "a")
    assert again["rows"] == first["rows"]
    head, line = desk.run("ask", SMOKERS, "--within", 20, "--key", "a", "--csv").splitlines()
    assert "COUNT(*)" in head and float(line.split(",")[0]) == first["rows"][0]["COUNT(*)"]["value"]
    assert json.loads((tmp_path / "receipt").read_text())["account"]
    assert Fraction(first["charge"]["cost"]) * 10**18 == desk.read("statement")["spent"]["units"] > 0


def test_a_file_of_questions_has_an_outcome_each(desk: Desk, tmp_path: Path) -> None:
    file, receipt = tmp_path / "questions.sql", tmp_path / "receipt"
    file.write_text(f"{SMOKERS};\n{ADULTS};\nSELECT COUNT(*) FROM people WHERE no_column;\n")
    assert run(["ask", "--file", file, "--within", 20, "--receipt", receipt, "--bank", desk.folder], 1) == ""
    assert (tmp_path / "receipt.2").exists() and not (tmp_path / "receipt.3").exists()
    assert json.loads(receipt.read_text())["id"] != json.loads((tmp_path / "receipt.2").read_text())["id"]
    file.write_text(f"{SMOKERS};\n{ADULTS};\n")
    assert desk.run("ask", "--file", file, "--within", 20, "--atomic")


@pytest.mark.parametrize(
    "words",
    [["ask"], ["ask", SMOKERS, "--file", "x"], ["ask", SMOKERS, "--atomic"], ["ask", SMOKERS, "--csv", "--json"],
     ["ask", "--file", "x", "--csv"]],
)  # fmt: skip
def test_options_that_do_not_go_together_are_refused_before_anything_is_opened(
    words: list[str], tmp_path: Path
) -> None:
    assert "nowhere" not in run([*words, "--bank", tmp_path / "nowhere"], 2)


def test_a_question_names_its_account_where_there_are_two(desk: Desk, tmp_path: Path) -> None:
    text = (tmp_path / "people.toml").read_text().replace('name = "people"', 'name = "others"')
    (tmp_path / "others.toml").write_text(text)
    desk.run("open", tmp_path / "others.toml", "--yes")
    others = SMOKERS.replace("people", "others")
    for command in (["ask"], ["quote"], ["explain"]):
        assert desk.run(*command, others, "--within", 20) and desk.run(*command, SMOKERS, "--within", 20)
    assert desk.read("statement", "--account", "others")["spent"]["units"] > 0
    assert "others" in desk.run("statement", code=2)


def test_what_an_analyst_may_learn(desk: Desk) -> None:
    assert "only the owner may ask" in desk.run("analyst", "list")
    limit = desk.read("analyst", "limit", "maria", 1)
    assert limit["analyst"] == "maria" and limit["used"]["units"] == 0
    assert [row["analyst"] for row in desk.read("analyst", "list")["analysts"]] == ["maria"]  # before she asks
    asked = desk.read("ask", SMOKERS, "--within", 40, "--analyst", "maria")
    (row,) = desk.read("analyst", "list")["analysts"]
    assert row["analyst"] == "maria" and float(row["limit"]) == pytest.approx(limit["limit"]["precision"], rel=1e-5)
    assert 0 < float(row["used"]) == pytest.approx(float(asked["charge"]["cost"]), rel=1e-5)
    assert "maria" in desk.run("analyst", "list")
    least = desk.read("analyst", "limit", "maria", 0)
    assert least["limit"] == least["used"] and least["used"]["units"] == 10**18 * Fraction(asked["charge"]["cost"])
    assert "refused" in desk.run("ask", SMOKERS, "--within", 10, "--analyst", "maria", code=1)


def test_a_lower_limit_ends_sessions_and_a_higher_one_does_not(desk: Desk) -> None:
    with closing(AccessControl(desk.folder / ACCESS_FILE, SystemEntropy())) as access:
        access.add_person("maria", Role.ANALYST)
        access.make_session("maria", 10**6, access.make_key("maria")[1].id)
        for epsilon, left in (("1", 1), ("2", 1), ("2", 1), ("1.9", 0)):
            desk.run("analyst", "limit", "maria", epsilon)
            assert len(access.list_sessions("maria")) == left, epsilon


def test_the_budget_goes_down_at_once_and_up_later(desk: Desk) -> None:
    before = desk.read("statement")
    lower = desk.read("budget", "lower", 2)
    after = desk.read("statement")
    assert after["budget"]["units"] < before["budget"]["units"] and lower["budget"] == after["budget"]
    announced = desk.read("budget", "raise", 4)
    assert announced["budget_units"] > 0 and desk.read("statement")["budget"] == after["budget"]
    assert "not ready" in desk.run("budget", "finish", code=1)
    desk.read("budget", "lower", 0)
    assert desk.run("ask", SMOKERS, "--within", 20, code=1) and desk.read("statement")["budget"]["units"] == 0


def test_roles_and_pauses(desk: Desk, tmp_path: Path) -> None:
    roles = desk.read("roles", "show")
    assert roles["owner"] != roles["curator"] and roles["paused"] is False and roles["version"] == 1
    desk.run("pause")
    assert desk.read("roles", "show")["paused"] is True and "paused" in desk.run("ask", SMOKERS, "--within", 20, code=1)
    desk.run("resume")
    assert desk.run("ask", SMOKERS, "--within", 20)
    assert "40 hexadecimal" in desk.run("roles", "owner", "0x12", code=2)
    assert desk.read("roles", "owner", "0x" + "AB" * 20) == {"proposed": "0x" + "ab" * 20}
    assert desk.read("roles", "show")["owner"] == roles["owner"]
    moved = desk.read("roles", "curator")
    assert moved["accounts"] == 1 and desk.read("roles", "show")["curator"] == moved["curator"] != roles["curator"]


def test_quotes_and_explanations_cost_nothing(desk: Desk, tmp_path: Path) -> None:
    price = desk.read("quote", SMOKERS, "--within", 20)
    curve = desk.read("quote", SMOKERS, "--within", 20, "--curve")["curve"]
    costs, errors = [Fraction(point["cost"]) for point in curve], [point["stddev"] for point in curve]
    assert Fraction(price["cost"]) in costs and costs == sorted(costs) and errors == sorted(errors, reverse=True)
    assert "price" in desk.run("quote", SMOKERS, "--within", 20, "--curve").lower()
    desk.run("quote", SMOKERS, "--within", 20, "--curve", "--chart", tmp_path / "chart.svg")
    assert "<svg" in (tmp_path / "chart.svg").read_text()
    explained = desk.read("explain", SMOKERS, ADULTS)
    assert len(explained["queries"]) == 2 and explained["budget"]["arrangements"]
    without = json.loads(run(["explain", SMOKERS, "--policy", tmp_path / "people.toml", "--json"]))
    assert without["queries"] == desk.read("explain", SMOKERS)["queries"]
    assert desk.read("statement")["spent"]["units"] == 0


def test_the_books_are_exported_and_verified(desk: Desk, tmp_path: Path) -> None:
    desk.run("ask", SMOKERS, "--within", 20)
    paths = [tmp_path / name for name in ("journal", "openings", "bundle.zip")]
    shown = desk.read("statement", "--journal", paths[0], "--openings", paths[1], "--bundle", paths[2])
    head = shown["head"]
    for path in (paths[0], paths[2]):
        assert head in run(["verify", path, "--json"])
    lines = paths[0].read_text().splitlines()
    paths[0].write_text("\n".join(lines[:-1]) + "\n")
    run(["verify", paths[0], "--head", head], 1)
    assert len(json.loads(paths[1].read_text())["records"]) == 1
