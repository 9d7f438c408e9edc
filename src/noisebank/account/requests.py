"""Requests: what was asked, by whom, under which key. Their digests are the ids of reservations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from noisebank.core.caches import remembering
from noisebank.core.digests import canonical, tagged, tagged_text
from noisebank.core.errors import BadRequest
from noisebank.core.units import Precision
from noisebank.planning.pricing import Wish
from noisebank.queries.query import Question
from noisebank.vault.vault import Request

MAX_KEY = 200
SPELLED_BYTES = 4 << 20
"""For questions that are kept as they were written down."""


class Asking:
    """Makes the requests of one version of an account. The same request under the same key has the same id."""

    def __init__(self, account: bytes, version: int) -> None:
        self._account, self._version = account, version
        self._spelled = remembering(SPELLED_BYTES)(_spelled)

    def requests(
        self, asked: Sequence[tuple[Question, Wish]], wanted: Sequence[Precision], key: str, analyst: str
    ) -> list[Request]:
        """One a question; before them one for the whole group, if it is one: its key cannot be used for another."""
        size = len(asked)
        if size == 1:
            return [self.request(asked[0][0], asked[0][1], wanted[0], key, analyst)]
        _check_names(key, analyst)
        parts = [question.query.digest.hex() for question, _ in asked]
        core = {"parts": parts, "wanted": [units.units for units in wanted]}
        version = {"version": self._version} if self._version > 1 else {}
        named = {"account": self._account.hex(), **version, "analyst": analyst, "key": key, "group": core}
        whole = Request(tagged("group 1", named), self._account, analyst, key, core)
        keys = [f"{key} / part {number} of {size}" for number in range(1, size + 1)]
        return [
            whole,
            *(
                self.request(question, wished, units, own, analyst)
                for (question, wished), units, own in zip(asked, wanted, keys, strict=True)
            ),
        ]

    def request(
        self, question: Question, wished: Wish, wanted: Precision, key: str, analyst: str, **extra: object
    ) -> Request:
        """One question's."""
        _check_names(key, analyst)
        core, body, text = self._spelled(question, wished, wanted)
        id = tagged_text("reservation 1", self._named(core, key, analyst))
        made = Request(id, self._account, analyst, key, {**body, **extra})
        if not extra:
            made.__dict__["text"] = text
        return made

    def _named(self, core: str, key: str, analyst: str) -> str:
        """What an id stands for: the same request about the next version of a table is another one.

        Canonical, put together by hand: what is asked again differs by its key only.
        """
        version = f',"version":{self._version}' if self._version > 1 else ""
        who = f'"account":"{self._account.hex()}","analyst":{canonical(analyst)},"key":{canonical(key)}'
        return f'{{{who},"request":{core}{version}}}'


def _spelled(question: Question, wished: Wish, wanted: Precision) -> tuple[str, dict[str, Any], str]:
    """What an id commits to, as canonical text; what is kept of a request; and that as canonical text."""
    unit = f"{question.unit}" if not question.offset else f"{question.unit} + {question.offset}"
    core = {"query": question.query.digest.hex(), "unit": unit, "wanted": wanted.units}
    body = {**core, "sql": question.sql, "asked": wished.plain()}
    return canonical(core), body, canonical(body)


def _check_names(key: str, analyst: str) -> None:
    for parameter, text in (("key", key), ("analyst", analyst)):
        if not isinstance(text, str) or not 0 < len(text) <= MAX_KEY or not text.isprintable():
            raise BadRequest(parameter, ascii(text)[:40], f"must have 1 to {MAX_KEY} printable characters")
