"""Reads a policy file (TOML) into a `Policy`. All mistakes are collected in one pass, each with its line."""

from __future__ import annotations

import re
import tomllib
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from math import prod
from pathlib import Path
from types import MappingProxyType
from typing import Any

from noisebank.core.errors import BadPolicy, BadRequest, Mistake
from noisebank.core.units import parse_exact
from noisebank.policy.columns import ColumnReader, format_value, refuse_unknown_keys
from noisebank.policy.expectations import Expectation, Workload, parse_expectation
from noisebank.policy.model import MAX_CELLS, MAX_ROWS, Column, Kind, Neighbours, Policy, Source, Table
from noisebank.policy.schema import TOP_KEYS
from noisebank.policy.source import SourceReader
from noisebank.privacy.calibration import check_delta, check_epsilon

NAME_PATTERN = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,62}")
UNFILLED_MARK = re.compile(r"^\s*[^#\s].*(\"FILL IN\"|# FILL IN|\"FILL\",\s*\"IN\")")
"""How a draft marks what a person must fill in: instead of the value, or (in older drafts) beside it."""
FILLINGS = {
    "bounds": "write [lowest, highest], e.g. [0, 120]",
    "keys": 'write a list of texts, e.g. ["north", "south"]',
    "step": "write the resolution that matters, e.g. 0.01",
    "zone": 'write "UTC", or the zone whose clock the column shows, e.g. "Europe/Zurich"',
    "type": 'write "integer", "number", "boolean", "text", "date" or "timestamp"',
    "unit": 'write "row", or the column that tells people apart',
    "row_cap": "write the most rows that the table may ever have",
    "epsilon": "write what all answers together may reveal, e.g. 1",
    "delta": "write a chance far below one over the number of people, e.g. 1e-6",
}
TOML_ADVICE = 'write numbers like 10000 or 0.5, texts in "straight quotes", lists like [0, 120], true or false'
DATE_FILLING = 'write the first and the last date that are plausible, e.g. ["2020-01-01", "2030-12-31"]'
FORMER_KEYS = {
    "first_look": 'leave it out, or write expect = ["marginals", "ranges"] if that is what will be asked',
    "first_look_at": 'write expect = ["marginals", "ranges"] instead: a look is then bought with the first question',
}
"""Settings of an earlier release, and what to write instead."""


def read_policy(path: Path | str) -> Policy:
    """Returns the policy in the file at `path`; its `source` is relative to that file."""
    path = Path(path)
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "not UTF-8 text"
        raise BadPolicy((Mistake(0, str(path), f"cannot be read ({reason})", "name a policy file"),)) from None
    return parse_policy(text, path.parent, str(path))


def parse_policy(text: str, folder: Path, origin: str = "policy") -> Policy:
    """Returns the policy written in `text`; raises `BadPolicy` with all of its mistakes."""
    try:
        tree = tomllib.loads(text, parse_float=Decimal)
    except (ArithmeticError, RecursionError, ValueError) as error:
        if not isinstance(error, tomllib.TOMLDecodeError):
            what = "a number or a nesting is of no ordinary size"
            raise BadPolicy((Mistake(0, "TOML", what, "write shorter numbers and flat lists"),), origin) from None
        match = re.search(r"at line (\d+)", str(error))
        line = int(match.group(1)) if match else text.count("\n") + 1
        raise BadPolicy((_describe_toml_mistake(text, line, str(error)),), origin) from None
    lines = _find_lines(text)
    reader = _PolicyReader(tree, lines)
    policy = reader.build_policy(folder)
    unfilled = _find_unfilled(text, lines, tree)
    marked = {mistake.line for mistake in unfilled}
    mistakes = [*unfilled, *(mistake for mistake in reader.mistakes if mistake.line not in marked)]
    if mistakes or policy is None:
        raise BadPolicy(tuple(sorted(mistakes, key=lambda mistake: mistake.line)), origin)
    return policy


