"""`RequestBuilder` makes requests: what is asked, by whom, under which key. Their digests are ids of reservations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from noisebank.core.caches import cache_results
from noisebank.core.digests import digest_tagged, digest_tagged_text, to_canonical_json
from noisebank.core.errors import BadRequest
from noisebank.core.units import Precision
from noisebank.planning.pricing import AccuracyTarget
from noisebank.queries.query import Question
from noisebank.vault.vault import Request

MAX_KEY_LENGTH = 200
CACHE_BYTES = 4 << 20
"""Of the cache of encoded questions."""


class RequestBuilder:
    """Builds the requests of one version of an account. The same request under the same key has the same id."""

    def __init__(self, account: bytes, version: int) -> None:
        self._account, self._version = account, version
        self._encode_question_cached = cache_results(CACHE_BYTES)(_encode_question)

    def build_requests(
        self, questions: Sequence[tuple[Question, AccuracyTarget]], targets: Sequence[Precision], key: str, analyst: str
    ) -> list[Request]:
        """Returns one request per question, preceded by a request for the group if there are several.

        The group's request holds its key, which then cannot be used for another group.
        """
        size = len(questions)
        if size == 1:
            return [self.build_request(questions[0][0], questions[0][1], targets[0], key, analyst)]
        _check_names(key, analyst)
        parts = [question.query.digest.hex() for question, _ in questions]
        core = {"parts": parts, "wanted": [target.units for target in targets]}
        version = {"version": self._version} if self._version > 1 else {}
        identity = {"account": self._account.hex(), **version, "analyst": analyst, "key": key, "group": core}
        group = Request(digest_tagged("group 1", identity), self._account, analyst, key, core)
        keys = [f"{key} / part {number} of {size}" for number in range(1, size + 1)]
        return [
            group,
            *(
                self.build_request(question, accuracy, target, part_key, analyst)
                for (question, accuracy), target, part_key in zip(questions, targets, keys, strict=True)
            ),
        ]

    def build_request(
        self, question: Question, accuracy: AccuracyTarget, target: Precision, key: str, analyst: str, **extra: object
    ) -> Request:
        """Returns the request of one question; `extra` goes into its body."""
        _check_names(key, analyst)
        core, body, text = self._encode_question_cached(question, accuracy, target)
        id = digest_tagged_text("reservation 1", self._identity_text(core, key, analyst))
        request = Request(id, self._account, analyst, key, {**body, **extra})
        if not extra:
            request.__dict__["text"] = text  # fills the cached property: the text is known already
        return request

    def _identity_text(self, core: str, key: str, analyst: str) -> str:
        """Returns what an id commits to, as canonical JSON. In another version of the table it is another request.

        Put together by hand from cached text, for speed: a question that is asked again differs in its key only.
        """
        version = f',"version":{self._version}' if self._version > 1 else ""
        who = f'"account":"{self._account.hex()}","analyst":{to_canonical_json(analyst)},"key":{to_canonical_json(key)}'
        return f'{{{who},"request":{core}{version}}}'


def _encode_question(
    question: Question, accuracy: AccuracyTarget, target: Precision
) -> tuple[str, dict[str, Any], str]:
    """Returns a request's core, which its id commits to, as canonical JSON; its body; and that as canonical JSON."""
    unit = f"{question.unit}" if not question.offset else f"{question.unit} + {question.offset}"
    core = {"query": question.query.digest.hex(), "unit": unit, "wanted": target.units}
    body = {**core, "sql": question.sql, "asked": accuracy.to_json()}
    return to_canonical_json(core), body, to_canonical_json(body)


def _check_names(key: str, analyst: str) -> None:
    for parameter, text in (("key", key), ("analyst", analyst)):
        if not isinstance(text, str) or not 0 < len(text) <= MAX_KEY_LENGTH or not text.isprintable():
            raise BadRequest(parameter, ascii(text)[:40], f"must have 1 to {MAX_KEY_LENGTH} printable characters")
