"""A device's record from a JSON file. Secret: what is in it must not decide whether a command succeeds."""

from __future__ import annotations

import json
import os
from pathlib import Path

from noisebank.core.errors import BadRequest

MAX_RECORD = 1 << 20
"""Bytes of a record; a longer file is not read."""
LONGEST_INTEGER = 400
"""Digits. Longer ones are beyond every float, and Python refuses to read the longest at all."""


def find_record(path: Path) -> Path:
    """The path of a file that can be opened. Looks at the folder only: the file is not opened."""
    if not path.exists() or path.is_dir() or not os.access(path, os.R_OK):
        raise BadRequest("record", path, "is no file that can be read")
    return path


def read_record(path: Path) -> dict[str, object] | None:
    """The JSON object in a file; None if it holds none. Never fails."""
    try:
        with path.open("rb") as file:
            raw = file.read(MAX_RECORD + 1)
        if len(raw) > MAX_RECORD:
            return None
        found = json.loads(raw.decode("utf-8-sig"), parse_int=_read_integer)
    except (OSError, ValueError, RecursionError, MemoryError):
        return None
    return found if isinstance(found, dict) else None


def _read_integer(digits: str) -> int | float:
    return int(digits) if len(digits) <= LONGEST_INTEGER else float(digits)
