"""The command line as a person uses it: every command, every kind of bad input, exit codes."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from noisebank.cli.main import main
from support.banks import write_people
from support.results import single, units_of

OVER_30 = "SELECT COUNT(*) FROM people WHERE age > 30"


class Shell:
    """Runs commands in one folder, with one bank."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.bank = folder, folder / "bank"

    def run(self, *words: str) -> Result:
        return CliRunner().invoke(main, [*words], env={"NOISEBANK_BANK": str(self.bank), "COLUMNS": "200"})

    def json(self, *words: str) -> Any:
        done = self.run(*words, "--json")
        assert done.exit_code == 0, done.output
        return json.loads(done.stdout)

    def number(self, sql: str, *words: str) -> Any:
        """Asks for one number: its estimate and what it cost."""
        return single(self.json("ask", sql, *words))

    def balance(self) -> int:
        return int(self.json("statement")["spent"]["units"])


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    made = Shell(tmp_path)
    write_people(tmp_path)
    assert made.run("init", str(made.bank)).exit_code == 0
    assert made.run("open", str(tmp_path / "people.toml")).exit_code == 0
    return made


@pytest.fixture
def crowd(tmp_path: Path) -> Shell:
    """Enough people for relative accuracy to mean something."""
    made = Shell(tmp_path)
    write_people(tmp_path, rows=3_000)
    assert made.run("init", str(made.bank)).exit_code == 0
    assert made.run("open", str(tmp_path / "people.toml")).exit_code == 0
    return made


def test_the_whole_story(shell: Shell) -> None:
    quote = shell.json("quote", OVER_30, "-e", "1", "-d", "1e-6")
    assert quote["case"] == "FIRST" and quote["affordable"]
    first = shell.number(OVER_30, "-e", "1", "-d", "1e-6", "--receipt", str(shell.folder / "receipt.json"))
    assert first["cost"] == quote["cost"] and first["case"] == "FIRST"
    again = shell.number("select count(*) from PEOPLE where not age <= 30", "-e", "1", "-d", "1e-6")
    assert again["case"] == "REPEAT" and again["exact"] == first["exact"] and again["cost"] == "0"
    finer = shell.number(OVER_30, "-e", "2", "-d", "1e-6")
    assert finer["case"] == "REFINE" and finer["stddev"] < first["stddev"]
    coarser = shell.number(OVER_30, "-e", "0.5", "-d", "1e-6")
    assert coarser["case"] == "BLUR" and coarser["cost"] == "0"
    journal, opened = str(shell.folder / "journal.jsonl"), str(shell.folder / "openings.json")
    statement = shell.json("statement", "--journal", journal, "--openings", opened)
    assert statement["spent"]["units"] == units_of(first["cost"]) + units_of(finer["cost"])
    receipt = str(shell.folder / "receipt.json")
    report = shell.json("verify", journal, "--head", statement["head"], "--receipt", receipt, "--openings", opened)
    assert report["passed"] and "4 of 4 records opened" in report["level"]
    assert shell.json("verify", str(shell.bank))["head"] == statement["head"]


def test_people_see_tables_and_plain_words(shell: Shell) -> None:
    assert "all of it is paid for" in shell.run("quote", OVER_30, "-e", "1", "-d", "1e-6").stdout
    answer = shell.run("ask", OVER_30, "-e", "1", "-d", "1e-6")
    assert "(95%: " in answer.stdout and "% of the budget; " in answer.stdout and "FIRST" in answer.stdout
    assert "Statement of people" in shell.run("statement").stdout
    assert "cannot see" in shell.run("verify", str(shell.bank)).stdout


def test_an_exhausted_budget_says_what_was_asked_and_what_is_left(shell: Shell) -> None:
    shell.json("ask", OVER_30, "-e", "3", "-d", "1e-6")
    before = shell.balance()
    refused = shell.run("ask", "SELECT SUM(income) FROM people", "-e", "4", "-d", "1e-6")
    assert refused.exit_code == 1
    assert "costs" in refused.stderr and "is left" in refused.stderr
    assert shell.balance() == before
    assert shell.number(OVER_30, "-e", "2", "-d", "1e-6")["case"] == "BLUR"  # free answers still flow


