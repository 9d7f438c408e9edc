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
from noisebank.core.units import exact
from noisebank.policy.columns import ColumnReader, plain, unknown
from noisebank.policy.model import MAX_CELLS, MAX_ROWS, Column, FirstLookAt, Neighbours, Policy, Source, Table
from noisebank.policy.source import SourceReader
from noisebank.privacy.calibration import check_delta, check_epsilon

NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,62}")
UNFILLED = re.compile(r"#.*FILL IN|\"FILL\",\s*\"IN\"")
"""How a draft marks what must be filled in."""
MOST_LOOKS = Fraction(9, 10)
"""The share of the budget for all first looks: something must be left for questions."""
TOP_KEYS = (
    "name", "source", "table", "engine", "column_names", "neighbours", "rows", "row_cap", "unit", "max_rows",
    "raise_delay_hours", "budget", "columns", "queries", "cubes", "first_look", "first_look_at", "hide_questions",
)  # fmt: skip


def read_policy(path: Path) -> Policy:
    """Returns the policy in the file at `path`; its `source` is relative to that file."""
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
        raise BadPolicy((Mistake(line, "TOML", str(error), "write valid TOML"),), origin) from None
    reader = _Reader(tree, _lines_of(text))
    policy = reader.policy(folder)
    if reader.mistakes or policy is None:
        raise BadPolicy(tuple(sorted(reader.mistakes, key=lambda mistake: mistake.line)), origin)
    lines = enumerate(text.splitlines(), start=1)
    return replace(policy, unfilled=tuple(number for number, line in lines if UNFILLED.search(line)))


def check_filled(policy: Policy) -> None:
    """Raises `BadPolicy` with every line that a draft marked and that nobody has filled in."""
    if policy.unfilled:
        right = "write what is publicly known, and take the mark away"
        raise BadPolicy(tuple(Mistake(line, "draft", "says FILL IN", right) for line in policy.unfilled), policy.name)


