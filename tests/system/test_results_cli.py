"""Grouped, derived and several results on the command line: JSON, receipts, openings, quotes, drafts, limits."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from noisebank.cli.main import main
from support.banks import write_people
from support.drafts import fill_draft
from support.results import receipts_of, single, units_of

WISH = ("-e", "0.5", "-d", "1e-6")
BY_TOWN = "SELECT town, COUNT(*) FROM people GROUP BY town"
AVERAGE = "SELECT AVG(income) FROM people WHERE smoker"
SEVERAL = (
    "SELECT AVG(income) AS mean, STDDEV(income) AS spread, MEDIAN(age) AS middle, MODE(town) AS top, "
    "COUNT_IF(age > 40) - 3 AS n FROM people WHERE smoker"
)
PER_TOWN = "SELECT town, AVG(income) AS mean, COUNT(*) AS n FROM people GROUP BY town"


def strict(text: str) -> Any:
    """JSON as the standard has it: no NaN, no infinity."""

    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is no JSON")

    return json.loads(text, parse_constant=refuse)


class Shell:
    """Runs commands in one folder, with one bank."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.bank = folder, folder / "bank"

    def run(self, *words: str) -> Result:
        return CliRunner().invoke(main, [*words], env={"NOISEBANK_BANK": str(self.bank), "COLUMNS": "200"})

    def json(self, *words: str) -> Any:
        done = self.run(*words, "--json")
        assert done.exit_code == 0, done.output + repr(done.exception)
        return strict(done.stdout)

    def spent(self) -> int:
        return int(self.json("statement")["spent"]["units"])


def policy(folder: Path, queries: str = "") -> Path:
    path = write_people(folder, epsilon="8")
    text = path.read_text().replace("bounds = [0, 120]", "bounds = [0, 120]\nbins = [20, 40, 60, 80]")
    path.write_text(text + (f"[queries]\n{queries}" if queries else ""))
    return path


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    made = Shell(tmp_path)
    assert made.run("init", str(made.bank)).exit_code == 0
    assert made.run("open", str(policy(tmp_path))).exit_code == 0
    return made


def test_groups(shell: Shell) -> None:
    quote = shell.json("quote", BY_TOWN, *WISH)
    found = shell.json("ask", BY_TOWN, *WISH)
    charge, numbers = found["charge"], [row["COUNT(*)"] for row in found["rows"]]
    assert charge["cost"] == quote["cost"] and found["by"] == ["town"] and charge["case"] == "FIRST"
    assert [row["town"] for row in found["rows"]] == ["north", "south"] and found["columns"] == ["town", "COUNT(*)"]
    assert all(each["low"] < each["value"] < each["high"] and isinstance(each["exact"], str) for each in numbers)
    assert len({each["stddev"] for each in numbers}) == 1 and numbers[0]["stddev"] > 0
    assert len(receipts_of(found)[0]["answer"]["values"]) == 2
    again = shell.json("ask", BY_TOWN, *WISH)
    assert again["charge"]["case"] == "REPEAT" and again["rows"] == found["rows"] and again["charge"]["cost"] == "0"


def test_derived(shell: Shell) -> None:
    quote = shell.json("quote", AVERAGE, *WISH)
    assert quote["stddev"] is None and quote["half_width"] is None and len(quote["parts"]) == 2
    assert units_of(quote["cost"]) == sum(units_of(part["cost"]) for part in quote["parts"])
    assert quote["share_after"] > quote["share_now"] and shell.spent() == 0
    assert quote["share"] == pytest.approx(quote["share_after"]) and quote["epsilon"] == pytest.approx(0.5, rel=1e-3)
    found = single(shell.json("ask", AVERAGE, *WISH))
    assert found["cost"] == quote["cost"] and shell.spent() == units_of(quote["cost"])
    assert -100 <= found["low"] <= found["value"] <= found["high"] <= 1000
    assert found["stddev"] is found["exact"] is None and len(found["receipts"]) == 2
    later = shell.json("quote", AVERAGE, *WISH)
    assert later["case"] == "REPEAT" and later["cost"] == "0"


