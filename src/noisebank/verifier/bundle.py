"""Reading a bundle: journal, head and openings from one zip file."""

from __future__ import annotations

import json
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from noisebank.core.errors import BadBank

JOURNAL, HEAD, OPENINGS = "journal.jsonl", "head.txt", "openings/"
MOST_BYTES = 2**32
"""Of one file inside, unpacked: a bundle is not trusted."""


@dataclass(frozen=True, slots=True)
class Bundle:
    """What a bundle holds. Its head comes from the same hands as its journal: it pins nothing."""

    lines: tuple[str, ...]
    openings: tuple[dict[str, Any], ...]


def read_bundle(path: Path) -> Bundle:
    """The parts of a bundle."""
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