BAD_QUESTIONS = [
    ("SELECT COUNT(*) FROM people WHERE nothing > 3", "no column"),
    ("SELECT COUNT(*) FROM elsewhere WHERE age > 3", "no table"),
    ("SELECT COUNT(*) FROM people WHERE age = 'old'", "is a number"),
    ("SELECT COUNT(*) FROM people WHERE town = 'west'", "no declared key"),
    ("SELECT MAX(income) FROM people", "bins"),
    ("SELECT COUNT(*) FROM people GROUP BY income", "bins"),
    ("SELECT COUNT(*) FROM people GROUP BY town HAVING town = 3", "HAVING"),
    ("SELECT COUNT(*) FROM people; DROP TABLE people", "exactly one"),
    ("nonsense", "SELECT"),
    ("", "SELECT"),
]


@pytest.mark.parametrize(("sql", "word"), BAD_QUESTIONS)
def test_bad_questions_are_misuse_and_change_nothing(shell: Shell, sql: str, word: str) -> None:
    before = shell.run("statement", "--json").stdout
    for command in ("ask", "quote"):
        done = shell.run(command, sql, "-e", "1", "-d", "1e-6")
        assert done.exit_code == 2 and word in done.stderr
    assert shell.run("statement", "--json").stdout == before


BAD_WISHES = [
    (["-e", "0", "-d", "1e-6"], "epsilon"),
    (["-e", "-1", "-d", "1e-6"], "epsilon"),
    (["-e", "nan", "-d", "1e-6"], "epsilon"),
    (["-e", "inf", "-d", "1e-6"], "epsilon"),
    (["-e", "much", "-d", "1e-6"], "epsilon"),
    (["-e", "1", "-d", "0"], "delta"),
    (["-e", "1", "-d", "1"], "delta"),
    (["-e", "1", "-d", "-0.5"], "delta"),
    (["-e", "1", "-d", "NaN"], "delta"),
    (["-e", "1"], "delta"),
    (["-d", "1e-6"], "epsilon"),
    ([], "epsilon"),
    (["-s", "0"], "sigma"),
    (["-s", "-3"], "sigma"),
    (["-s", "3", "-e", "1", "-d", "1e-6"], "one way only"),
    (["-s", "1e300"], "precision"),
]


@pytest.mark.parametrize(("options", "word"), BAD_WISHES)
def test_bad_wishes_are_misuse_and_change_nothing(shell: Shell, options: list[str], word: str) -> None:
    done = shell.run("ask", OVER_30, *options)
    assert done.exit_code == 2 and word in done.stderr
    assert shell.balance() == 0


def test_errors_are_json_too(shell: Shell) -> None:
    done = shell.run("ask", OVER_30, "-e", "-1", "-d", "1e-6", "--json")
    assert done.exit_code == 2
    assert json.loads(done.stdout)["error"] == "BadRequest"


def test_the_same_key_is_safe_for_the_same_question_only(shell: Shell) -> None:
    first = shell.number(OVER_30, "-e", "1", "-d", "1e-6", "--key", "monday")
    again = shell.number("SELECT COUNT(*) FROM people WHERE 30 < age", "-e", "1", "-d", "1e-6", "--key", "monday")
    assert again["receipts"] == first["receipts"]
    other = shell.run("ask", OVER_30, "-e", "2", "-d", "1e-6", "--key", "monday")
    assert other.exit_code == 1 and "another request" in other.stderr
    assert shell.balance() == units_of(first["cost"])


def test_at_most_is_honoured(shell: Shell) -> None:
    done = shell.run("ask", OVER_30, "-e", "1", "-d", "1e-6", "--max-cost", "0.000001")
    assert done.exit_code == 1 and shell.balance() == 0


def test_a_changed_table_is_refused_before_anything_is_spent(shell: Shell) -> None:
    with (shell.folder / "people.csv").open("a") as table:
        table.write("33,100,true,north,1\n")
    done = shell.run("ask", OVER_30, "-e", "1", "-d", "1e-6")
    assert done.exit_code == 1 and "changed" in done.stderr and shell.balance() == 0


