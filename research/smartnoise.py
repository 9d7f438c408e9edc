"""Asks SmartNoise SQL the questions of `examples/`, and noisebank beside it: what each accepts, and what it answers.

SmartNoise needs another edition of OpenDP than we do, so it lives in an environment of its own:

    python -m venv smartnoise && smartnoise/bin/pip install smartnoise-sql
    python -m research smartnoise --python smartnoise/bin/python
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from examples.questions import ExampleQuestion, Expectation, read_questions
from examples.tables import Table
from examples.worlds import WORLDS, World
from noisebank import NoisebankError, create_bank, open_bank, read_policy
from noisebank.policy.model import Column, Kind, Neighbours, Policy

EPSILON, DELTA = "1", "1e-6"
"""Of each question alone, for both."""
RUNNER = Path(__file__).with_name("smartnoise_runner.py")


@dataclass(frozen=True, slots=True)
class Comparison:
    """One question: what SmartNoise and noisebank make of it."""

    question: ExampleQuestion
    smartnoise: str
    noisebank: str

    def to_json(self) -> dict[str, str]:
        """Returns a JSON object."""
        return {"question": self.question.name, "smartnoise": self.smartnoise, "noisebank": self.noisebank}

    @property
    def smartnoise_answers(self) -> bool:
        """Whether SmartNoise gives any answer."""
        return not self.smartnoise.startswith("refused")

    @property
    def noisebank_answers(self) -> bool:
        """Whether noisebank gives an answer."""
        return not self.noisebank.startswith("refused")


@click.command()
@click.option("--python", default=sys.executable, help="A Python that has smartnoise-sql; this one if not said.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per question.")
@click.option("--page", type=click.Path(path_type=Path), help="Write the page of docs/results to this file.")
def smartnoise(python: str, page: Path | None, as_json: bool) -> None:
    """Ask SmartNoise SQL and noisebank the sixty questions of examples/, and compare.

    Example:  python -m research smartnoise --python smartnoise/bin/python --page docs/results/smartnoise.md
    """
    with tempfile.TemporaryDirectory() as folder:
        rows = [row for world in WORLDS.values() for row in compare_world(world, Path(folder) / world.name, python)]
    text = write_page(rows)
    if page is not None:
        page.write_text(text, encoding="utf-8")
    if as_json:
        text = "\n".join(json.dumps(row.to_json()) for row in rows)
    click.echo(text)


def compare_world(world: World, folder: Path, python: str) -> list[Comparison]:
    """Returns the comparison of all questions of an example."""
    world.write_files(folder)
    questions = read_questions(world.name)
    job = describe_world(world, folder, questions)
    process = subprocess.run([python, RUNNER], input=json.dumps(job), text=True, stdout=subprocess.PIPE, check=True)
    answers = json.loads(process.stdout)
    ours = ask_bank(world, folder, questions)
    return [Comparison(each, describe_outcome(answers[each.name]), ours[each.name]) for each in questions]


def describe_world(world: World, folder: Path, questions: tuple[ExampleQuestion, ...]) -> dict[str, Any]:
    """Returns the job of the runner: tables, SmartNoise's metadata made from our policies, and questions."""
    policies = {name: read_policy(folder / f"{name}.toml") for name in world.policies}
    tables = world.make_tables()
    metadata = {table.name: describe_table(table, policies.get(table.name)) for table in tables}
    return {
        "folder": str(folder),
        "tables": {
            table.name: [f'"{name}" {find_type(table, index)}' for index, name in enumerate(table.columns)]
            for table in tables
        },
        "metadata": {"": {"": metadata}},
        "questions": {question.name: question.sql for question in questions},
        "epsilon": float(EPSILON),
        "delta": float(DELTA),
    }


def find_type(table: Table, index: int) -> str:
    """Returns SQLite's type of a column, by its first value that is known."""
    value = next(row[index] for row in table.rows if row[index] is not None)
    return "INTEGER" if isinstance(value, int) else "REAL" if isinstance(value, float) else "TEXT"


