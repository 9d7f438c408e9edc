"""Reads a bundle: journal, head and openings in one zip file, as `noisebank.bank.bundle` writes it."""

from __future__ import annotations

import json
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from noisebank.core.errors import BadBank

JOURNAL, HEAD, OPENINGS = "journal.jsonl", "head.txt", "openings/"
MOST_BYTES = 2**32
"""Of one unpacked file: a bundle is not trusted."""


@dataclass(frozen=True, slots=True)
class Bundle:
    """The parts of a bundle. Its head is left out: it comes from the same source as the journal, and proves nothing."""

    lines: tuple[str, ...]
    openings: tuple[dict[str, Any], ...]


def read_bundle(path: Path) -> Bundle:
    """Reads a bundle; `BadBank` if it is not readable."""
    try:
        with zipfile.ZipFile(path) as bundle:
            texts = {info.filename: _text(bundle, info) for info in bundle.infolist()}
        lines = tuple(texts[JOURNAL].removesuffix("\n").split("\n"))
        opened = tuple(json.loads(text) for name, text in sorted(texts.items()) if name.startswith(OPENINGS))
    except (OSError, zipfile.BadZipFile, KeyError, ValueError, RecursionError):
        raise BadBank(f"{path} holds no readable bundle") from None
    return Bundle(lines, opened)


def _text(bundle: zipfile.ZipFile, info: zipfile.ZipInfo) -> str:
    if info.file_size > MOST_BYTES:
        raise ValueError("too large")
    return bundle.read(info).decode("utf-8", "replace")