def test_a_table_that_vanished_is_misuse(shell: Shell) -> None:
    (shell.folder / "people.csv").unlink()
    done = shell.run("ask", OVER_30, "-e", "1", "-d", "1e-6")
    assert done.exit_code == 2 and shell.balance() == 0


@pytest.mark.parametrize(
    ("line", "word"),
    [
        ("33,100,true,north", None),
        ("x,100,true,north,1", "age"),
        (",100,true,north,1", "age"),
        ("33,,true,north,1", "income"),
    ],
)
def test_missing_values_where_the_policy_says_none(tmp_path: Path, line: str, word: str | None) -> None:
    shell = Shell(tmp_path)
    policy = write_people(tmp_path, lines=["30,5,true,north,1", line])
    shell.run("init", str(shell.bank))
    done = shell.run("open", str(policy))
    if word is None:
        assert done.exit_code == 0, done.stderr  # children is nullable: a short row is a missing value
    else:
        assert done.exit_code == 2 and word in done.stderr
        assert json.loads(shell.run("verify", str(shell.bank), "--json").stdout)["accounts"] == []


def test_values_beyond_the_bounds_are_clipped_and_reported(tmp_path: Path) -> None:
    shell = Shell(tmp_path)
    policy = write_people(tmp_path, lines=["300,5,true,north,1", "30,-1e9,true,west,1"])
    shell.run("init", str(shell.bank))
    opened = shell.json("open", str(policy))
    assert opened["clipped"] == {"age": 1, "income": 1} and opened["none_of_the_keys"] == {"town": 1}


@pytest.mark.parametrize(
    ("broken", "word"),
    [
        ("rows = 20", "rows = 21"),
        ('source = "people.csv"', 'source = "nowhere.csv"'),
        ("[columns.age]", "[columns.agee]"),
    ],
)
def test_a_policy_that_does_not_fit_its_table(tmp_path: Path, broken: str, word: str) -> None:
    shell = Shell(tmp_path)
    policy = write_people(tmp_path)
    policy.write_text(policy.read_text().replace(broken, word))
    shell.run("init", str(shell.bank))
    assert shell.run("open", str(policy)).exit_code == 2


def test_a_policy_with_mistakes_names_them_all(tmp_path: Path) -> None:
    shell = Shell(tmp_path)
    policy = write_people(tmp_path)
    policy.write_text(
        policy.read_text().replace("bounds = [0, 120]", "bounds = [120, 0]").replace("epsilon = 4", "epsilon = -4")
    )
    shell.run("init", str(shell.bank))
    done = shell.run("open", str(policy))
    assert done.exit_code == 2
    assert "2 mistakes" in done.stderr and "line 6" in done.stderr and "columns.age.bounds" in done.stderr


def test_a_table_has_one_account(shell: Shell) -> None:
    assert shell.run("open", str(shell.folder / "people.toml")).exit_code == 2


def test_no_bank_no_policy_no_journal(tmp_path: Path) -> None:
    shell = Shell(tmp_path)
    assert shell.run("ask", OVER_30, "-e", "1", "-d", "1e-6").exit_code == 2
    assert shell.run("verify", str(tmp_path / "nothing")).exit_code == 2
    assert shell.run("verify", str(tmp_path)).exit_code == 2
    assert shell.run("init", str(shell.bank)).exit_code == 0
    assert shell.run("init", str(shell.bank)).exit_code == 2
    assert shell.run("open", str(tmp_path / "nothing.toml")).exit_code == 2
    assert shell.run("quote", OVER_30, "-e", "1", "-d", "1e-6").exit_code == 2


def test_keys_are_private_and_the_owners_can_live_elsewhere(tmp_path: Path) -> None:
    shell = Shell(tmp_path / "here")
    policy = write_people(tmp_path)
    away = tmp_path / "safe" / "owner.key"
    assert shell.run("init", str(shell.bank), "--owner-key", str(away)).exit_code == 0
    assert {path.stat().st_mode & 0o777 for path in (away, shell.bank / "keys" / "curator.key")} == {0o600}
    refused = shell.run("open", str(policy))
    assert refused.exit_code == 2 and "owner's key" in refused.stderr
    assert shell.run("open", str(policy), "--owner-key", str(away)).exit_code == 0
    assert shell.run("ask", OVER_30, "-e", "1", "-d", "1e-6").exit_code == 0  # asking needs no owner
    assert shell.run("budget", "lower", "2").exit_code == 2
    assert shell.run("budget", "lower", "2", "--owner-key", str(away)).exit_code == 0