def test_several(shell: Shell) -> None:
    quote = shell.json("quote", SEVERAL, *WISH)
    found = shell.json("ask", SEVERAL, *WISH)
    assert set(found) == {"sql", "columns", "by", "rows", "confidence", "notes", "parts", "charge"}
    assert found["columns"] == list(found["rows"][0]) == ["mean", "spread", "middle", "top", "n"]
    assert found["charge"]["cost"] == quote["cost"] and shell.spent() == units_of(quote["cost"])
    (row,) = found["rows"]
    assert {name: row[name]["stddev"] is None for name in row} == {
        "mean": True, "spread": True, "middle": True, "top": True, "n": False
    }  # fmt: skip
    assert row["top"]["label"] in ("north", "south") and row["middle"]["label"].startswith("[")


def test_several_of_groups(shell: Shell) -> None:
    """A grouped average has an interval, wherever it is shown."""
    found = shell.json("ask", PER_TOWN, *WISH)
    assert found["columns"] == ["town", "mean", "n"] and [row["town"] for row in found["rows"]] == ["north", "south"]
    for row in found["rows"]:
        assert row["mean"]["low"] <= row["mean"]["value"] <= row["mean"]["high"]
    assert shell.spent() == units_of(found["charge"]["cost"]) == shell.json("statement")["spent"]["units"]
    shown = shell.run("ask", PER_TOWN, *WISH).stdout
    assert shown.splitlines()[1].split() == ["town", "mean", "95%", "from", "to", "n", "95%", "from", "to"]


def test_confidence_is_that_of_the_stated_interval(shell: Shell) -> None:
    wide, usual = (single(shell.json("ask", AVERAGE, *WISH, *more)) for more in (("-c", "0.999"), ()))
    assert wide["low"] <= usual["low"] <= usual["high"] <= wide["high"] and wide["high"] - wide["low"] > 0
    assert "99.9%: " in shell.run("ask", AVERAGE, *WISH, "-c", "0.999").stdout


def test_two_results_of_one_name_are_both_shown_or_refused(shell: Shell) -> None:
    sql = "SELECT COUNT_IF(smoker) AS n, SUM(income) AS n FROM people"
    done = shell.run("ask", sql, *WISH, "--json")
    if done.exit_code == 2:
        assert "name" in strict(done.stdout)["message"] and shell.spent() == 0
    else:
        assert len(strict(done.stdout)["columns"]) == 2


@pytest.mark.parametrize(
    "sql", [BY_TOWN, AVERAGE, SEVERAL, PER_TOWN, "SELECT MODE(town) FROM people", "SELECT MAX(age) FROM people"]
)
def test_people_see_tables(shell: Shell, sql: str) -> None:
    quoted = shell.run("quote", sql, *WISH)
    assert quoted.exit_code == 0 and "price" in quoted.stdout and "nan" not in quoted.stdout
    shown = shell.run("ask", sql, *WISH)
    assert shown.exit_code == 0 and "nan" not in shown.stdout.lower().replace("finance", "")
    for word in ("left", "FIRST"):
        assert word in shown.stdout
    if "GROUP BY" in sql:
        assert "north" in shown.stdout and "south" in shown.stdout
    elif "MODE" in sql and "," not in sql:
        assert "most frequent" in shown.stdout


def test_ranks_say_that_they_come_from_bins(shell: Shell) -> None:
    for sql in ("SELECT MEDIAN(age) FROM people", "SELECT MIN(age) FROM people"):
        assert "cumulative counts over the declared bins" in shell.run("ask", sql, *WISH).stdout


def test_receipts_of_all_parts_and_openings_verify(shell: Shell) -> None:
    receipts: list[Path] = []
    for number, sql in enumerate((BY_TOWN, AVERAGE, SEVERAL, PER_TOWN, AVERAGE)):
        target = shell.folder / f"receipt {number}.json"
        shell.json("ask", sql, *WISH, "--receipt", str(target))
        receipts += sorted(shell.folder.glob(f"receipt {number}.json*"))
    shell.json("ask", AVERAGE, "-e", "0.9", "-d", "1e-6")  # REFINE
    shell.json("ask", BY_TOWN, "-e", "0.2", "-d", "1e-6")  # BLUR
    shell.json("ask", "SELECT -2 * COUNT_IF(smoker) + COUNT_IF(age > 50) + 9 FROM people", "-w", "20")
    assert len(receipts) >= 1 + 2 + 5 + 3 + 2  # what several results need is one question
    journal, opened = str(shell.folder / "journal.jsonl"), str(shell.folder / "openings.json")
    statement = shell.json("statement", "--journal", journal, "--openings", opened)
    words = [word for receipt in receipts for word in ("--receipt", str(receipt))]
    report = shell.json("verify", journal, "--head", statement["head"], *words, "--openings", opened)
    assert report["passed"]
    count = len(statement["entries"])
    assert f"{count} of {count} records opened" in report["level"]


