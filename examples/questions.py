"""Reads the questions of an example: SQL statements, each below a comment with its name and what to expect of it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

FOLDER = Path(__file__).parent
HEADLINE = re.compile(r"-- (?P<name>[A-Z]\d\d) (?P<expect>[a-z]+)")


class Expectation(Enum):
    """What a bank does with a question."""

    ANSWER = "answer"
    DECLARED = "declared"
    """Answers it because the policy declares keys or bounds for it."""
    REFUSE = "refuse"
    """Refuses it whatever is declared: it asks for single rows or people."""
    LATER = "later"
    """Refuses it today: it needs a join, one number per person, or distinct people."""


@dataclass(frozen=True, slots=True)
class ExampleQuestion:
    """One question that people write."""

    name: str
    expect: Expectation
    sql: str

    def first_table(self, names: tuple[str, ...]) -> str:
        """Returns the first table of FROM that is one of these."""
        return next(match[1] for match in re.finditer(r"FROM (\w+)", self.sql) if match[1] in names)


def read_questions(example: str) -> tuple[ExampleQuestion, ...]:
    """Returns the questions of an example ("hospital", "survey" or "meters"), in their order."""
    return parse_questions((FOLDER / example / "questions.sql").read_text(encoding="utf-8"))


def parse_questions(text: str) -> tuple[ExampleQuestion, ...]:
    """Returns the questions in a text. Each ends with a semicolon."""
    questions = []
    headline: re.Match[str] | None = None
    lines: list[str] = []
    for line in text.splitlines():
        if match := HEADLINE.fullmatch(line):
            headline, lines = match, []
        elif headline is not None and line and not line.startswith("--"):
            lines.append(line)
            if line.endswith(";"):
                sql = "\n".join(lines).removesuffix(";")
                questions.append(ExampleQuestion(headline["name"], Expectation(headline["expect"]), sql))
                headline = None
    return tuple(questions)
