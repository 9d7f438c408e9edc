"""Counts the rows of a CSV file by a strict grammar on which all readers agree; refuses any other file.

A reader that takes a bare carriage return for a line end turns one person's text into a thousand rows. DuckDB does so,
whatever line end it is told; Python's `csv` writes such texts without quotes. So the owner's bank reads the file
once, at opening, before anything is on the ledger: RFC 4180, with the line end of the first line throughout.
"""

from __future__ import annotations

import re
from pathlib import Path

from noisebank.core.errors import BadTable

MARK = b"\xef\xbb\xbf"
CHUNK = 4 << 20
LONGEST = 2_000_000
"""As in DuckDB."""
QUOTED = rb'"[^"]*+(?:""[^"]*+)*+"'
FIELD = rb'(?:%s|[^",\r\n]*+)' % QUOTED
ROW = rb"%s(?:,%s)*+" % (FIELD, FIELD)
ENDS = (b"\r\n", b"\n")
ONE_ROW = re.compile(ROW)
ALL_QUOTED = re.compile(QUOTED)
FULL_ROWS = {end: re.compile(rb"(?:%s%s)*+" % (ROW, end)) for end in ENDS}
BLANK = {end: re.compile(rb"(?m)^" + end) for end in ENDS}


def line_end(path: Path) -> bytes:
    """Returns the line end of a CSV file's first line: CR LF or LF; LF for a file without one."""
    try:
        with path.open("rb") as file:
            head = file.read(LONGEST).removeprefix(MARK)
    except OSError as error:
        raise BadTable(f"{path} cannot be read: {error.strerror}") from None
    first = ONE_ROW.match(head)
    after = first.end() if first else 0
    return ENDS[0] if head[after : after + 2] == ENDS[0] else ENDS[1]


def csv_rows(path: Path, header: bool, blank_rows: bool) -> int:
    """Returns how many rows a file has after its header. `blank_rows`: whether an empty line is a row.

    Raises `BadTable`, with the line's number and no value, if the file does not follow the grammar.
    """
    end = line_end(path)
    rows, lines, rest = 0, 0, b""
    try:
        with path.open("rb") as file:
            if file.read(len(MARK)) != MARK:
                file.seek(0)
            while chunk := file.read(CHUNK):
                data = rest + chunk
                rows_here, size = _full_rows(data, end, blank_rows)
                rows, lines, rest = rows + rows_here, lines + data.count(b"\n", 0, size), data[size:]
                if len(rest) > LONGEST:
                    raise _refused(path, rest, lines, end)
    except OSError as error:
        raise BadTable(f"{path} cannot be read: {error.strerror}") from None
    if rest and not ONE_ROW.fullmatch(rest):
        raise _refused(path, rest, lines, end)
    return max(0, rows + bool(rest) - header)


def _full_rows(data: bytes, end: bytes, blank_rows: bool) -> tuple[int, int]:
    """Returns how many whole rows these bytes begin with, and their length in bytes."""
    match = FULL_ROWS[end].match(data)
    size = match.end() if match else 0
    outside = data[:size]
    if b'"' in outside:
        outside = ALL_QUOTED.sub(b"-", outside)
    rows = outside.count(b"\n")
    return (rows if blank_rows else rows - len(BLANK[end].findall(outside))), size


def _refused(path: Path, rest: bytes, lines: int, end: bytes) -> BadTable:
    """Returns the error that says why these bytes do not begin with a row."""
    match = ONE_ROW.match(rest)
    stop = match.end() if match else 0
    line = lines + rest.count(b"\n", 0, stop) + 1
    ends = "CR LF" if end == ENDS[0] else "LF"
    if stop >= LONGEST or stop == len(rest):
        what = f"a row of more than {LONGEST:,} bytes"
    elif rest[stop] == ord('"') and rest[stop - 1 : stop] in (b"", b",") and ALL_QUOTED.match(rest, stop) is None:
        what = "a quote that is never closed"
    elif rest[stop] in b"\r\n":
        name = "a carriage return" if rest[stop] == ord("\r") else "a line feed"
        what = f"{name} outside of quotes that ends no line: the file's lines end in {ends}"
    else:
        what = "a quote inside a field that is not quoted, or something after one that is"
    return BadTable(f"{path.name}, line {line}: {what}; write the file again with such fields in quotes")