@pytest.mark.parametrize("place", [0, -1])
def test_a_changed_receipt_of_a_part_does_not_verify(shell: Shell, place: int) -> None:
    shell.json("ask", AVERAGE, *WISH, "--receipt", str(shell.folder / "receipt"))
    path = sorted(shell.folder.glob("receipt*"))[place]
    receipt = json.loads(path.read_text())
    receipt["answer"]["value"][0] += 1
    path.write_text(json.dumps(receipt))
    done = shell.run("verify", str(shell.bank), "--receipt", str(path), "--json")
    assert done.exit_code != 0


def test_a_changed_opening_of_a_group_does_not_verify(shell: Shell) -> None:
    shell.json("ask", BY_TOWN, *WISH)
    journal, opened = shell.folder / "journal.jsonl", shell.folder / "openings.json"
    shell.json("statement", "--journal", str(journal), "--openings", str(opened))
    whole = opened.read_text()
    for old, new in (("GROUP BY town", "GROUP BY smoker"), ("SELECT town, COUNT(*)", "SELECT town, SUM(age)")):
        assert old in whole
        opened.write_text(whole.replace(old, new))
        assert shell.run("verify", str(journal), "--openings", str(opened)).exit_code != 0
    opened.write_text(whole)
    assert shell.run("verify", str(journal), "--openings", str(opened)).exit_code == 0


def test_a_group_that_is_too_dear_changes_nothing(shell: Shell) -> None:
    before = shell.run("statement", "--json").stdout
    for words in (("-e", "9", "-d", "1e-6"), ("-e", "1", "-d", "1e-6", "--max-cost", "0.001")):
        done = shell.run("ask", SEVERAL, *words)
        assert done.exit_code == 1 and done.stderr.startswith("refused")
    assert shell.run("statement", "--json").stdout == before


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT income, AVG(age) FROM people GROUP BY town",
        "SELECT MEDIAN(town) FROM people",
        "SELECT MEDIAN(income) FROM people",
        "SELECT 1e350 * COUNT_IF(smoker) FROM people",
        "SELECT COUNT_IF(smoker) + 1e350 FROM people",
    ],
)
def test_bad_questions_are_misuse_and_change_nothing(shell: Shell, sql: str) -> None:
    for command in ("quote", "ask"):
        done = shell.run(command, sql, *WISH)
        assert done.exit_code == 2 and done.stderr.startswith("error"), repr(done.exception)
    assert shell.spent() == 0


def test_a_sigma_cannot_be_shared_by_parts(shell: Shell) -> None:
    done = shell.run("ask", AVERAGE, "--sigma", "5")
    assert done.exit_code == 2 and shell.spent() == 0


QUERIES = f'mean = "{AVERAGE}"\ntowns = "{BY_TOWN}"\nboth = "SELECT MIN(age) AS a, MAX(age) AS b FROM people"\n'


def test_named_queries_may_be_derived(tmp_path: Path) -> None:
    shell = Shell(tmp_path)
    path = policy(tmp_path, QUERIES)
    assert shell.json("policy", "check", str(path))["queries"] == ["both", "mean", "towns"]
    shell.json("init", str(shell.bank))
    assert set(shell.json("open", str(path))["queries"]) == {"both", "mean", "towns"}
    assert single(shell.json("ask", "mean", *WISH))["exact"] is None
    assert shell.json("ask", "both", *WISH)["columns"] == ["a", "b"]


def test_explain_knows_derived_questions(tmp_path: Path) -> None:
    shell = Shell(tmp_path)
    plain = 'over_30 = "SELECT COUNT(*) FROM people WHERE age > 30"\n'
    shell.json("init", str(shell.bank))
    shell.json("open", str(policy(tmp_path, plain + QUERIES)))
    explained = shell.json("explain")
    assert "over_30" in json.dumps(explained) and "mean" in json.dumps(explained)
    assert shell.run("explain").exit_code == 0
    negative = shell.json("explain", "SELECT -2 * COUNT_IF(smoker) FROM people")
    assert all(row["error_at_95"] > 0 for row in negative["queries"][0]["errors"])
    assert "change it by 2" in negative["queries"][0]["sensitivity"]


