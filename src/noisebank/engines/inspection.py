"""Statements over a whole table when its account is opened: counts for the owner, and a salted digest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import Any

from noisebank.engines.dialect import DIGEST_LANES, Dialect, StorageType
from noisebank.engines.engine import Inspection
from noisebank.engines.fields import make_fields, read_rows
from noisebank.policy.model import Policy


def inspection_statement(policy: Policy, table: str, dialect: Dialect, storage_types: Mapping[str, StorageType]) -> str:
    """Returns SQL that counts the rows, per declared column the missing values and those outside bounds or keys, and
    the rows that count nowhere."""
    fields = make_fields(policy, frozenset(policy.columns), dialect, storage_types)
    counts = ["count(*)"]
    for name, column in policy.columns.items():
        field = fields[name]
        counts.append(f"count(*) FILTER (WHERE {field.missing_test})")
        limited = column.keys or column.low is not None
        counts.append(f"count(*) FILTER (WHERE {field.outside_test})" if limited else "0")
    tests = " AND ".join(fields[name].counted_test for name in policy.complete_columns)
    counts.append(f"count(*) - count(*) FILTER (WHERE {tests})" if tests else "0")
    return f"SELECT {', '.join(counts)} FROM {read_rows(fields, table)}"


def parse_inspection(policy: Policy, counts: Sequence[Any]) -> Inspection:
    """Returns the counts that the statement selected."""
    missing: dict[str, int] = {}
    outside: dict[str, int] = {}
    unkeyed: dict[str, int] = {}
    for number, column in enumerate(policy.columns.values()):
        missing[column.name] = int(counts[1 + 2 * number])
        (unkeyed if column.keys else outside)[column.name] = int(counts[2 + 2 * number])
    return Inspection(int(counts[0]), missing, outside, unkeyed, uncounted=int(counts[-1]))


def digest_statement(salt: bytes, table: str, dialect: Dialect, storage_types: Mapping[str, StorageType]) -> str:
    """Returns SQL for the number of rows and the sums of their keyed digests, per lane: in any order of rows."""
    texts = [
        dialect.frame_text(dialect.cast_text(dialect.column_sql(name), kind))
        for name, kind in sorted(storage_types.items())
    ]
    row = dialect.sha256_hex(dialect.concat_texts([dialect.quote_text(salt.hex()), *texts]))
    sums = [
        dialect.cast_wide(f"coalesce(sum({dialect.digest_lane('h', number)}), 0)") for number in range(DIGEST_LANES)
    ]
    return f"SELECT count(*), {', '.join(sums)} FROM (SELECT {row} AS h FROM {table} AS t) AS t"


def table_digest(salt: bytes, storage_types: Mapping[str, StorageType], numbers: Sequence[Any]) -> bytes:
    """Returns the table's salted digest: of the names of columns, the number of rows, the sums of digests."""
    digest = blake2b(key=salt, digest_size=32)
    for text in (*sorted(storage_types), *(str(int(number)) for number in numbers)):
        digest.update(f"{len(text)}:{text}".encode())
    return digest.digest()