def locate_mistakes(error: BadPolicy, path: Path) -> BadPolicy:
    """Returns the same mistakes with the lines of the file, for those that were found in a policy already read."""
    lines = _find_lines(path.read_text(encoding="utf-8"))
    return BadPolicy(
        tuple(replace(mistake, line=mistake.line or lines.get(mistake.where, 0)) for mistake in error.mistakes),
        str(path),
    )


def _describe_toml_mistake(text: str, number: int, reason: str) -> Mistake:
    """Quotes the line if it is a setting, since who fills in a policy need not know TOML; never a row of a table."""
    lines = text.splitlines()
    line = lines[number - 1].partition(" #")[0].strip()[:60] if 0 < number <= len(lines) else ""
    quoted = f"{line}: " if re.match(r"[\w.\"-]+ *=|\[", line) else ""
    return Mistake(number, "TOML", f"{quoted}{reason[:1].lower()}{reason[1:]}", TOML_ADVICE)


def _find_unfilled(text: str, lines: dict[str, int], tree: dict[str, Any]) -> list[Mistake]:
    """Returns every line that a draft marked and that nobody has filled in."""
    keys = {number: key for key, number in lines.items()}
    return [
        Mistake(number, keys.get(number, "draft"), "says FILL IN", _describe_filling(keys.get(number, ""), tree))
        for number, line in enumerate(text.splitlines(), start=1)
        if UNFILLED_MARK.search(line)
    ]


def _describe_filling(key: str, tree: dict[str, Any]) -> str:
    """Returns what to write for a setting such as columns.age.bounds."""
    table, _, setting = key.rpartition(".")
    columns = tree.get("columns")
    column = columns.get(table.removeprefix("columns."), {}) if isinstance(columns, dict) else {}
    if (
        setting == "bounds"
        and isinstance(column, dict)
        and column.get("type") in (Kind.DATE.value, Kind.TIMESTAMP.value)
    ):
        return DATE_FILLING
    return FILLINGS.get(setting, "write what is publicly known, and take the mark away")


