"""Counts the rows of a CSV file by a strict grammar on which all readers agree; refuses any other file.

A reader that takes a bare carriage return for a line end turns one person's text into a thousand rows. DuckDB does so,
whatever line end it is told; Python's `csv` writes such texts without quotes. So the owner's bank reads the file
once, at opening, before anything is on the ledger: RFC 4180, with the line end of the first line throughout.

The file is split at its quotes: what stands between them by turns lies outside and inside of quoted text, and `""` in a
quoted text is the end of one and the beginning of the next. No regular expression here repeats a group: possessive ones
that do match wrongly in Python before 3.11.5.
"""

from __future__ import annotations

import re
from pathlib import Path

from noisebank.core.errors import BadTable

BYTE_ORDER_MARK = b"\xef\xbb\xbf"
CHUNK_BYTES = 4 << 20
MAX_ROW_BYTES = 2_000_000
"""As in DuckDB."""
LINE_ENDS = (b"\r\n", b"\n")
WRONG_QUOTES = rb'[^",\r\n]"|"[^",\r\n]'
"""A quote inside a field that is not quoted, or something after one that is."""
WRONG_BYTES = {
    b"\r\n": re.compile(WRONG_QUOTES + rb"|\r(?!\n)|(?<!\r)\n"),
    b"\n": re.compile(WRONG_QUOTES + rb"|\r"),
}
"""By line end: what the grammar does not allow, where each quoted text is written as one quote."""
BLANK_LINES = {end: re.compile(rb"(?m)^" + end) for end in LINE_ENDS}
LINE_BREAK = re.compile(rb"[\r\n]")


def line_end(path: Path) -> bytes:
    """Returns the line end of a CSV file's first line: CR LF or LF; LF for a file without one."""
    try:
        with path.open("rb") as file:
            head = file.read(MAX_ROW_BYTES).removeprefix(BYTE_ORDER_MARK)
    except OSError as error:
        raise BadTable(f"{path} cannot be read: {error.strerror}") from None
    for outside in head.split(b'"')[::2]:
        if (found := LINE_BREAK.search(outside)) is not None:
            return LINE_ENDS[0] if outside[found.start() : found.start() + 2] == LINE_ENDS[0] else LINE_ENDS[1]
    return LINE_ENDS[1]


def count_csv_rows(path: Path, header: bool, blank_rows: bool) -> int:
    """Returns how many rows a file has after its header. `blank_rows`: whether an empty line is a row.

    Raises `BadTable`, with the line's number and no value, if the file does not follow the grammar.
    """
    end = line_end(path)
    rows, lines, rest = 0, 0, b""
    try:
        with path.open("rb") as file:
            if file.read(len(BYTE_ORDER_MARK)) != BYTE_ORDER_MARK:
                file.seek(0)
            while chunk := file.read(CHUNK_BYTES):
                data = rest + chunk
                size = _full_lines_size(data)
                full, rest = data[:size], data[size:]
                rows += _count_rows(path, full, lines, end, blank_rows)
                lines += full.count(b"\n")
                if len(rest) > MAX_ROW_BYTES:
                    _check_rows(path, rest, lines, end)
                    raise _row_error(path, lines, f"a row of more than {MAX_ROW_BYTES:,} bytes")
    except OSError as error:
        raise BadTable(f"{path} cannot be read: {error.strerror}") from None
    _check_rows(path, rest, lines, end)
    if rest.count(b'"') % 2:
        raise _row_error(path, lines + _lines_before_open_quote(rest), "a quote that is never closed")
    return max(0, rows + bool(rest) - header)


def _full_lines_size(data: bytes) -> int:
    """Returns the length of these bytes up to the last line feed outside of quotes."""
    parts = data.split(b'"')
    after = 0
    for index in range(len(parts) - 1, -1, -1):
        if index % 2 == 0 and (found := parts[index].rfind(b"\n")) >= 0:
            return len(data) - after - len(parts[index]) + found + 1
        after += len(parts[index]) + 1
    return 0


def _count_rows(path: Path, full: bytes, lines: int, end: bytes, blank_rows: bool) -> int:
    """Returns how many rows these whole lines are; refuses others."""
    outside = _check_rows(path, full, lines, end)
    rows = outside.count(b"\n")
    return rows if blank_rows else rows - len(BLANK_LINES[end].findall(outside))


def _check_rows(path: Path, data: bytes, lines: int, end: bytes) -> bytes:
    """Refuses what is not allowed in rows; returns them with each quoted text written as one quote."""
    parts = data.split(b'"')
    outside = b'"'.join(parts[::2] if len(parts) % 2 else [*parts[::2], b""])
    wrong = WRONG_BYTES[end].search(outside)
    if wrong is None:
        return outside
    before = outside.count(b'"', 0, wrong.start() + 1)
    line = lines + outside.count(b"\n", 0, wrong.start()) + sum(part.count(b"\n") for part in parts[1 : 2 * before : 2])
    found = wrong.group()
    if found in (b"\r", b"\n"):
        name = "a carriage return" if found == b"\r" else "a line feed"
        ends = "CR LF" if end == LINE_ENDS[0] else "LF"
        raise _row_error(path, line, f"{name} outside of quotes that ends no line: the file's lines end in {ends}")
    raise _row_error(path, line, "a quote inside a field that is not quoted, or something after one that is")


def _lines_before_open_quote(data: bytes) -> int:
    """Returns how many lines end before the quoted text that these bytes end in the middle of."""
    parts = data.split(b'"')
    opened = len(parts) - 1
    while opened > 1 and not parts[opened - 1]:  # "" is a quote inside of the text
        opened -= 2
    return sum(part.count(b"\n") for part in parts[:opened])


def _row_error(path: Path, lines: int, what: str) -> BadTable:
    return BadTable(f"{path.name}, line {lines + 1}: {what}; write the file again with such fields in quotes")