def test_budgets_fall_at_once_and_rise_late(shell: Shell) -> None:
    lowered = shell.json("budget", "lower", "2")
    assert shell.run("budget", "lower", "3").exit_code == 1
    assert "ready" in shell.json("budget", "raise", "3")
    refused = shell.run("budget", "finish")
    assert refused.exit_code == 1 and "not ready" in refused.stderr
    shell.json("ask", OVER_30, "-e", "1", "-d", "1e-6")
    closed = shell.json("budget", "lower", "0")
    assert closed["budget"] == closed["spent"] and closed["budget"]["units"] < lowered["budget"]["units"]
    assert shell.run("ask", OVER_30, "-e", "2", "-d", "1e-6").exit_code == 1
    assert shell.run("budget", "finish").exit_code == 1  # lowering cancelled the raise
    assert shell.json("verify", str(shell.bank))["passed"]


def test_a_tampered_export_is_refused_with_the_block(shell: Shell) -> None:
    shell.json("ask", OVER_30, "-e", "1", "-d", "1e-6")
    journal = shell.folder / "journal.jsonl"
    shell.json("statement", "--journal", str(journal))
    lines = journal.read_text().splitlines()
    lines[3] = lines[3].replace('"balances":[["', '"balances":[["0')
    journal.write_text("\n".join(lines) + "\n")
    done = shell.run("verify", str(journal))
    assert done.exit_code == 1 and "block 2" in done.stdout


def test_a_second_process_is_told(shell: Shell) -> None:
    from noisebank import open_bank

    with open_bank(shell.bank):
        done = shell.run("statement")
    assert done.exit_code == 2 and "another process" in done.stderr


def test_reproduce_table2() -> None:
    from research.__main__ import main as research

    shown = json.loads(CliRunner().invoke(research, ["reproduce", "table2", "--json"]).stdout)
    assert shown["cases"] == ["1", "1", "1", "2C", "2B", "2B", "2A", "2C", "2B", "2B", "2B", "2C", "2B"]
    assert shown["reuses"] == [None, None, None, "Q1", "Q2", "Q1", "Q3", "Q5", "Q5", "Q6", "Q9", "Q6", "Q3"]
    assert shown["cumulative"] == [
        1.0, 1.111111, 1.361111, 1.361111, 1.5, 4.5, 4.5, 4.5, 4.694444, 16.694444, 17.25, 17.25, 17.444444
    ]  # fmt: skip
    assert shown["naive"] == 25.847778


def test_the_demo_saves_and_verifies(tmp_path: Path) -> None:
    done = CliRunner().invoke(main, ["demo", "--folder", str(tmp_path / "demo"), "--json"])
    shown = json.loads(done.stdout)
    assert done.exit_code == 0 and shown["verified"] and "150 of 150 records opened" in shown["level"]
    assert shown["queries"] == shown["answered"] == sum(shown["cases"].values()) == 150
    assert 0.66 < shown["saving"] < 0.74 and 10 < shown["data_accesses"] < 32
    assert 2.1 < shown["epsilon_paper"] < 2.5 and 7.2 < shown["epsilon_naive_paper"] < 8.5
    assert shown["epsilon_exact"] < shown["epsilon_paper"]
    assert 0.3 < shown["rms_error"] < 3  # five shared noises: loose, but far from none and from ten times
    assert 0 < shown["remaining_epsilon"] < 8 and shown["seconds"] < 60
    assert {"spending.png", "spending.svg", "journal.jsonl"} <= {path.name for path in (tmp_path / "demo").iterdir()}


def test_what_the_demo_suggests_works_when_pasted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("noisebank.demo.survey_demo.REQUEST_COUNT", 10)
    done = CliRunner().invoke(main, ["demo", "--folder", str(tmp_path / "my demo")], env={"COLUMNS": "200"})
    assert done.exit_code == 0 and "verified" in done.stdout and "precision" not in done.stdout
    commands = done.stdout.partition("Try next")[2].splitlines()[1:]
    assert len(commands) == 3
    for command in commands:
        subprocess.run(command, shell=True, check=True, capture_output=True, cwd=tmp_path)


