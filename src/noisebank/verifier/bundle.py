"""Reads what an owner hands to auditors: opened records, or a bundle of journal, head and openings in one zip file."""

from __future__ import annotations

import json
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from noisebank.core.errors import BadBank

JOURNAL_FILE, HEAD_FILE, OPENINGS_FOLDER = "journal.jsonl", "head.txt", "openings/"
OPENINGS_FORMAT = "noisebank openings 1"
MAX_FILE_BYTES = 2**32
"""Of one unpacked file: a bundle is not trusted."""


@dataclass(frozen=True, slots=True)
class Bundle:
    """The parts of a bundle. Its head is left out: it comes from the same source as the journal, and proves nothing."""

    journal_lines: tuple[str, ...]
    openings: tuple[dict[str, Any], ...]


def read_bundle(path: Path) -> Bundle:
    """Reads a bundle; `BadBank` if it is not readable."""
    try:
        with zipfile.ZipFile(path) as bundle:
            texts = {info.filename: _read_text(bundle, info) for info in bundle.infolist()}
        lines = tuple(texts[JOURNAL_FILE].removesuffix("\n").split("\n"))
        opened = tuple(json.loads(text) for name, text in sorted(texts.items()) if name.startswith(OPENINGS_FOLDER))
    except (OSError, zipfile.BadZipFile, KeyError, ValueError, RecursionError):
        raise BadBank(f"{path} holds no readable bundle") from None
    return Bundle(lines, opened)


def read_openings(path: Path) -> dict[str, Any]:
    """Reads the owner's file with policy, questions and salts."""
    try:
        fields = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        raise BadBank(f"{path} holds no readable openings") from None
    if not isinstance(fields, dict) or fields.get("format") != OPENINGS_FORMAT:
        raise BadBank(f"{path} holds no openings of this version")
    return fields


def _read_text(bundle: zipfile.ZipFile, info: zipfile.ZipInfo) -> str:
    if info.file_size > MAX_FILE_BYTES:
        raise ValueError("too large")
    return bundle.read(info).decode("utf-8", "replace")
