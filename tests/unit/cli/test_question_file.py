"""`noisebank ask --file`: many questions, each with its own outcome."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from hypothesis import given
from hypothesis import strategies as st

from noisebank.bank.bank import create_bank, open_bank
from noisebank.cli.main import main
from noisebank.queries.question_list import split_questions
from support.banks import write_people

ADULTS, SMOKERS = "SELECT COUNT(*) FROM people WHERE age > 17", "SELECT COUNT(*) FROM people WHERE smoker"
PIECES = st.text(st.characters(codec="ascii", exclude_characters="'\";\x00", exclude_categories=("C",)), min_size=1)


@pytest.fixture
def bank(tmp_path: Path) -> Path:
    create_bank(tmp_path / "bank")
    with open_bank(tmp_path / "bank") as bank:
        bank.open_account(write_people(tmp_path, epsilon="1"))
    return tmp_path / "bank"


def ask_file(bank: Path, text: str, *options: str) -> Result:
    (bank.parent / "questions.sql").write_text(text)
    arguments = ["ask", "--file", str(bank.parent / "questions.sql"), "--bank", str(bank), *options]
    return CliRunner().invoke(main, arguments)


@given(st.lists(PIECES.filter(lambda text: text.strip() and "--" not in text), max_size=5), st.sampled_from("\n;"))
def test_what_was_joined_is_split(pieces: list[str], separator: str) -> None:
    text = separator.join([*pieces, ""]) if pieces else ""
    assert split_questions(text) == [piece.strip() for piece in pieces]


@pytest.mark.parametrize(
    ("text", "questions"),
    [
        ("a 'x;y' ; b", ["a 'x;y'", "b"]),
        ("a 'it''s; so'; b", ["a 'it''s; so'", "b"]),
        ('a ";" ;b', ['a ";"', "b"]),
        ("a -- not; this\n; b - 1;", ["a", "b - 1"]),
        ("-- only a comment\n", []),
        ("a\nb; c", ["a\nb", "c"]),
        ("a\r\n\r\nb\r\n", ["a", "b"]),
        ("a 'never closed\nb", ["a 'never closed", "b"]),
    ],
)
def test_quotes_and_comments(text: str, questions: list[str]) -> None:
    assert split_questions(text) == questions


def test_each_question_has_its_outcome(bank: Path) -> None:
    asked = ask_file(bank, f"{ADULTS}\nSELECT nothing FROM people\n{SMOKERS}\n", "--sigma", "50", "--json")
    first, wrong, second = json.loads(asked.stdout)["outcomes"]
    assert asked.exit_code == 1
    assert first["answer"]["sql"] == ADULTS and second["answer"]["charge"]["case"] == "FIRST"
    assert wrong["answer"] is None and wrong["problem"]["error"] == "BadQuery"
    shown = ask_file(bank, f"{ADULTS};\n{SMOKERS};", "--sigma", "50")
    assert shown.exit_code == 0 and "2 of 2" in shown.stdout and shown.stdout.count("REPEAT") == 2


def test_the_same_key_charges_once(bank: Path) -> None:
    options = ("--sigma", "50", "--json", "--key", "mine", "--receipt", str(bank.parent / "receipt.json"))
    first, again = (json.loads(ask_file(bank, f"{ADULTS}\n{SMOKERS}", *options).stdout) for _ in range(2))
    assert first == again
    with open_bank(bank) as opened:
        assert opened.account().state.measurements == 2
    assert (bank.parent / "receipt.json.2").is_file()


def test_together_or_not_at_all(bank: Path) -> None:
    dear = "SELECT SUM(income) FROM people"
    refused = ask_file(bank, f"{ADULTS}\n{dear}", "--sigma", "10", "--atomic", "--json")
    problems = {row["problem"]["error"] for row in json.loads(refused.stdout)["outcomes"]}
    assert refused.exit_code == 1 and problems == {"BudgetExhausted"}
    with open_bank(bank) as opened:
        assert not opened.account().state.spent
    alone = ask_file(bank, f"{ADULTS}\n{dear}", "--sigma", "10", "--json")
    assert [row["answer"] is None for row in json.loads(alone.stdout)["outcomes"]] == [False, True]
    together = ask_file(bank, f"{ADULTS}\n{SMOKERS}", "--sigma", "60", "--atomic", "--json")
    assert together.exit_code == 0 and all(row["answer"] for row in json.loads(together.stdout)["outcomes"])
    named = ask_file(bank, f"{ADULTS}\nSELECT COUNT(*) FROM strangers", "--sigma", "60", "--atomic", "--json")
    assert named.exit_code == 1 and not any(row["answer"] for row in json.loads(named.stdout)["outcomes"])


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ([], "ask one question, or those of a --file"),
        ([ADULTS, "--file", "x"], "ask one question, or those of a --file"),
        ([ADULTS, "--atomic"], "goes with --file"),
        (["--file", "not/there"], "cannot be read"),
        (["--file", "-"], "holds no question"),
    ],
)
def test_what_is_wrong_is_said(bank: Path, arguments: list[str], says: str) -> None:
    refused = CliRunner().invoke(main, ["ask", *arguments, "--sigma", "50", "--bank", str(bank)], input=" \n")
    assert refused.exit_code == 2 and says in refused.stderr