def cpu_seconds(*words: str, **environment: str) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [sys.executable, "-m", "noisebank", *words]
    subprocess.run(command, check=True, capture_output=True, env={**os.environ, **environment})
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def test_help_is_light() -> None:
    assert min(cpu_seconds("--help") for _ in range(3)) < 0.5


def test_asking_is_light(shell: Shell) -> None:
    words = ("ask", OVER_30, "-e", "1", "-d", "1e-6")
    assert min(cpu_seconds(*words, NOISEBANK_BANK=str(shell.bank)) for _ in range(2)) < 3


def test_asking_for_accuracy(shell: Shell) -> None:
    answer = shell.number(OVER_30, "--within", "10", "--confidence", "0.9")
    assert answer["high"] - answer["low"] <= 20 < (answer["high"] - answer["low"]) * 1.01
    assert answer["stddev"] * 1.6448 <= 10 < answer["stddev"] * 1.66
    coarse = shell.number(OVER_30, "-e", "0.1", "-d", "1e-6")
    assert coarse["case"] == "BLUR"
    finer = shell.json("quote", OVER_30, "--within", "8")
    assert finer["case"] == "REFINE" and units_of(finer["cost"]) < units_of(finer["wanted"])


def test_within_after_epsilon_pays_only_the_difference(shell: Shell) -> None:
    first = shell.number(OVER_30, "-e", "0.5", "-d", "1e-6")
    both = shell.json("quote", OVER_30, "--within", "5")
    assert units_of(both["cost"]) == units_of(both["wanted"]) - units_of(first["cost"])


def test_a_relative_request_costs_what_was_quoted_and_says_whether_it_is_close_enough(crowd: Shell) -> None:
    shell, sql = crowd, "SELECT COUNT(*) FROM people WHERE age > 18"
    wish = ("--relative", "10%", "--confidence", "0.9")
    quoted = shell.json("quote", sql, *wish)
    assert quoted["floor"] == 300 and shell.balance() == 0  # a tenth of 3,000 rows
    assert "for true values of 300 or more" in shell.run("quote", sql, *wish).stdout
    reached = shell.number(sql, *wish, "--key", "r")
    verdict = reached["verdict"]
    assert verdict["reached"] and reached["cost"] == quoted["cost"] and "within 0.1" in verdict["message"]
    again = shell.number(sql, *wish, "--key", "r")
    assert again["exact"] == reached["exact"] and shell.balance() == units_of(reached["cost"])
    assert "reached" in shell.run("ask", sql, *wish).stdout and shell.balance() == units_of(reached["cost"])
    assert shell.json("verify", str(shell.bank))["passed"]


def test_an_empty_group_is_not_reached_and_costs_the_same(crowd: Shell) -> None:
    nobody = "SELECT COUNT(*) FROM people WHERE age > 119"
    done = crowd.number(nobody, "--relative", "10%", "--confidence", "0.9")["verdict"]
    assert not done["reached"] and "with a floor of 150 it would cost" in done["message"]
    half = crowd.json("quote", nobody, "--relative", "10%", "--confidence", "0.9", "--floor", "150")
    assert half["cost"] == done["next_cost"] and half["case"] == "REFINE"


def test_more_than_the_most_that_a_relative_request_may_cost_is_refused(crowd: Shell) -> None:
    done = crowd.run("ask", OVER_30, "--relative", "10%", "--max-cost", "1e-15")
    assert done.exit_code == 1 and "may cost under 0.001%" in done.stderr and crowd.balance() == 0


