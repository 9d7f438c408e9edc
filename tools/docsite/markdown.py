"""Markdown tables and blocks, as the generated pages use them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def format_table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Returns a table; bars and line ends inside of cells are made harmless."""
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    lines += ["| " + " | ".join(_format_cell(cell) for cell in row) + " |" for row in rows]
    return "\n".join(lines)


def format_block(text: str, language: str = "") -> str:
    """Returns a fenced block of code."""
    return f"```{language}\n{text.rstrip()}\n```"


def as_code(text: str) -> str:
    """Returns a text in code font; nothing for an empty one."""
    return f"`{text}`" if text else ""


def _format_cell(cell: str) -> str:
    return " ".join(cell.split()).replace("|", "\\|")
