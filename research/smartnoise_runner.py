"""Asks SmartNoise SQL the questions of an example. Runs in an environment of its own, which knows nothing of ours.

Reads a JSON object from standard input (see `research.smartnoise.describe_world`), writes one outcome per question.
"""

from __future__ import annotations

import csv
import json
import sqlite3
import sys
import warnings
from typing import Any

VALUES = {"": None, "true": 1, "false": 0}
"""Fields of CSV files that SQLite would take for texts."""


def load_tables(folder: str, tables: dict[str, list[str]]) -> sqlite3.Connection:
    """Returns a SQLite database with the CSV files of a folder."""
    connection = sqlite3.connect(":memory:")
    for name, columns in tables.items():
        connection.execute(f"CREATE TABLE {name} ({', '.join(columns)})")
        with open(f"{folder}/{name}.csv", newline="", encoding="utf-8") as file:  # noqa: PTH123
            rows = [[VALUES.get(field, field) for field in row] for row in list(csv.reader(file))[1:]]
        marks = ", ".join("?" for _ in columns)
        connection.executemany(f"INSERT INTO {name} VALUES ({marks})", rows)
    return connection


def ask_question(connection: sqlite3.Connection, metadata: dict[str, Any], sql: str, privacy: Any) -> dict[str, Any]:
    """Returns what SmartNoise answers: its rows, or the error with which it refuses."""
    import snsql

    try:
        reader = snsql.from_connection(connection, privacy=privacy, metadata=metadata, engine="sqlite")
        rows = [list(row) for row in reader.execute(sql)]
    except Exception as error:
        return {"error": f"{type(error).__name__}: {error}".split("\n")[0][:160]}
    return {"rows": rows}


def main() -> None:
    """Answers all questions of the job on standard input."""
    warnings.simplefilter("ignore")
    from snsql import Privacy

    job = json.load(sys.stdin)
    connection = load_tables(job["folder"], job["tables"])
    privacy = Privacy(epsilon=job["epsilon"], delta=job["delta"])
    answers = {name: ask_question(connection, job["metadata"], sql, privacy) for name, sql in job["questions"].items()}
    json.dump(answers, sys.stdout, default=str)


if __name__ == "__main__":
    main()
