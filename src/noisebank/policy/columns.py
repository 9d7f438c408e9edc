"""Reads the columns of a policy file: types, bounds, steps, keys, bins. Used by `policy.file`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from decimal import Decimal
from fractions import Fraction
from itertools import pairwise
from typing import Any

from noisebank.core.errors import BadRequest
from noisebank.core.units import parse_exact
from noisebank.policy.date_columns import read_date_column
from noisebank.policy.model import MAX_STEPS, Column, Kind
from noisebank.policy.schema import COLUMN_KEYS

MAX_KEYS = 10_000
MAX_DIGITS = 10**110
"""Limit on the numerator and denominator of a step: engines compute with doubles."""
AddMistake = Callable[[str, str, str], None]
"""Notes a mistake: the setting, what is wrong with it, and what would be right."""


class ColumnReader:
    """Reads the columns of one policy. Goes on with the next column after a mistake."""

    def __init__(self, tree: Mapping[str, Any], add_mistake: AddMistake) -> None:
        self._tree, self._add_mistake = tree, add_mistake

    def read_columns(self) -> dict[str, Column]:
        """Returns the columns by name; mistakes go to `add_mistake`."""
        tables = self._tree.get("columns")
        if not isinstance(tables, dict) or not tables:
            self._add_mistake("columns", "is missing", "write a [columns.NAME] for each column that may be asked about")
            return {}
        columns = {}
        for name, facts in tables.items():
            if not name or '"' in name or "\x00" in name or len(name) > 63:
                self._add_mistake(f"columns.{name}", "is no column name", 'use at most 63 characters without "')
            elif not isinstance(facts, dict):
                self._add_mistake(f"columns.{name}", "is no table", f"write [columns.{name}] and its settings below")
            else:
                columns[name] = self._read_column(name, facts)
        if len({name.lower() for name in columns}) < len(columns):
            self._add_mistake(
                "columns", "differ only in upper and lower case", "SQL cannot tell them apart: rename one"
            )
        return columns

    def _read_column(self, name: str, facts: dict[str, Any]) -> Column:
        where = f"columns.{name}"
        refuse_unknown_keys(self._add_mistake, f"{where}.", facts, COLUMN_KEYS)
        try:
            kind = Kind(facts.get("type"))
        except ValueError:
            kinds = ", ".join(f'"{kind.value}"' for kind in Kind)
            self._add_mistake(f"{where}.type", f"{facts.get('type')!r} is no type", f"use one of {kinds}")
            return Column(name, Kind.TEXT)
        nullable = facts.get("nullable", False)
        if not isinstance(nullable, bool):
            self._add_mistake(f"{where}.nullable", f"{nullable!r} is neither true nor false", "write true or false")
            nullable = False
        if kind in (Kind.INTEGER, Kind.NUMBER):
            return self._read_numeric(name, kind, facts, nullable)
        if kind in (Kind.DATE, Kind.TIMESTAMP):
            return read_date_column(name, kind, facts, nullable, self._add_mistake)
        for key in ("bounds", "step", "bins"):
            if key in facts:
                self._add_mistake(f"{where}.{key}", f"does not go with type {kind.value!r}", "only numbers have it")
        keys = self._read_keys(where, kind, facts)
        return Column(name, kind, keys=keys, nullable=nullable, complete=self._read_complete(where, facts))

    def _read_numeric(self, name: str, kind: Kind, facts: dict[str, Any], nullable: bool) -> Column:
        where = f"columns.{name}"
        if "keys" in facts:
            return self._read_codes(name, kind, facts, nullable)
        self._read_complete(where, facts)
        step = Fraction(1)
        try:
            step = parse_exact(facts.get("step", 1), "step")
        except BadRequest:
            step = Fraction(0)
        # Engines compute with doubles: a step far outside of their range has no meaning there.
        ordinary = Fraction(1, 10**100) <= step <= 10**100 and max(step.numerator, step.denominator) <= MAX_DIGITS
        if not ordinary or (kind is Kind.INTEGER and step.denominator != 1):
            allowed = "a whole number above 0" if kind is Kind.INTEGER else "a number above 0, e.g. 0.01"
            self._add_mistake(f"{where}.step", f"{facts.get('step')!r} does not fit", f"write {allowed}")
            step = Fraction(1)
        if "bounds" not in facts:
            if "bins" in facts:
                self._add_mistake(f"{where}.bins", "needs bounds", "write bounds = [lower, upper]")
            return Column(name, kind, step, nullable=nullable)
        low, high = self._read_bounds(where, facts["bounds"], step)
        bins = self._read_bins(where, facts.get("bins", []), step, low, high)
        return Column(name, kind, step, low, high, bins=bins, nullable=nullable)

    def _read_codes(self, name: str, kind: Kind, facts: dict[str, Any], nullable: bool) -> Column:
        """Reads an integer column that holds codes: compared and grouped by its keys, never added up."""
        where = f"columns.{name}"
        if kind is not Kind.INTEGER:
            self._add_mistake(f"{where}.keys", "does not go with type 'number'", "declare bounds, and bins if needed")
            return Column(name, kind, nullable=nullable)
        if others := [key for key in ("bounds", "step", "bins") if key in facts]:
            right = "codes to compare have keys; numbers to add up have bounds, and bins if needed"
            self._add_mistake(f"{where}.keys", f"does not go with {', '.join(others)}", right)
        keys = self._read_keys(where, kind, facts)
        return Column(name, kind, keys=keys, nullable=nullable, complete=self._read_complete(where, facts))

    def _read_complete(self, where: str, facts: dict[str, Any]) -> bool:
        """Reads whether the keys are all that there is."""
        value = facts.get("complete", False)
        if not isinstance(value, bool):
            self._add_mistake(f"{where}.complete", f"{format_value(value)} is neither true nor false", "write true")
        elif value and not facts.get("keys"):
            self._add_mistake(f"{where}.complete", "needs keys", "list all values of the column, or leave it out")
        return value is True

    def _read_bounds(self, where: str, bounds: Any, step: Fraction) -> tuple[int, int]:
        right = "write bounds = [lower, upper] with lower < upper, both multiples of step"
        try:
            lower, upper = (parse_exact(bound) for bound in _require_list(bounds))
        except (BadRequest, TypeError, ValueError):
            self._add_mistake(f"{where}.bounds", f"{format_value(bounds)} are no two numbers", right)
            return -MAX_STEPS, MAX_STEPS  # wide, so that good bins are not reported as wrong too
        low, high = lower / step, upper / step
        if low.denominator != 1 or high.denominator != 1:
            self._add_mistake(f"{where}.bounds", f"{format_value(bounds)} are not multiples of the step {step}", right)
        elif low >= high:
            self._add_mistake(f"{where}.bounds", f"lower {lower} is not below upper {upper}", right)
        elif max(abs(low), abs(high), high - low) > MAX_STEPS:
            self._add_mistake(
                f"{where}.bounds", "are more than 2^31 steps wide", "write narrower bounds or a larger step"
            )
        else:
            return int(low), int(high)
        return -MAX_STEPS, MAX_STEPS

    def _read_bins(self, where: str, bins: Any, step: Fraction, low: int, high: int) -> tuple[int, ...]:
        right = "write rising edges inside the bounds, multiples of step, e.g. bins = [18, 35, 65]"
        try:
            edges = [parse_exact(edge) / step for edge in _require_list(bins)]
        except (BadRequest, TypeError):
            self._add_mistake(f"{where}.bins", f"{format_value(bins)} are no numbers", right)
            return ()
        rising = all(a < b for a, b in pairwise(edges))
        if not rising or any(edge.denominator != 1 or not low < edge <= high for edge in edges):
            self._add_mistake(f"{where}.bins", f"{format_value(bins)} do not fit", right)
            return ()
        return tuple(int(edge) for edge in edges)

    def _read_keys(self, where: str, kind: Kind, facts: dict[str, Any]) -> tuple[str | int, ...]:
        keys = facts.get("keys", [])
        if kind is Kind.BOOLEAN:
            if keys:
                self._add_mistake(f"{where}.keys", "does not go with type 'boolean'", "leave it out: true and false")
            return ()
        form, example = (int, "[1, 2]") if kind is Kind.INTEGER else (str, '["a", "b"]')
        if not isinstance(keys, list) or not all(type(key) is form for key in keys):
            what = "whole numbers" if kind is Kind.INTEGER else "texts"
            self._add_mistake(f"{where}.keys", f"{format_value(keys)} are no {what}", f"write keys = {example}")
        elif kind is Kind.INTEGER and not keys:
            self._add_mistake(f"{where}.keys", "is empty", f"write keys = {example}")
        elif len(set(keys)) < len(keys):
            self._add_mistake(f"{where}.keys", "has a key twice", "write each key once")
        elif len(keys) > MAX_KEYS:
            self._add_mistake(f"{where}.keys", f"has {len(keys)} keys", f"at most {MAX_KEYS}")
        elif kind is Kind.INTEGER and max(map(abs, keys)) > MAX_STEPS:
            self._add_mistake(f"{where}.keys", "are beyond 2^31", "write codes of ordinary size, or use texts")
        else:
            return tuple(sorted(keys))
        return ()


def refuse_unknown_keys(add_mistake: AddMistake, prefix: str, table: Mapping[str, Any], known: tuple[str, ...]) -> None:
    """Notes every key of `table` that is not a known setting."""
    for key in table:
        if key not in known:
            add_mistake(f"{prefix}{key}", "is no setting", f"use one of {', '.join(known)}")


def _require_list(value: Any) -> list[Any]:
    """Returns `value` if it is a list, else raises: a text or a table could be iterated as well."""
    if not isinstance(value, list):
        raise TypeError(f"{value!r} is no list")
    return value


def format_value(value: Any) -> str:
    """Returns a TOML value as text, with decimals as they were written, not as Python shows them."""
    if isinstance(value, list):
        return "[" + ", ".join(format_value(item) for item in value) + "]"
    return str(value) if isinstance(value, (Decimal, int)) else repr(value)
