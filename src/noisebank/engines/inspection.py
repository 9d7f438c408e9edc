"""Looks at a whole table when its account is opened, inside the engine: counts for the owner, and a salted digest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import Any

from noisebank.engines.dialect import LANES, Dialect, Stored
from noisebank.engines.engine import Inspection
from noisebank.engines.fields import fields_of
from noisebank.policy.model import Policy


def inspection_statement(policy: Policy, table: str, dialect: Dialect, stored: Mapping[str, Stored]) -> str:
    """SELECT the rows, and for each declared column its missing values and those outside of bounds or keys."""
    fields = fields_of(policy, frozenset(policy.columns), dialect, stored)
    counts = ["count(*)"]
    for name, column in policy.columns.items():
        field = fields[name]
        counts.append(f"count(*) FILTER (WHERE {field.missing})")
        judged = column.keys or column.low is not None
        counts.append(f"count(*) FILTER (WHERE {field.outside})" if judged else "0")
    read = ", ".join(f"{field.read} AS {field.name}" for field in fields.values())
    return f"SELECT {', '.join(counts)} FROM (SELECT {read} FROM {table} AS t) AS t"


def inspection_of(policy: Policy, found: Sequence[Any]) -> Inspection:
    """The counts that the statement selected."""
    missing: dict[str, int] = {}
    outside: dict[str, int] = {}
    unkeyed: dict[str, int] = {}
    for place, column in enumerate(policy.columns.values()):
        missing[column.name] = int(found[1 + 2 * place])
        (unkeyed if column.keys else outside)[column.name] = int(found[2 + 2 * place])
    return Inspection(int(found[0]), missing, outside, unkeyed)


def digest_statement(salt: bytes, table: str, dialect: Dialect, stored: Mapping[str, Stored]) -> str:
    """SELECT the number of rows and the sum of their keyed digests, piece by piece: the order of rows plays no role."""
    texts = [dialect.framed(dialect.text(dialect.raw(name), kind)) for name, kind in sorted(stored.items())]
    row = dialect.sha256(dialect.joined([dialect.literal(salt.hex()), *texts]))
    sums = [dialect.wide(f"coalesce(sum({dialect.lane('h', place)}), 0)") for place in range(LANES)]
    return f"SELECT count(*), {', '.join(sums)} FROM (SELECT {row} AS h FROM {table} AS t) AS t"


def digest_of(salt: bytes, stored: Mapping[str, Stored], found: Sequence[Any]) -> bytes:
    """The table's salted digest: names of columns, number of rows, sums of digests."""
    digest = blake2b(key=salt, digest_size=32)
    for text in (*sorted(stored), *(str(int(number)) for number in found)):
        digest.update(f"{len(text)}:{text}".encode())
    return digest.digest()