class _Reader:
    """Reads the parsed TOML and collects mistakes instead of stopping at the first."""

    def __init__(self, tree: dict[str, Any], lines: dict[str, int]) -> None:
        self.tree, self.lines = tree, lines
        self.mistakes: list[Mistake] = []

    def wrong(self, where: str, what: str, right: str) -> None:
        probe = where
        while probe and probe not in self.lines:
            probe = probe.rpartition(".")[0]
        self.mistakes.append(Mistake(self.lines.get(probe, 1), where, what, right))

    def policy(self, folder: Path) -> Policy | None:
        unknown(self.wrong, "", self.tree, TOP_KEYS)
        name = self._name()
        source = SourceReader(self.tree, folder, self.wrong).source()
        neighbours = self._neighbours()
        row_cap = self._row_cap(neighbours)
        columns = ColumnReader(self.tree, self.wrong).columns()
        self._check_named(source, columns)
        unit, max_rows = self._unit(columns)
        epsilon = self._budget("epsilon", check_epsilon)
        delta = self._budget("delta", check_delta)
        delay = self._integer("raise_delay_hours", 0, 24 * 365, default=24)
        queries = self._queries()
        cubes, first_look = self._cubes(columns), self._first_look()
        first_look_at = self._first_look_at(first_look * len(cubes))
        hidden = self._hide_questions()
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
            first_look=first_look,
            first_look_at=first_look_at,
            hide_questions=hidden,
        )

    def _check_named(self, source: Source | None, columns: dict[str, Column]) -> None:
        names = source.column_names if isinstance(source, Table) else ()
        for name in columns if names else ():
            if name not in names:
                self.wrong(f"columns.{name}", "is none of column_names", "write the same name in both places")

    def _name(self) -> str:
        name = self._text("name", 'write name = "survey"')
        if name and not NAME.fullmatch(name):
            self.wrong("name", f"{name!r} is no name", "use letters, digits and _, at most 63, not a digit first")
        return name

    def _text(self, key: str, right: str) -> str:
        value = self.tree.get(key)
        if not isinstance(value, str) or not value or "\x00" in value:
            self.wrong(key, "is missing" if value is None else f"{value!r} is no text", right)
            return ""
        return value

    def _integer(self, key: str, low: int, high: int, default: int) -> int:
        value = self.tree.get(key, default)
        if type(value) is not int or not low <= value <= high:
            self.wrong(key, f"{value!r} does not fit", f"write a whole number from {low} to {high}")
            return default
        return value

    def _neighbours(self) -> Neighbours | None:
        value = self.tree.get("neighbours")
        try:
            return Neighbours(value)
        except ValueError:
            what = "is missing" if value is None else f"{value!r} is unknown"
            self.wrong("neighbours", what, 'write "replace-one" (with rows) or "add-remove" (with row_cap)')
            return None

    def _row_cap(self, neighbours: Neighbours | None) -> int:
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
            self.wrong(other, f"does not go with {neighbours.value!r}{unit}", f"write {needed} = {meaning} instead")
        if needed not in self.tree:
            self.wrong(needed, "is missing", f"write {needed} = {meaning}")
            return 1
        return self._integer(needed, 1, MAX_ROWS, 1)

    def _unit(self, columns: dict[str, Column]) -> tuple[str, int]:
        unit = self.tree.get("unit", "row")
        if unit == "row":
            if "max_rows" in self.tree:
                self.wrong("max_rows", 'does not go with unit = "row"', "name the column that tells people apart")
            return "row", 1
        if not isinstance(unit, str) or unit not in columns:
            self.wrong("unit", f"{unit!r} is no declared column", 'write "row" or the column that tells people apart')
            return "row", 1
        if "max_rows" not in self.tree:
            self.wrong("max_rows", "is missing", "write the most rows of one person that count, e.g. max_rows = 3")
        return unit, self._integer("max_rows", 1, 1_000_000, 1)

    def _budget(self, key: str, check: Any) -> Fraction:
        budget = self.tree.get("budget")
        if not isinstance(budget, dict):
            if key == "epsilon":
                self.wrong("budget", "is missing", "write [budget] with epsilon and delta")
            return Fraction(1)
        if key == "epsilon":
            unknown(self.wrong, "budget.", budget, ("epsilon", "delta"))
        value = budget.get(key)
        if value is None:
            self.wrong(f"budget.{key}", "is missing", f"write {key} = {'1' if key == 'epsilon' else '1e-6'}")
            return Fraction(1)
        try:
            return Fraction(check(exact(value, key)))
        except BadRequest as error:
            self.wrong(f"budget.{key}", f"{value} does not fit", error.allowed)
            return Fraction(1)

    def _queries(self) -> dict[str, str]:
        queries = self.tree.get("queries", {})
        if not isinstance(queries, dict):
            self.wrong("queries", "is no table", 'write [queries] and name = "SELECT ..." below')
            return {}
        for name, sql in queries.items():
            if not isinstance(sql, str) or not sql.strip():
                self.wrong(f"queries.{name}", f"{plain(sql)} is no SQL", f'write {name} = "SELECT COUNT(*) FROM ..."')
        return {name: sql.strip() for name, sql in queries.items() if isinstance(sql, str)}

    def _cubes(self, columns: dict[str, Column]) -> tuple[tuple[str, ...], ...]:
        cubes = self.tree.get("cubes", [])
        right = 'write cubes = [["town", "smoker"], ["age"]]: lists of declared columns with keys, bins or truth values'
        if not isinstance(cubes, list):
            self.wrong("cubes", f"{plain(cubes)} is no list", right)
            return ()
        for names in cubes:
            if not isinstance(names, list) or not names or not all(name in columns for name in map(str, names)):
                self.wrong("cubes", f"{plain(names)} are no declared columns", right)
            elif len(set(names)) < len(names) or cubes.count(names) > 1:
                self.wrong("cubes", f"{plain(names)} has something twice", right)
            else:
                self._cells(names, columns)
        return tuple(tuple(names) for names in cubes if isinstance(names, list))

    def _first_look(self) -> Fraction:
        value = self.tree.get("first_look", Decimal("0.25"))
        try:
            share = exact(value, "first_look")
        except BadRequest:
            share = Fraction(-1)
        if not 0 <= share <= MOST_LOOKS:
            self.wrong("first_look", f"{plain(value)} is no share", "write a number from 0 (none) to 0.9, e.g. 0.25")
        return share

    def _first_look_at(self, all_looks: Fraction) -> FirstLookAt:
        value = self.tree.get("first_look_at", "profit")
        try:
            timing = FirstLookAt(value)
        except ValueError:
            right = 'write "profit" (once it pays) or "opening" (before any question)'
            self.wrong("first_look_at", f"{plain(value)} is unknown", right)
            return FirstLookAt.PROFIT
        if timing is FirstLookAt.OPENING and not 0 < all_looks <= MOST_LOOKS:
            what = f"takes {float(all_looks):g} of the budget, a first_look for each of the cubes"
            self.wrong(
                "first_look_at", what, f"all of them together may cost a share above 0, up to {float(MOST_LOOKS)}"
            )
        return timing

    def _hide_questions(self) -> bool:
        value = self.tree.get("hide_questions", False)
        if not isinstance(value, bool):
            self.wrong("hide_questions", f"{plain(value)} is neither true nor false", "write true or false")
        return value is True

    def _cells(self, names: list[str], columns: dict[str, Column]) -> None:
        for name in names:
            if not columns[name].pieces:
                self.wrong("cubes", f"column {name} has no declared keys or bins", "declare them, or leave it out")
        cells = prod(columns[name].pieces for name in names)
        if cells > MAX_CELLS:
            self.wrong("cubes", f"{plain(names)} has {cells} cells", f"at most {MAX_CELLS}: fewer columns or bins")


def _lines_of(text: str) -> dict[str, int]:
    """Returns the line number of each dotted key, for the plain TOML in which policies are written."""
    lines: dict[str, int] = {}
    section = ""
    for number, line in enumerate(text.splitlines(), start=1):
        if header := re.match(r"\s*\[+([^\]]+)\]+", line):
            section = _bare(header.group(1))
            while section and section not in lines:
                lines[section] = number
                section, _, _ = section.rpartition(".")
            section = _bare(header.group(1)) + "."
        elif key := re.match(r"\s*([A-Za-z0-9_.\-\"' ]+?)\s*=", line):
            lines.setdefault(section + _bare(key.group(1)), number)
    return lines


def _bare(path: str) -> str:
    return ".".join(part.strip().strip("\"'") for part in path.split("."))