def test_a_curve_of_a_derived_question_is_refused_clearly_or_drawn(shell: Shell) -> None:
    done = shell.run("quote", AVERAGE, *WISH, "--curve")
    assert done.exit_code == 0 or (done.exit_code == 2 and "ask for the SUM and the COUNT" not in done.stderr)


@pytest.mark.parametrize("sql", [BY_TOWN, "SELECT COUNT_IF(smoker) + 5 FROM people", AVERAGE])
def test_a_relative_quote_is_given_where_the_answer_would_be(shell: Shell, sql: str) -> None:
    for command in ("quote", "ask"):
        assert shell.run(command, sql, "--relative", "10%").exit_code == 0, command


# -- policy draft, policy check, open --limits -------------------------------------------------------------------


def test_draft_check_open(tmp_path: Path) -> None:
    shell = Shell(tmp_path)
    write_people(tmp_path)
    drafted = tmp_path / "drafted.toml"
    text = shell.json("policy", "draft", str(tmp_path / "people.csv"))["policy"]
    assert shell.run("policy", "draft", str(tmp_path / "people.csv"), "--out", str(drafted)).exit_code == 0
    assert drafted.read_text() == text
    again = shell.run("policy", "draft", str(tmp_path / "people.csv"), "--out", str(drafted))
    assert again.exit_code == 2 and drafted.read_text() == text  # never overwritten
    assert shell.run("policy", "check", str(drafted)).exit_code == 2  # nobody has filled it in
    drafted.write_text(fill_draft(text, keys='["nowhere"]'))
    checked = shell.json("policy", "check", str(drafted))
    assert checked["name"] == "people" and checked["columns"] == 5
    shell.json("init", str(shell.bank))
    assert shell.run("open", str(drafted)).exit_code == 2  # most values are none of these keys
    assert shell.json("open", str(drafted), "--yes")["rows"] == 20


def test_a_draft_elsewhere_still_finds_its_table(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    write_people(tmp_path / "data")
    out = tmp_path / "here.toml"
    shell = Shell(tmp_path)
    assert shell.run("policy", "draft", str(tmp_path / "data" / "people.csv"), "--out", str(out)).exit_code == 0
    shell.json("init", str(shell.bank))
    out.write_text(fill_draft(out.read_text()))
    assert shell.json("open", str(out), "--yes")["rows"] == 20


def test_check_names_every_mistake(tmp_path: Path) -> None:
    path = policy(tmp_path, 'bad = "SELECT MAX(income) FROM people"\nworse = "DROP TABLE people"\n')
    done = Shell(tmp_path).run("policy", "check", str(path))
    assert done.exit_code == 2 and "queries.bad" in done.stderr and "queries.worse" in done.stderr
    missing = Shell(tmp_path).run("policy", "check", str(tmp_path / "nowhere.toml"), "--json")
    assert missing.exit_code == 2 and strict(missing.stdout)["error"] == "BadPolicy"


def test_open_takes_the_smallest_limit(tmp_path: Path) -> None:
    shell = Shell(tmp_path)
    shell.json("init", str(shell.bank))
    path, limits = policy(tmp_path), tmp_path / "limits.csv"
    limits.write_text("ann,3\nbob,much\n")
    refused = shell.run("open", str(path), "--limits", str(limits))
    assert refused.exit_code == 2 and "line 2" in refused.stderr and "bob" not in refused.stderr
    limits.write_text("# who, epsilon\nann,3\nbob,0.75\n")
    assert shell.json("open", str(path), "--limits", str(limits))["epsilon"] == 0.75
    assert shell.run("ask", BY_TOWN, "-e", "1", "-d", "1e-6").exit_code == 1
    assert shell.run("ask", BY_TOWN, "-e", "0.5", "-d", "1e-6").exit_code == 0
    journal, opened = str(tmp_path / "journal.jsonl"), str(tmp_path / "openings.json")
    shell.json("statement", "--journal", journal, "--openings", opened)
    assert shell.json("verify", journal, "--openings", opened)["passed"]
