"""Compares what is seen with what was seen, or writes it where NOISEBANK_SNAPSHOTS=write says so."""

from __future__ import annotations

import json
import os
import re
from difflib import unified_diff
from pathlib import Path
from typing import Any

import pytest

DATA = Path(__file__).parent / "data"
VARIABLE, WRITE = "NOISEBANK_SNAPSHOTS", "write"
RULE = "a snapshot may change only in a commit that lists the change and why"
HEX = re.compile(r"(0x)?[0-9a-f]{16,}")
DECIMAL = re.compile(r"-?\d+\.\d{7,}")
MOST_LINES = 80


def hold_text(name: str, seen: str) -> None:
    """Fails with a diff unless `seen` is what data/seen/NAME holds."""
    path = DATA / "seen" / name
    seen = seen if seen.endswith("\n") else seen + "\n"
    if os.environ.get(VARIABLE) == WRITE:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(seen, encoding="utf-8")
        return
    known = path.read_text(encoding="utf-8") if path.is_file() else ""
    if seen != known:
        lines = list(
            unified_diff(known.splitlines(), seen.splitlines(), f"{name} as committed", "as seen now", "", "", 2)
        )
        more = [f"... and {len(lines) - MOST_LINES} more lines"] if len(lines) > MOST_LINES else []
        how = "if it is meant: PYTHONPATH=src:tests:. python -m snapshots --write"
        pytest.fail("\n".join([f"{name} differs: {RULE}", how, *lines[:MOST_LINES], *more]), pytrace=False)


def hold_json(name: str, seen: Any) -> None:
    """The same for what JSON can say; the order of keys counts."""
    hold_text(name, json.dumps(seen, indent=1, ensure_ascii=False))


def compact_json(value: Any) -> str:
    """One line, with six digits of a number: of the others, the machine's processor decides some."""
    return json.dumps(_round_numbers(value), ensure_ascii=False)


def _round_numbers(value: Any) -> Any:
    if isinstance(value, float):
        return float(f"{value:.6g}")
    if isinstance(value, dict):
        return {key: _round_numbers(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [_round_numbers(part) for part in value]
    if isinstance(value, str) and DECIMAL.fullmatch(value):
        return f"{float(value):.6g}"
    return value


def shape_of(value: Any) -> Any:
    """Nested keys and the types under them; keys that are identifiers count as one."""
    if isinstance(value, dict):
        merged: dict[str, Any] = {}
        for key, part in value.items():
            name = "(id)" if HEX.fullmatch(key) else key
            merged[name] = shape_of(part) if name not in merged else merge_shapes(merged[name], shape_of(part))
        return merged
    if isinstance(value, (list, tuple)):
        shape: Any = None
        for part in value:
            shape = shape_of(part) if shape is None else merge_shapes(shape, shape_of(part))
        return [] if shape is None else [shape]
    return "null" if value is None else type(value).__name__


def merge_shapes(one: Any, other: Any) -> Any:
    """Of two elements of one list."""
    if one == other:
        return one
    if isinstance(one, dict) and isinstance(other, dict):
        keys = [*one, *(key for key in other if key not in one)]
        return {key: merge_shapes(one.get(key, "absent"), other.get(key, "absent")) for key in keys}
    if isinstance(one, list) and isinstance(other, list):
        return [merge_shapes(one[0], other[0])] if one and other else one or other
    kinds = {
        part for side in (one, other) for part in (side.split(" | ") if isinstance(side, str) else [json.dumps(side)])
    }
    return " | ".join(sorted(kinds))
