"""Reads a device's record from a JSON file. It is secret: its content must not decide whether a command succeeds."""

from __future__ import annotations

import json
import os
from pathlib import Path

from noisebank.core.errors import BadRequest

MAX_RECORD_BYTES = 1 << 20
"""A longer file is not read."""
MAX_INTEGER_DIGITS = 400
"""Longer integers are beyond every float, and Python refuses to read the longest at all."""


def check_record_path(path: Path) -> Path:
    """Return the path if it is a file that may be read. The file itself is not opened."""
    if not path.exists() or path.is_dir() or not os.access(path, os.R_OK):
        raise BadRequest("record", path, "is no file that can be read")
    return path


def read_record(path: Path) -> dict[str, object] | None:
    """Return the JSON object in a file; None if there is none. Never fails."""
    try:
        with path.open("rb") as file:
            raw = file.read(MAX_RECORD_BYTES + 1)
        if len(raw) > MAX_RECORD_BYTES:
            return None
        record = json.loads(raw.decode("utf-8-sig"), parse_int=_read_integer)
    except (OSError, ValueError, RecursionError, MemoryError):
        return None
    return record if isinstance(record, dict) else None


def _read_integer(digits: str) -> int | float:
    return int(digits) if len(digits) <= MAX_INTEGER_DIGITS else float(digits)
