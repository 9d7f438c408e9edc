"""Statements over a whole table when its account is opened: counts for the owner, and a salted digest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import Any

from noisebank.engines.dialect import LANES, Dialect, Stored
from noisebank.engines.engine import Inspection
from noisebank.engines.fields import fields_of
from noisebank.policy.model import Policy


def inspection_statement(policy: Policy, table: str, dialect: Dialect, stored: Mapping[str, Stored]) -> str:
    """Returns SQL that counts the rows, and per declared column the missing values and those outside bounds or keys."""
    fields = fields_of(policy, frozenset(policy.columns), dialect, stored)
    counts = ["count(*)"]
    for name, column in policy.columns.items():
        field = fields[name]
        counts.append(f"count(*) FILTER (WHERE {field.missing})")
        limited = column.keys or column.low is not None
        counts.append(f"count(*) FILTER (WHERE {field.outside})" if limited else "0")
    read = ", ".join(f"{field.read} AS {field.name}" for field in fields.values())
    return f"SELECT {', '.join(counts)} FROM (SELECT {read} FROM {table} AS t) AS t"


def inspection_of(policy: Policy, found: Sequence[Any]) -> Inspection:
    """Returns the counts that the statement selected."""
    missing: dict[str, int] = {}
    outside: dict[str, int] = {}
    unkeyed: dict[str, int] = {}
    for number, column in enumerate(policy.columns.values()):
        missing[column.name] = int(found[1 + 2 * number])
        (unkeyed if column.keys else outside)[column.name] = int(found[2 + 2 * number])
    return Inspection(int(found[0]), missing, outside, unkeyed)


def digest_statement(salt: bytes, table: str, dialect: Dialect, stored: Mapping[str, Stored]) -> str:
    """Returns SQL for the number of rows and the sums of their keyed digests, per lane: in any order of rows."""
    texts = [dialect.framed(dialect.text(dialect.raw(name), kind)) for name, kind in sorted(stored.items())]
    row = dialect.sha256(dialect.joined([dialect.literal(salt.hex()), *texts]))
    sums = [dialect.wide(f"coalesce(sum({dialect.lane('h', number)}), 0)") for number in range(LANES)]
    return f"SELECT count(*), {', '.join(sums)} FROM (SELECT {row} AS h FROM {table} AS t) AS t"


def digest_of(salt: bytes, stored: Mapping[str, Stored], found: Sequence[Any]) -> bytes:
    """Returns the table's salted digest: of the names of columns, the number of rows, the sums of digests."""
    digest = blake2b(key=salt, digest_size=32)
    for text in (*sorted(stored), *(str(int(number)) for number in found)):
        digest.update(f"{len(text)}:{text}".encode())
    return digest.digest()
