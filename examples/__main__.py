"""`python -m examples FOLDER [NAME ...]` writes examples into a folder: all of them, or those that are named."""

from __future__ import annotations

import sys
from pathlib import Path

from examples.worlds import WORLDS


def write_examples(arguments: list[str]) -> str:
    """Writes what the arguments name; returns what to say."""
    if not arguments or arguments[0].startswith("-") or not set(arguments[1:]) <= set(WORLDS):
        return f"usage: python -m examples FOLDER [{'|'.join(WORLDS)} ...]\n"
    folder, names = Path(arguments[0]), arguments[1:] or list(WORLDS)
    for name in names:
        WORLDS[name].write_files(folder / name)
    return "".join(f"{folder / name}: {', '.join(WORLDS[name].policies)}\n" for name in names)


if __name__ == "__main__":
    sys.stdout.write(write_examples(sys.argv[1:]))