class _PolicyReader:
    """Reads the parsed TOML and collects mistakes instead of stopping at the first."""

    def __init__(self, tree: dict[str, Any], lines: dict[str, int]) -> None:
        self.tree, self.lines = tree, lines
        self.mistakes: list[Mistake] = []

    def add_mistake(self, where: str, what: str, right: str) -> None:
        probe = where
        while probe and probe not in self.lines:
            probe = probe.rpartition(".")[0]
        self.mistakes.append(Mistake(self.lines.get(probe, 1), where, what, right))

    def build_policy(self, folder: Path) -> Policy | None:
        refuse_unknown_keys(self.add_mistake, "", self.tree, (*TOP_KEYS, *FORMER_KEYS))
        for key in FORMER_KEYS:
            if key in self.tree:
                self.add_mistake(key, "is no setting any more: a look is bought when it is earned", FORMER_KEYS[key])
        name = self._read_name()
        source = SourceReader(self.tree, folder, self.add_mistake).read_source()
        neighbours = self._read_neighbours()
        row_cap = self._read_row_cap(neighbours)
        columns = ColumnReader(self.tree, self.add_mistake).read_columns()
        self._check_column_names(source, columns)
        unit, max_rows = self._read_unit(columns)
        epsilon = self._read_budget("epsilon", check_epsilon)
        delta = self._read_budget("delta", check_delta)
        delay = self._read_integer("raise_delay_hours", 0, 24 * 365, default=24)
        queries = self._read_queries()
        cubes = self._read_cubes(columns)
        hidden, expect = self._read_hide_questions(), self._read_expect()
        if self.mistakes or neighbours is None or source is None:
            return None
        return Policy(
            name=name,
            source=source,
            neighbours=neighbours,
            row_cap=row_cap,
            columns=MappingProxyType(columns),
            epsilon=epsilon,
            delta=delta,
            unit=unit,
            max_rows=max_rows,
            raise_delay=delay * 3600,
            queries=MappingProxyType(queries),
            cubes=cubes,
            hide_questions=hidden,
            expect=expect,
        )

    def _check_column_names(self, source: Source | None, columns: dict[str, Column]) -> None:
        names = source.column_names if isinstance(source, Table) else ()
        for name in columns if names else ():
            if name not in names:
                self.add_mistake(f"columns.{name}", "is none of column_names", "write the same name in both places")

    def _read_name(self) -> str:
        name = self._read_text("name", 'write name = "survey"')
        if name and not NAME_PATTERN.fullmatch(name):
            self.add_mistake("name", f"{name!r} is no name", "use letters, digits and _, at most 63, not a digit first")
        return name

    def _read_text(self, key: str, right: str) -> str:
        value = self.tree.get(key)
        if not isinstance(value, str) or not value or "\x00" in value:
            self.add_mistake(key, "is missing" if value is None else f"{value!r} is no text", right)
            return ""
        return value

    def _read_integer(self, key: str, low: int, high: int, default: int) -> int:
        value = self.tree.get(key, default)
        if type(value) is not int or not low <= value <= high:
            self.add_mistake(key, f"{value!r} does not fit", f"write a whole number from {low} to {high}")
            return default
        return value

    def _read_neighbours(self) -> Neighbours | None:
        value = self.tree.get("neighbours")
        try:
            return Neighbours(value)
        except ValueError:
            what = "is missing" if value is None else f"{value!r} is unknown"
            self.add_mistake("neighbours", what, 'write "replace-one" (with rows) or "add-remove" (with row_cap)')
            return None

    def _read_row_cap(self, neighbours: Neighbours | None) -> int:
        """Reads `rows` or `row_cap`. Neighbours share the number of rows only where one row replaces another. Where a
        person's rows are replaced by somebody else's, their number is private, and the policy gives a cap."""
        if neighbours is None:
            return 1
        replaced = neighbours is Neighbours.REPLACE_ONE
        exact = replaced and self.tree.get("unit", "row") == "row"
        needed, other = ("rows", "row_cap") if exact else ("row_cap", "rows")
        meaning = "the public number of rows" if exact else "the most rows that it may ever have"
        if other in self.tree:
            unit = " and a unit column" if replaced and not exact else ""
            self.add_mistake(
                other, f"does not go with {neighbours.value!r}{unit}", f"write {needed} = {meaning} instead"
            )
        if needed not in self.tree:
            self.add_mistake(needed, "is missing", f"write {needed} = {meaning}")
            return 1
        return self._read_integer(needed, 1, MAX_ROWS, 1)

    def _read_unit(self, columns: dict[str, Column]) -> tuple[str, int]:
        unit = self.tree.get("unit", "row")
        if unit == "row":
            if "max_rows" in self.tree:
                self.add_mistake("max_rows", 'does not go with unit = "row"', "name the column that tells people apart")
            return "row", 1
        if not isinstance(unit, str) or unit not in columns:
            self.add_mistake(
                "unit", f"{unit!r} is no declared column", 'write "row" or the column that tells people apart'
            )
            return "row", 1
        if "max_rows" not in self.tree:
            self.add_mistake(
                "max_rows", "is missing", "write the most rows of one person that count, e.g. max_rows = 3"
            )
        return unit, self._read_integer("max_rows", 1, 1_000_000, 1)

    def _read_budget(self, key: str, check: Any) -> Fraction:
        budget = self.tree.get("budget")
        if not isinstance(budget, dict):
            if key == "epsilon":
                self.add_mistake("budget", "is missing", "write [budget] with epsilon and delta")
            return Fraction(1)
        if key == "epsilon":
            refuse_unknown_keys(self.add_mistake, "budget.", budget, ("epsilon", "delta"))
        value = budget.get(key)
        if value is None:
            self.add_mistake(f"budget.{key}", "is missing", f"write {key} = {'1' if key == 'epsilon' else '1e-6'}")
            return Fraction(1)
        try:
            return Fraction(check(parse_exact(value, key)))
        except BadRequest as error:
            self.add_mistake(f"budget.{key}", f"{value} does not fit", error.allowed)
            return Fraction(1)

    def _read_queries(self) -> dict[str, str]:
        queries = self.tree.get("queries", {})
        if not isinstance(queries, dict):
            self.add_mistake("queries", "is no table", 'write [queries] and name = "SELECT ..." below')
            return {}
        for name, sql in queries.items():
            if not isinstance(sql, str) or not sql.strip():
                self.add_mistake(
                    f"queries.{name}", f"{format_value(sql)} is no SQL", f'write {name} = "SELECT COUNT(*) FROM ..."'
                )
        return {name: sql.strip() for name, sql in queries.items() if isinstance(sql, str)}

    def _read_cubes(self, columns: dict[str, Column]) -> tuple[tuple[str, ...], ...]:
        cubes = self.tree.get("cubes", [])
        right = 'write cubes = [["town", "smoker"], ["age"]]: lists of declared columns with keys, bins or truth values'
        if not isinstance(cubes, list):
            self.add_mistake("cubes", f"{format_value(cubes)} is no list", right)
            return ()
        for names in cubes:
            if not isinstance(names, list) or not names or not all(name in columns for name in map(str, names)):
                self.add_mistake("cubes", f"{format_value(names)} are no declared columns", right)
            elif len(set(names)) < len(names) or cubes.count(names) > 1:
                self.add_mistake("cubes", f"{format_value(names)} has something twice", right)
            else:
                self._check_cells(names, columns)
        return tuple(tuple(names) for names in cubes if isinstance(names, list))

    def _read_hide_questions(self) -> bool:
        value = self.tree.get("hide_questions", False)
        if not isinstance(value, bool):
            self.add_mistake(
                "hide_questions", f"{format_value(value)} is neither true nor false", "write true or false"
            )
        return value is True

    def _read_expect(self) -> tuple[Expectation, ...]:
        """Reads what will probably be asked. Kinds of questions come first, so that order and repetition mean
        nothing; examples are parsed with the named queries."""
        items = self.tree.get("expect", [])
        if not isinstance(items, list) or not all(isinstance(item, str) and item.strip() for item in items):
            right = 'write a list: expect = ["marginals", "ranges", "SELECT COUNT(*) FROM ... WHERE ..."]'
            self.add_mistake("expect", f"{format_value(items)} is no list of texts", right)
            return ()
        parsed = [parse_expectation(item.strip()) for item in items]
        kinds = [kind for kind in Workload if kind in parsed]
        return (*kinds, *dict.fromkeys(item for item in parsed if not isinstance(item, Workload)))

    def _check_cells(self, names: list[str], columns: dict[str, Column]) -> None:
        for name in names:
            if not columns[name].piece_count:
                self.add_mistake(
                    "cubes", f"column {name} has no declared keys or bins", "declare them, or leave it out"
                )
        cells = prod(columns[name].piece_count for name in names)
        if cells > MAX_CELLS:
            self.add_mistake(
                "cubes", f"{format_value(names)} has {cells} cells", f"at most {MAX_CELLS}: fewer columns or bins"
            )


def _find_lines(text: str) -> dict[str, int]:
    """Returns the line number of each dotted key, for the plain TOML in which policies are written."""
    lines: dict[str, int] = {}
    section = ""
    for number, line in enumerate(text.splitlines(), start=1):
        if header := re.match(r"\s*\[+([^\]]+)\]+", line):
            section = _strip_quotes(header.group(1))
            while section and section not in lines:
                lines[section] = number
                section, _, _ = section.rpartition(".")
            section = _strip_quotes(header.group(1)) + "."
        elif key := re.match(r"\s*([A-Za-z0-9_.\-\"' ]+?)\s*=", line):
            lines.setdefault(section + _strip_quotes(key.group(1)), number)
    return lines


def _strip_quotes(path: str) -> str:
    return ".".join(part.strip().strip("\"'") for part in path.split("."))
