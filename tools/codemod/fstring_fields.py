"""Where the expressions in the braces of f-strings are: the parser of Python 3.11 gives wrong positions for them."""

from __future__ import annotations

import io
import re
import sys
import tokenize
from collections.abc import Iterator


def line_starts(text: str) -> list[int]:
    """Return the offset of each line."""
    return [0, *(match.end() for match in re.finditer("\n", text))]


def fields_of(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """Yield where the expressions in braces of an f-string (or of several in a row) start and end."""
    segment = f"({text[start:end]}\n)"
    starts = [start - 1, *(start - 1 + offset for offset in line_starts(segment)[1:])]
    if sys.version_info >= (3, 12):  # tokens of f-strings have parts there: look for the strings by their quotes
        tokens = [(start + m.start(), start + m.end()) for m in LITERAL.finditer(text[start:end])]
    else:
        tokens = [
            (starts[token.start[0] - 1] + token.start[1], starts[token.end[0] - 1] + token.end[1])
            for token in tokenize.generate_tokens(io.StringIO(segment).readline)
            if token.type == tokenize.STRING
        ]
    for first, last in tokens:
        match = re.compile(r"(\w*)('''|\"\"\"|'|\")").match(text, first)
        if match is not None and "f" in match[1].lower():
            yield from _fields(text, match.end(), last - len(match[2]), raw="r" in match[1].lower())[0]


FIELD_END = re.compile(r"!(?!=)|(?<![=!<>])=(?!=)")
LITERAL = re.compile(
    r"""\w*(?:'''(?:\\.|.)*?'''|\"\"\"(?:\\.|.)*?\"\"\"|'(?:\\.|[^'\\\n])*'|"(?:\\.|[^"\\\n])*")""", re.S
)


def _fields(text: str, start: int, end: int, raw: bool, nested: bool = False) -> tuple[list[tuple[int, int]], int]:
    found: list[tuple[int, int]] = []
    at = start
    while at < end:
        if text[at] == "{" and text[at : at + 2] == "{{" and not nested:
            at += 2
        elif text[at] == "{":
            stop = _expression_end(text, at + 1, end)
            found.append((at + 1, stop))
            at = stop + 1 if text[stop] == "=" else stop
            while at < end and text[at] in " \t\n":
                at += 1
            at += 2 if text[at] == "!" else 0
            if text[at] == ":":
                inner, at = _fields(text, at + 1, end, raw, nested=True)
                found += inner
            at += 1
        elif text[at] == "}" and nested:
            return found, at
        elif text[at] == "\\" and not raw:
            at = text.index("}", at) + 1 if text[at + 1 : at + 3] == "N{" else at + 2
        else:
            at += 1
    return found, at


def _expression_end(text: str, start: int, end: int) -> int:
    """Return where the expression of a field ends: at its `}`, `:`, `!r` or `=`."""
    depth, at = 0, start
    while at < end:
        char = text[at]
        if char in "([{":
            depth += 1
        elif char in "'\"":
            literal = LITERAL.match(text, at)
            at = literal.end() - 1 if literal is not None else at
        elif depth and char in ")]}":
            depth -= 1
        elif not depth and (char in "}:" or FIELD_END.match(text, at)):
            return at
        at += 1
    return end
