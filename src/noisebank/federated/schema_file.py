"""Reads a schema from a TOML file: which attributes devices are asked for. It is public."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

from noisebank.core.errors import BadRequest
from noisebank.federated.ldp import Category, Number, Schema


def read_schema(path: Path) -> Schema:
    """Return the schema of a file with tables `[attributes.NAME]`: each has `low` and `high`, or `values`."""
    try:
        fields = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise BadRequest("schema", path, f"cannot be read: {error}") from None
    attributes = fields.get("attributes")
    if set(fields) != {"attributes"} or not isinstance(attributes, dict):
        raise BadRequest("schema", path, "has tables [attributes.NAME] and nothing else")
    return Schema(tuple(_parse_attribute(name, table) for name, table in attributes.items()))


def _parse_attribute(name: str, table: Any) -> Number | Category:
    if isinstance(table, dict) and set(table) == {"values"} and isinstance(table["values"], list):
        if not all(isinstance(value, str) for value in table["values"]):
            raise BadRequest(name, "values", "must be texts")
        return Category(name, tuple(table["values"]))
    if isinstance(table, dict) and set(table) == {"low", "high"}:
        low, high = table["low"], table["high"]
        if all(isinstance(bound, (int, float)) and not isinstance(bound, bool) for bound in (low, high)):
            return Number(name, low, high)
    raise BadRequest(name, "its table", "has either low and high (numbers), or values (a list of texts)")
