"""Drafts a policy file from a table's schema: names and types, never values. People fill in the bounds.

Bounds chosen after looking at the data would put data into the policy, which is public.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

from noisebank.core.errors import BadTable
from noisebank.engines.duckdb_engine import csv_header
from noisebank.engines.headers import check_header
from noisebank.policy.file import NAME

INTEGERS = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT")
NUMBERS = ("DOUBLE", "FLOAT", "DECIMAL", "REAL")

HEAD = """\
# A draft, made from the names and types of {file} alone: no value is in it.
# Fill in what is marked. Use what is publicly known, never what the table happens to contain:
# this policy is public, and every price and guarantee follows from it. That goes for types, too, if
# whoever wrote the file took them from its rows (a missing value turns whole numbers into others).
name = "{name}"
source = {source}
{names}
# What one person can change: "replace-one" (their row becomes any other; the number of rows is
# public: say rows = N) or "add-remove" (their row is there or not: say row_cap = N).
neighbours = "add-remove"
row_cap = 1000000            # FILL IN: the most rows that the table may ever have

# Every row is a person, unless a column tells people apart (then say row_cap, never rows):
# unit = "person_id"
# max_rows = 3               # how many rows of one person count

[budget]
epsilon = 1                  # FILL IN: what all answers together may give away
delta = 1e-6                 # FILL IN: far below one over the number of people
"""


def draft_policy(
    source: Path, folder: Path | None = None, column_names: tuple[str, ...] = (), header: bool = False
) -> str:
    """Returns the text of a policy file for the table in a CSV or Parquet file, from its schema only.

    `folder` is where the policy file will be: its source is relative to it. `column_names` are for a CSV file without a
    header. A header that looks like a row is refused, unless `header` says that it is one.
    """
    columns = _schema(source, column_names)
    if not header and not column_names:
        check_header(source)
    names = [name for name, _ in columns]
    if not names or "" in names or len({name.lower() for name in names}) < len(names):
        raise BadTable(f"{source.name}: its columns need names, all different")
    where = source.name if folder is None else os.path.relpath(source.resolve(), folder.resolve())
    name = source.stem.lower()
    if not NAME.fullmatch(name):
        name = "table_1"
    text = [
        HEAD.format(
            source=_text(where),
            file=source.name if source.name.isprintable() else "a table",
            name=name,
            names=f"column_names = [{', '.join(map(_text, column_names))}]\n" if column_names else "",
        )
    ]
    text += [_column(column, kind) for column, kind in columns]
    text.append('[queries]\n# over_60 = "SELECT COUNT(*) FROM ' + name + ' WHERE age > 60"\n')
    return "\n".join(text)


def _schema(source: Path, column_names: tuple[str, ...]) -> list[tuple[str, str]]:
    """Returns names and types; empty types for a CSV file: none are guessed from its rows."""
    if not source.is_file():
        raise BadTable(f"there is no file {source}")
    if source.suffix.lower() != ".parquet":
        return [(name, "") for name in csv_header(source, column_names)]
    if column_names:
        raise BadTable(f"{source.name} has names of its own: column names are for CSV files without a header")
    return _parquet_schema(source)


def _parquet_schema(source: Path) -> list[tuple[str, str]]:
    import duckdb

    try:
        with duckdb.connect() as connection:
            rows = connection.execute("DESCRIBE SELECT * FROM read_parquet(?)", [str(source)]).fetchall()
    except duckdb.Error as error:
        raise BadTable(f"{source} cannot be read by DuckDB ({type(error).__name__})") from None
    return [(str(row[0]), str(row[1])) for row in rows]


def _text(text: str) -> str:
    """Returns a TOML string: JSON's escapes are TOML's, if all but ASCII is escaped and nothing is a surrogate."""
    return json.dumps(text.encode("utf-8", "replace").decode()).replace("\x7f", "\\u007f")


def _column(name: str, kind: str) -> str:
    """Returns one column's section, with marks at what must be filled in."""
    title = name if NAME.fullmatch(name) else _text(name)
    base = kind.split("(")[0].upper()
    if base in INTEGERS or base in NUMBERS:
        integer = base in INTEGERS
        step = "" if integer else "step = 0.01                  # FILL IN: the resolution that matters\n"
        return (
            f'[columns.{title}]\ntype = "{"integer" if integer else "number"}"\n'
            f"bounds = [0, 100]            # FILL IN: values beyond are clipped to these\n{step}"
            "# bins = [20, 40, 60, 80]    # for GROUP BY, quantiles\n# nullable = true\n"
        )
    if base == "BOOLEAN":
        return f'[columns.{title}]\ntype = "boolean"\n# nullable = true\n'
    guess = (
        ""
        if kind
        else '# type = "integer"          # a CSV file has no types: "integer", "number", "boolean" or "text"\n'
    )
    return (
        f'[columns.{title}]\n{guess}type = "text"\n'
        'keys = ["FILL", "IN"]        # the values that may be asked about; any other is "none of them"\n'
        "# nullable = true\n"
    )