@pytest.mark.parametrize(
    "options",
    [
        ["--relative", "0"],
        ["--relative", "1"],
        ["--relative", "-1%"],
        ["--relative", "nan"],
        ["--relative", "2%", "--sigma", "3"],
        ["--relative", "2%", "--within", "3"],
        ["--relative", "2%", "-e", "1", "-d", "1e-6"],
        ["--relative", "2%", "--calibration", "classical"],
        ["--relative", "2%", "--confidence", "0"],
        ["--relative", "2%", "--confidence", "1"],
        ["--relative", "2%", "--confidence", "1.5"],
        ["--relative", "2%", "--floor", "0"],
        ["--relative", "2%", "--floor", "1e-30"],
        ["--within", "3", "--floor", "5"],
        ["--floor", "5"],
        ["--within", "0"],
        ["--within", "-3"],
        ["--within", "3", "--confidence", "2"],
        ["--within", "3", "--sigma", "3"],
        ["--sigma", "3", "--confidence", "2"],
        ["--within", "3", "--calibration", "classical"],
    ],
)
def test_bad_accuracy_is_misuse_and_nothing_is_spent(shell: Shell, options: list[str]) -> None:
    for command in ("ask", "quote"):
        done = shell.run(command, OVER_30, *options)
        assert done.exit_code == 2, done.output
    assert shell.balance() == 0


def test_a_curve_is_a_table_and_a_chart(shell: Shell) -> None:
    chart = shell.folder / "curve.svg"
    shown = shell.run("quote", OVER_30, "--within", "5", "--curve", "--chart", str(chart))
    assert shown.exit_code == 0 and "█" in shown.stdout and chart.stat().st_size > 1000
    points = shell.json("quote", OVER_30, "--within", "5", "--curve")["curve"]
    errors, costs = [p["half_width"] for p in points], [units_of(p["cost"]) for p in points]
    assert errors == sorted(errors, reverse=True) and costs == sorted(costs)
    assert shell.run("quote", OVER_30, "--within", "5", "--chart", "curve.doc").exit_code == 2


def test_explain_turns_epsilon_into_error(shell: Shell) -> None:
    explained = shell.json("explain", OVER_30)["queries"][0]
    errors = {row["epsilon"]: row["error_at_95"] for row in explained["errors"]}
    quoted = shell.json("quote", OVER_30, "-e", "0.5", "-d", "1e-6")["half_width"]
    assert errors[0.5] == pytest.approx(quoted)
    assert "one person" in shell.run("explain", OVER_30).stdout


def test_local_estimate_reads_what_local_report_prints(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "schema.toml").write_text("[attributes.steps]\nlow = 0\nhigh = 20000\n")
    (tmp_path / "record.json").write_text('{"steps": 4000}')
    runner = CliRunner()
    for words in (["init", "bank"], ["local", "enrol", "phone", "--epsilon", "20"]):
        assert runner.invoke(main, words).exit_code == 0
    printed = ""
    for number in range(8):
        order = ["--schema", "schema.toml", "--round", str(number), "--epsilon", "2"]
        done = runner.invoke(main, ["local", "report", "phone", "record.json", *order])
        assert done.exit_code == 0, done.output
        printed += done.stdout
    (tmp_path / "reports.txt").write_text(printed)
    done = runner.invoke(main, ["local", "estimate", "reports.txt", "--schema", "schema.toml", "--json"])
    assert done.exit_code == 0 and json.loads(done.stdout)["steps"]["reports"] == 8, done.output


def test_explain_says_what_a_budget_answers_from_the_policy_alone(shell: Shell, tmp_path: Path) -> None:
    policy, questions = tmp_path / "town.toml", tmp_path / "expected.sql"
    policy.write_text(
        'name = "town"\nsource = "nowhere.csv"\nneighbours = "add-remove"\nrow_cap = 99\n[budget]\nepsilon = 1\n'
        'delta = 1e-6\n[columns.ward]\ntype = "integer"\nkeys = [1, 2]\n'
    )
    count = "SELECT COUNT(*) FROM town WHERE ward ="
    questions.write_text(f"{count} 1; -- twice\n{count} 2;")
    asked = ("explain", "--policy", str(policy), "--questions", str(questions), "--epsilon", "0.3")
    plain, cube, *_ = shell.json(*asked)["budget"]["arrangements"]
    assert (plain["answered"], plain["free"], cube["answered"], cube["free"]) == (2, 0, 2, 1)
    shown = shell.run(*asked).stdout
    assert "2 of 2" in shown and 'would help: cubes = [["ward"]]' in shown
    assert shell.run("explain", "--policy", str(policy), "--questions", str(tmp_path)).exit_code == 2