def describe_table(table: Table, policy: Policy | None) -> dict[str, Any]:
    """Returns SmartNoise's metadata of a table: the same bounds and the same unit as ours."""
    if policy is None:
        return {"rows": len(table.rows), "row_privacy": True} | {name: {"type": "string"} for name in table.columns}
    fields: dict[str, Any] = {"rows": len(table.rows)}
    if policy.unit == "row":
        fields["row_privacy"] = True
    else:
        fields["max_ids"] = policy.max_rows
    for name in table.columns:
        column = policy.columns.get(name)
        if name == policy.unit:
            fields[name] = {"type": "string", "private_id": True}
        else:
            fields[name] = {"type": "string"} if column is None else describe_column(column)
    if policy.neighbours is Neighbours.ADD_REMOVE:
        fields["censor_dims"] = False  # declared keys are public: nothing needs to be hidden
    return fields


def describe_column(column: Column) -> dict[str, Any]:
    """Returns SmartNoise's metadata of a column."""
    if column.kind in (Kind.INTEGER, Kind.NUMBER) and column.low is not None:
        low, high = (float(bound * column.step) for bound in column.bounds)
        return {"type": "int" if column.kind is Kind.INTEGER else "float", "lower": low, "upper": high}
    names = {Kind.BOOLEAN: "boolean", Kind.TEXT: "string"}
    return {"type": names.get(column.kind, "datetime")}


def ask_bank(world: World, folder: Path, questions: tuple[ExampleQuestion, ...]) -> dict[str, str]:
    """Returns what noisebank makes of each question, with the same epsilon for each."""
    outcomes: dict[str, str] = {}
    with open_bank(create_bank(folder / "bank")) as bank:
        accounts = {}
        for name in world.policies:
            path = folder / f"{name}.toml"
            text = path.read_text(encoding="utf-8")
            lines = ["epsilon = 100" if line.startswith("epsilon = ") else line for line in text.splitlines()]
            path.write_text("\n".join(lines) + "\n", encoding="utf-8")
            accounts[name] = bank.open_account(path)
        for question in questions:
            name = question.first_table(world.policies)
            try:
                result = accounts[name].ask(question.sql, epsilon=EPSILON, delta=DELTA)
            except NoisebankError as error:
                outcomes[question.name] = f"refused: {str(error).splitlines()[0]}"
                continue
            rows = [[*row.keys, *(estimate.value for estimate in row.estimates)] for row in result.rows]
            outcomes[question.name] = describe_rows(rows)
    return outcomes


def describe_outcome(outcome: dict[str, Any]) -> str:
    """Returns SmartNoise's outcome in one line."""
    return f"refused: {outcome['error']}" if "error" in outcome else describe_rows(outcome["rows"][1:])


def describe_rows(rows: list[list[Any]]) -> str:
    """Returns the number of rows, and the first of them."""
    if not rows:
        return "no rows"
    first = ", ".join(f"{each:.6g}" if isinstance(each, float) else str(each) for each in rows[0])
    return f"{first}" if len(rows) == 1 else f"{len(rows)} rows: {first}; ..."


def write_page(rows: list[Comparison]) -> str:
    """Returns the page of docs/results."""
    answerable = [row for row in rows if row.question.expect in (Expectation.ANSWER, Expectation.DECLARED)]
    theirs, ours = count_answers(rows)
    theirs_answerable, ours_answerable = count_answers(answerable)
    lines = [
        "# The sixty questions, beside SmartNoise SQL",
        "",
        "The questions of `examples/`, at epsilon 1 and delta 1e-6 each, with the same bounds. SmartNoise runs on",
        "SQLite.",
        "",
        "`python -m research smartnoise --python smartnoise/bin/python --page PAGE` makes this page.",
        "",
        f"- SmartNoise SQL answers {theirs} of {len(rows)}, noisebank {ours}.",
        f"- Of the {len(answerable)} that need no second contract and ask for no single rows, SmartNoise answers "
        f"{theirs_answerable}, noisebank {ours_answerable}.",
        "- Numbers are single noisy draws; SmartNoise states none of its intervals here, noisebank all of them.",
        "",
        "| question | SmartNoise SQL | noisebank |",
        "|---|---|---|",
        *(f"| {row.question.name} | {cell(row.smartnoise)} | {cell(row.noisebank)} |" for row in rows),
        "",
    ]
    return "\n".join(lines)


def count_answers(rows: list[Comparison]) -> tuple[int, int]:
    """Returns how many questions SmartNoise answers, and how many noisebank does."""
    return sum(row.smartnoise_answers for row in rows), sum(row.noisebank_answers for row in rows)


def cell(text: str, limit: int = 120) -> str:
    """Returns a text that fits into a cell of a table."""
    plain = text.replace("|", "/").replace("\n", " ")
    return plain if len(plain) <= limit else plain[: limit - 3] + "..."
