"""Drafts a policy file from a table: its columns with types and steps, and marks where only a person can decide.

A sample of the rows tells the types, for the owner's eyes only. The policy becomes public, so nothing else of the rows
gets into the draft: no value, bound, key or count (`bank.column_guess`). People fill in the rest.
"""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass
from pathlib import Path
from textwrap import wrap

from noisebank.bank.column_guess import ColumnGuess, guess_column
from noisebank.core.errors import BadRequest, BadTable
from noisebank.engines.column_profile import profile_columns
from noisebank.engines.duckdb_engine import duckdb_header, duckdb_tables
from noisebank.engines.headers import check_header
from noisebank.policy.file import NAME_PATTERN
from noisebank.policy.model import EngineKind, Kind, Source, Table

SPREADSHEETS = (".xlsx", ".xls", ".ods", ".xlsm")
SERVER_PREFIXES = ("postgresql:", "postgres:")
SERVER_ADVICE = (
    "a draft is made from a file: export some rows of the table as CSV (in psql: \\copy (SELECT * FROM people "
    "LIMIT 10000) TO 'people.csv' CSV HEADER), draft from that, then write the server's source and table into it"
)
MAX_LISTED_TABLES = 20
COMMENT_COLUMN = 26
MAX_LINE = 116
HEADER_TEMPLATE = """\
# A draft of a policy for {file}: what analysts may ask about, and how much. A policy is public.
#
# Types and steps are those of most values in a sample of the rows, which stayed on this machine. Nothing else of
# the rows is in this file: no value, no bound, no key, no count. Keep it so: replace every "FILL IN" by what is
# publicly known or decided beforehand, never by what the table happens to contain. (If not even types shall come
# from the rows, make the draft from a file that has the first line alone.)
#
# Delete the columns that nobody needs. Then: noisebank policy check THIS_FILE
name = "{name}"
source = {source}
{extra}
# One person, with all of their rows, is there or not: nobody can tell from the answers.
neighbours = "add-remove"
unit = "FILL IN"          # "row" if nobody has more than one row; else the column that tells people apart
# max_rows = 3            # with such a column: how many rows of one person count, at most
row_cap = "FILL IN"       # the most rows that the table may ever have: a round number well above today's

[budget]
epsilon = "FILL IN"       # how much all answers together may reveal about a person: 1 is careful, 8 is loose
delta = "FILL IN"         # the chance of more than that: far below one over the number of people, e.g. 1e-6

# In every column: nullable = true allows missing values. Whether a value is missing is data, too, so write false
# only where none can ever be missing. Whole numbers that are codes: keys = [1, 2] instead of bounds.
# For GROUP BY over a number: bins = [18, 40, 65], where groups begin, inside its bounds.
"""
BOUNDS_ADVICE = "[lowest, highest] that is plausible for anybody, e.g. [0, 120] for an age; beyond is clipped"
DATE_BOUNDS_ADVICE = '[first, last] that is plausible, e.g. ["2020-01-01", "2030-12-31"]; beyond is clipped'
ZONE_ADVICE = 'write "UTC", or the time zone whose clock the column shows, such as "Europe/Zurich"'
STEP_ADVICE = "values are rounded to multiples of it"
MISSING_STEP_ADVICE = "the resolution that matters, e.g. 0.01; values are rounded to multiples of it"
KEYS_ADVICE = 'the values to ask about, from a code book or a form, e.g. ["north", "south"]'
TYPE_ADVICE = '"integer", "number", "date" or "timestamp" (add bounds), "text" (add keys), or "boolean"'
UNIT_ADVICE = (
    "# If people have several rows and it tells them apart, it is the unit: name it above, and uncomment this:"
)


@dataclass(frozen=True, slots=True)
class PolicyDraft:
    """The text of a policy file, and which columns it declares and leaves out."""

    text: str
    declared: tuple[str, ...]
    omitted: tuple[str, ...]


def draft_policy(
    path: Path,
    folder: Path | None = None,
    column_names: tuple[str, ...] = (),
    header: bool = False,
    table_name: str | None = None,
) -> PolicyDraft:
    """Returns a policy file for the table in a CSV, Parquet or DuckDB file. Only types and steps come from its rows.

    `folder` is where the policy file will be: its source is relative to it. `column_names` are for a CSV file without a
    header. A header that looks like a row is refused, unless `header` says that it is one. `table_name` is that of a
    table in a DuckDB database.
    """
    source = _find_source(path, column_names, table_name)
    if path.suffix.lower() not in (".parquet", ".duckdb") and not path.stat().st_size:
        raise BadTable(f"{path.name} is empty: a draft needs at least a first line with the names of the columns")
    if not header and not column_names and not table_name:
        check_header(source)
    if path.suffix.lower() != ".parquet":  # there, two names are never the same
        _check_names(path, duckdb_header(source))
    profiles = profile_columns(source)
    has_rows = any(profile.values for profile in profiles)
    guesses = [guess_column(profile, has_rows) for profile in profiles]
    return PolicyDraft(
        _format_draft(path, folder, column_names, table_name, guesses),
        tuple(guess.name for guess in guesses if not guess.omitted),
        tuple(guess.name for guess in guesses if guess.omitted),
    )


