"""`Table`: a generated table, and how it is written as CSV."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime
from pathlib import Path

Value = str | int | float | bool | date | datetime | None


@dataclass(frozen=True, slots=True)
class Table:
    """A table with its columns and rows. None is a missing value."""

    name: str
    columns: tuple[str, ...]
    rows: Sequence[tuple[Value, ...]]

    def write_csv(self, folder: Path) -> Path:
        """Writes the table into a folder, with a header; returns the file's path."""
        path = folder / f"{self.name}.csv"
        with path.open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(self.columns)
            writer.writerows([format_value(value) for value in row] for row in self.rows)
        return path


def format_value(value: Value) -> str:
    """Returns a value as CSV text: nothing for a missing one, ISO dates, lower-case truth values."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, datetime):
        return value.isoformat(sep=" ")
    return str(value)
