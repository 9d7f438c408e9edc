"""Requests: what was asked, by whom, under which key. Their digests are the ids of reservations."""

from __future__ import annotations

from collections.abc import Sequence

from noisebank.digests import tagged
from noisebank.errors import BadRequest
from noisebank.planning.pricing import Wish
from noisebank.queries.query import Question
from noisebank.units import Precision
from noisebank.vault.vault import Request

MAX_KEY = 200


class Asking:
    """Makes the requests of one version of an account. The same request under the same key has the same id."""

    def __init__(self, account: bytes, version: int) -> None:
        self._account, self._version = account, version

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
        named = self._named({"analyst": analyst, "key": key, "group": core})
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
        unit = f"{question.unit}" if not question.offset else f"{question.unit} + {question.offset}"
        core = {"query": question.query.digest.hex(), "unit": unit, "wanted": wanted.units}
        named = self._named({"analyst": analyst, "key": key, "request": core})
        body = {**core, "sql": question.sql, "asked": wished.plain(), **extra}
        return Request(tagged("reservation 1", named), self._account, analyst, key, body)

    def _named(self, request: dict[str, object]) -> dict[str, object]:
        """What an id stands for: the same request about the next version of a table is another one."""
        version = {"version": self._version} if self._version > 1 else {}
        return {"account": self._account.hex(), **version, **request}


def _check_names(key: str, analyst: str) -> None:
    for parameter, text in (("key", key), ("analyst", analyst)):
        if not isinstance(text, str) or not 0 < len(text) <= MAX_KEY or not text.isprintable():
            raise BadRequest(parameter, ascii(text)[:40], f"must have 1 to {MAX_KEY} printable characters")