def _find_source(path: Path, column_names: tuple[str, ...], table_name: str | None) -> Source:
    if str(path).startswith(SERVER_PREFIXES):
        raise BadTable(SERVER_ADVICE)
    if not path.is_file():
        raise BadTable(f"there is no file {path}: a draft is made from a CSV, Parquet or DuckDB file")
    suffix = path.suffix.lower()
    if suffix in SPREADSHEETS:
        raise BadTable(
            f'{path.name} is a spreadsheet: save it as "CSV UTF-8" with commas, and make the draft from that'
        )
    if (suffix == ".duckdb") != (table_name is not None):
        allowed = "goes with a .duckdb file" if table_name else _describe_tables(path)
        raise BadRequest("table", table_name, allowed)
    if column_names and suffix in (".parquet", ".duckdb"):
        raise BadTable(f"{path.name} has names of its own: column names are for CSV files without a header")
    if table_name is not None:
        return Table(EngineKind.DUCKDB, tuple(table_name.split(".")), path)
    return Table(EngineKind.DUCKDB, path=path, column_names=column_names) if column_names else path


def _describe_tables(path: Path) -> str:
    names = duckdb_tables(path)
    choice = f"one of {', '.join(names[:MAX_LISTED_TABLES])}" if names else "the table in this file"
    return f"say which table to draft from: --table NAME, {choice}"


def _check_names(path: Path, names: tuple[str, ...]) -> None:
    if not names or "" in names or len({name.lower() for name in names}) < len(names):
        raise BadTable(f"{path.name}: its columns need names, all different")


def _format_draft(
    path: Path, folder: Path | None, column_names: tuple[str, ...], table_name: str | None, guesses: list[ColumnGuess]
) -> str:
    where = path.name if folder is None else os.path.relpath(path.resolve(), folder.resolve())
    name = _make_account_name(table_name.rpartition(".")[2] if table_name else path.stem)
    extra = f"column_names = [{', '.join(map(_toml_string, column_names))}]\n" if column_names else ""
    if table_name:
        extra += f"table = {_toml_string(table_name)}\n"
    header = HEADER_TEMPLATE.format(
        source=_toml_string(where),
        file=path.name if path.name.isprintable() else "a table",
        name=name,
        extra=extra,
    )
    sections = [_format_omitted(guess) if guess.omitted else _format_column(guess) for guess in guesses]
    queries = f'[queries]\n# Questions with names; they are public, too.\neveryone = "SELECT COUNT(*) FROM {name}"\n'
    return "\n".join([header, *sections, queries])


def _make_account_name(text: str) -> str:
    """Returns the name of a file or table as one that SQL takes without quotes.

    >>> _make_account_name("Patients 2024"), _make_account_name("7")
    ('patients_2024', 'table_1')
    """
    name = re.sub(r"[^a-z0-9_]+", "_", text.lower()).strip("_")
    return name if NAME_PATTERN.fullmatch(name) else "table_1"


def _format_column(guess: ColumnGuess) -> str:
    """Returns one column's section, with marks at what must be filled in."""
    lines = [*(f"# {note}" for note in guess.notes), f"[columns.{_toml_key(guess.name)}]"]
    if guess.kind is None:
        return "\n".join([*lines, _line('type = "FILL IN"', TYPE_ADVICE), "nullable = true", ""])
    lines.append(f'type = "{guess.kind.value}"')
    if guess.kind is Kind.TEXT:
        lines.append(_line('keys = "FILL IN"', KEYS_ADVICE))
    elif guess.kind in (Kind.DATE, Kind.TIMESTAMP):
        lines.append(_line('bounds = "FILL IN"', DATE_BOUNDS_ADVICE))
        lines += [_line('zone = "FILL IN"', ZONE_ADVICE)] if guess.kind is Kind.TIMESTAMP else []
    elif guess.kind is not Kind.BOOLEAN:
        lines.append(_line('bounds = "FILL IN"', BOUNDS_ADVICE))
    if guess.kind is Kind.NUMBER:
        step = (
            _line(f"step = {guess.step}", STEP_ADVICE) if guess.step else _line('step = "FILL IN"', MISSING_STEP_ADVICE)
        )
        lines.append(step)
    return "\n".join([*lines, "nullable = true", ""])


def _format_omitted(guess: ColumnGuess) -> str:
    """Returns the reason why a column is left out; as comments, also the section that it would have."""
    reason = f"{_toml_key(guess.name)} is left out: {guess.omitted}."
    lines = wrap(reason, MAX_LINE, initial_indent="# ", subsequent_indent="# ")
    if guess.may_be_unit:
        lines += [UNIT_ADVICE, f"# [columns.{_toml_key(guess.name)}]", '# type = "text"']
    return "\n".join([*lines, ""])


def _line(setting: str, advice: str) -> str:
    return f"{setting.ljust(COMMENT_COLUMN - 1)} # {advice}"


def _toml_key(name: str) -> str:
    return name if NAME_PATTERN.fullmatch(name) else _toml_string(name)


def _toml_string(text: str) -> str:
    """Returns a TOML string: JSON's escapes are TOML's. What cannot be seen is escaped, too; nothing is a surrogate.

    >>> _toml_string("Größe"), _toml_string("a\u202eb")
    ('"Größe"', '"a\\\\u202eb"')
    """
    quoted = json.dumps(text.encode("utf-8", "replace").decode(), ensure_ascii=False)
    return "".join(sign if sign.isprintable() else _escape(sign) for sign in quoted)


def _escape(sign: str) -> str:
    return f"\\u{ord(sign):04x}" if ord(sign) < 0x10000 else f"\\U{ord(sign):08x}"
