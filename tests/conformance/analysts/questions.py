"""Reads the questions of this folder, and compares an answer with what DuckDB says of the generated tables.

`-- NAME answer` in front of a question: the value is right and inside of its interval. `wide`: the value is right, and
the noise so large that nothing may bound it. `within`: a quantile, known up to a bin. `refuse`: it is refused, and
names a question that is answered. `public`: the refusal says a number that everybody knows. Below `-- exactly` stands
what DuckDB is asked, where that differs.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from conformance.sixty.exact import comparable
from noisebank import Result

HEADLINE = re.compile(r"-- (?P<name>[A-Z]\d{3}) (?P<expect>answer|wide|within|refuse|public)")
TOLERANCE = 1e-9


@dataclass
class AnalystQuestion:
    """One question, what to expect, and what to compare it with."""

    name: str
    expect: str
    sql: str = ""
    exact_sql: str = ""

    @property
    def is_answered(self) -> bool:
        """Whether it is answered."""
        return self.expect in ("answer", "wide", "within")


def read_questions(path: Path) -> list[AnalystQuestion]:
    """Returns the questions of a file, in their order."""
    questions: list[AnalystQuestion] = []
    is_exact = False
    for line in path.read_text(encoding="utf-8").splitlines():
        match = HEADLINE.fullmatch(line)
        if match is not None:
            questions.append(AnalystQuestion(match["name"], match["expect"]))
            is_exact = False
        elif line == "-- exactly":
            is_exact = True
        elif is_exact:
            questions[-1].exact_sql += line + "\n"
        elif line.strip():
            questions[-1].sql += line + "\n"
    for question in questions:
        question.sql = question.sql.strip().removesuffix(";")
        question.exact_sql = question.exact_sql.strip().removesuffix(";") or question.sql
    return questions


def find_difference(question: AnalystQuestion, result: Result, exact: list[tuple[Any, ...]]) -> str:
    """Returns what is wrong with an answer; nothing if it has the right columns, rows, values and order."""
    own = [[cell_of(result, number, name) for name in result.columns] for number in range(len(result.rows))]
    keys = [place for place, name in enumerate(result.columns) if name in result.by]
    if exact and len(exact[0]) != len(result.columns):
        return f"{len(result.columns)} columns instead of {len(exact[0])}"
    rows = {tuple(row[place] for place in keys): row for row in own}
    order = []
    for values in exact:
        key = tuple(comparable(values[place]) for place in keys)
        if key not in rows:
            return f"no row {key}"
        order.append(key)
        for place, name in enumerate(result.columns):
            if place not in keys:
                difference = find_cell_difference(question, rows[key][place], values[place])
                if difference:
                    return f"{name} of {key} {difference}"
    extra = [key for key in rows if key not in set(order)]
    if extra and not re.search(
        r" OVER |AVG", question.sql
    ):  # groups that nobody is in; a running sum has numbers there
        for key in extra:
            for place, name in enumerate(result.columns):
                cell = rows[key][place]
                if place not in keys and cell.low is not None and not cell.low <= 0 <= cell.high:
                    return f"{name} of {key}, where nobody is, is {cell}"
    if not extra and re.search(r"ORDER BY [^)]*$", question.sql) and list(rows) != order:
        same = sorted(map(str, rows)) == sorted(map(str, order))
        return (
            f"rows are in the order {list(rows)[:4]} instead of {order[:4]}" if not ties(question) or not same else ""
        )
    return ""


def ties(question: AnalystQuestion) -> bool:
    """Whether several rows may have what a question is ordered by."""
    return question.name in TIES


TIES: set[str] = {"M113", "C144"}


def cell_of(result: Result, number: int, name: str) -> Any:
    """Returns a cell of a result: a key in comparable form, or an estimate."""
    row = result.rows[number]
    if name in result.by:
        return comparable(row.keys[result.by.index(name)])
    return row.estimates[result.items.index(name)]


def find_cell_difference(question: AnalystQuestion, estimate: Any, exact: Any) -> str:
    """Returns what is wrong with a number."""
    if exact is None:
        return "" if estimate.value is None or question.expect == "wide" else f"is {estimate.value} instead of NULL"
    if isinstance(exact, str):
        return "" if estimate.label == exact else f"is {estimate.label} instead of {exact}"
    number = float(exact)
    slack = TOLERANCE * max(1.0, abs(number))
    ends = (estimate.low, estimate.high)
    if question.expect != "wide" and (estimate.value is None or None in ends):
        return f"is {estimate}"
    if None not in ends and not estimate.low - slack <= number <= estimate.high + slack:
        return f"{number} is outside of {estimate}"
    if question.expect != "within" and (estimate.value is None or abs(estimate.value - number) > slack):
        return f"is {estimate.value} instead of {number}"
    return ""
