"""Where things are in this work tree."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).parents[2]
TESTS = ROOT / "tests"
SOURCES = ROOT / "src"
