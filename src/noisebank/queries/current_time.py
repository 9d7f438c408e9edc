"""Writes out CURRENT_DATE and NOW() in a question, when it is made: afterwards it is the same question for ever.

The clock is that of the policy's timestamps, UTC where there is none or where they differ.
"""

from __future__ import annotations

import re
from datetime import datetime

from sqlglot import Dialect, Token, TokenType
from sqlglot.errors import SqlglotError

from noisebank.core.calendar import clock_now
from noisebank.policy.model import Kind, Policy

DUCKDB = Dialect.get_or_raise("duckdb")
DATES = ("current_date", "today", "curdate")
MOMENTS = ("now", "current_timestamp", "localtimestamp", "getdate")
CALLED = ("now", "today", "getdate", "curdate")
"""Names that are functions only with parentheses behind them."""
SPOKEN = re.compile("|".join((*DATES, *MOMENTS, r"\bage\s*\(")), re.IGNORECASE)
"""AGE(born) is AGE(CURRENT_DATE, born)."""


def has_moment(sql: str) -> bool:
    """Whether a text may speak of the present. Quick: a text that does not is never read twice."""
    return SPOKEN.search(sql) is not None


def write_moment(sql: str, now: datetime) -> str:
    """Returns SQL in which CURRENT_DATE, NOW() and their like are literals. What is no SQL stays as it is.

    >>> write_moment("SELECT NOW() - d, CURRENT_DATE, 'now()' FROM t", datetime(2026, 11, 18, 13, 5))
    "SELECT TIMESTAMP '2026-11-18 13:05:00' - d, DATE '2026-11-18', 'now()' FROM t"
    """
    try:
        tokens = DUCKDB.tokenize(sql)
    except SqlglotError:
        return sql
    parts, copied = [], 0
    for index, token in enumerate(tokens):
        name = token.text.lower()
        if name == "age" and token.token_type is not TokenType.STRING and _has_one_argument(tokens, index):
            after = tokens[index + 1].end + 1
            parts += [sql[copied:after], f"DATE '{now:%Y-%m-%d}', "]
            copied = after
            continue
        if token.token_type in (TokenType.STRING, TokenType.IDENTIFIER) or name not in (*DATES, *MOMENTS):
            continue
        called = _is_called(tokens, index)
        if name in CALLED and not called:
            continue
        literal = f"DATE '{now:%Y-%m-%d}'" if name in DATES else f"TIMESTAMP '{now:%Y-%m-%d %H:%M:%S}'"
        parts += [sql[copied : token.start], literal]
        copied = (tokens[index + 2] if called else token).end + 1
    return "".join([*parts, sql[copied:]])


def policy_now(policy: Policy) -> datetime:
    """Returns what the clock of a policy's timestamps shows now."""
    zones = {column.zone for column in policy.columns.values() if column.kind is Kind.TIMESTAMP}
    return clock_now(zones.pop() if len(zones) == 1 else "UTC")


def _is_called(tokens: list[Token], index: int) -> bool:
    following = [token.token_type for token in tokens[index + 1 : index + 3]]
    return following == [TokenType.L_PAREN, TokenType.R_PAREN]


def _has_one_argument(tokens: list[Token], index: int) -> bool:
    """Whether a name is called with one argument."""
    kinds = [token.token_type for token in tokens[index + 1 :]]
    if kinds[:1] != [TokenType.L_PAREN] or kinds[1:2] == [TokenType.R_PAREN]:
        return False
    depth = 0
    for kind in kinds:
        depth += (kind is TokenType.L_PAREN) - (kind is TokenType.R_PAREN)
        if not depth:
            return True
        if depth == 1 and kind is TokenType.COMMA:
            return False
    return False
