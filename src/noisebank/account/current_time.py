"""Fixes CURRENT_DATE and NOW() when a request is made. A retry with its key is about the same moment, at any time."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime

from noisebank.account.context import AccountContext
from noisebank.core.asks import Ask
from noisebank.core.errors import NoisebankError
from noisebank.queries.current_time import has_moment, policy_now, write_moment
from noisebank.queries.selects import parse_select_list

LITERAL = re.compile(r"'(\d{4}-\d\d-\d\d(?: \d\d:\d\d:\d\d)?)'")
MAX_LITERALS = 50


def fix_sql(context: AccountContext, sql: str) -> str:
    """Returns SQL, or that of a named query, with the present written out if it speaks of it."""
    text = context.policy.resolve_sql(sql)
    return write_moment(text, policy_now(context.policy)) if has_moment(text) else sql


def fix_moment(context: AccountContext, request: Ask) -> Ask:
    """Returns a request with the present written out: that of the first request with this key, if there was one."""
    if not isinstance(request.sql, str):  # refused when it is read: in a batch, it alone
        return request
    text = context.policy.resolve_sql(request.sql)
    if not has_moment(text):
        return request
    if isinstance(request.key, str):
        for now, digests in _earlier_moments(context, request.analyst, request.key):
            fixed = write_moment(text, now)
            if digests & _digests_of(context, fixed):
                return replace(request, sql=fixed)
    return replace(request, sql=write_moment(text, policy_now(context.policy)))


def _earlier_moments(context: AccountContext, analyst: str, key: str) -> Iterator[tuple[datetime, set[str]]]:
    """Yields the dates in what was asked with a key, latest spelling first, each with the digests of its questions."""
    spellings = (key, f"{key} / look 1")  # what ended at a look has no request with the key itself
    requests = (context.vault.find_request_by_key(context.id, analyst, each) for each in spellings)
    first = next((request for request in requests if request is not None and "end" not in request.body), None)
    if first is None:
        return
    key = first.key
    size = len(first.body.get("parts", ()))
    names = [f"{key} / part {number} of {size}" for number in range(1, size + 1)]
    parts = [context.vault.find_request_by_key(context.id, analyst, name) for name in names]
    texts = [first.body.get("sql", ""), *(part.body["sql"] for part in parts if part is not None)]
    digests = {str(first.body["query"])} if "query" in first.body else set(map(str, first.body["parts"]))
    literals = dict.fromkeys(literal for text in texts for literal in LITERAL.findall(text))
    for literal in sorted(literals, key=len, reverse=True)[:MAX_LITERALS]:
        try:
            yield datetime.fromisoformat(literal), digests
        except ValueError:
            continue


def _digests_of(context: AccountContext, sql: str) -> set[str]:
    try:
        aggregates = parse_select_list(sql, context.policy).aggregates
    except NoisebankError:
        return set()
    return {question.query.digest.hex() for aggregate in aggregates for question in aggregate.questions}
