"""`RequestBuilder` makes requests: what is asked, by whom, under which key. Their digests are ids of reservations."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from noisebank.core.digests import digest_tagged
from noisebank.core.errors import BadRequest
from noisebank.core.units import Precision
from noisebank.planning.pricing import AccuracyTarget
from noisebank.planning.serving import parse_look
from noisebank.policy.model import Policy
from noisebank.queries.query import Question
from noisebank.queries.sql import parse_question
from noisebank.vault.vault import Request

MAX_KEY_LENGTH = 200
OWN_KEYS = re.compile(r".+ / (end|look [0-9]+|part [0-9]+ of [0-9]+)|look [0-9a-f]{16} / [0-9]+", re.DOTALL)
"""Keys under which steps, parts and looks are saved beside the requests that they belong to."""


class RequestBuilder:
    """Builds the requests of one version of an account. The same request under the same key has the same id."""

    def __init__(self, account: bytes, version: int) -> None:
        self._account, self._version = account, version

    def build_requests(
        self,
        questions: Sequence[tuple[Question, AccuracyTarget]],
        targets: Sequence[Precision],
        key: str,
        analyst: str,
        is_look: bool = False,
        budget: Precision | None = None,
    ) -> list[Request]:
        """Returns one request per question, preceded by a request for the group if there are several.

        The group's request holds its key, which then cannot be used for another group. `is_look` marks the requests
        whose answers decide what comes next, also in their ids: nobody can have saved the same request without it.
        `budget` is noted beside what a retry finds by the key.
        """
        size = len(questions)
        mark: dict[str, object] = {"coarse": True} if is_look else {}
        note: dict[str, object] = {} if budget is None else {"budget": budget.units}
        if size == 1:
            return [self.build_request(questions[0][0], questions[0][1], targets[0], key, analyst, mark, **note)]
        _check_names(key, analyst)
        parts = [question.query.digest.hex() for question, _ in questions]
        core = {"parts": parts, "wanted": [target.units for target in targets], **mark}
        group_id = digest_tagged("group 1", self._identify(analyst, key, group=core))
        group = Request(group_id, self._account, analyst, key, {**core, **note})
        keys = [f"{key} / part {number} of {size}" for number in range(1, size + 1)]
        return [
            group,
            *(
                self.build_request(question, accuracy, target, part_key, analyst, mark)
                for (question, accuracy), target, part_key in zip(questions, targets, keys, strict=True)
            ),
        ]

    def build_request(
        self,
        question: Question,
        accuracy: AccuracyTarget,
        target: Precision,
        key: str,
        analyst: str,
        mark: Mapping[str, object] = MappingProxyType({}),
        **extra: object,
    ) -> Request:
        """Returns the request of one question; `mark` goes into its id and its body, `extra` into the body only."""
        _check_names(key, analyst)
        unit = f"{question.unit}" if not question.offset else f"{question.unit} + {question.offset}"
        core = {"query": question.query.digest.hex(), "unit": unit, "wanted": target.units, **mark}
        body = {**core, "sql": question.sql, "asked": accuracy.to_json(), **extra}
        id = digest_tagged("reservation 1", self._identify(analyst, key, request=core))
        return Request(id, self._account, analyst, key, body)

    def build_end(self, name: str, analyst: str, reason: str) -> Request:
        """Returns what is saved, under the key `name`, of a request that has ended at a look: why. It reserves
        nothing."""
        body = {"end": reason}
        id = digest_tagged("end 1", self._identify(analyst, name, request=body))
        return Request(id, self._account, analyst, name, body)

    def _identify(self, analyst: str, key: str, **contents: object) -> dict[str, object]:
        """Returns what an id commits to. In another version of the table it is another request."""
        version = {"version": self._version} if self._version > 1 else {}
        return {"account": self._account.hex(), **version, "analyst": analyst, "key": key, **contents}


def name_look(key: str, number: int) -> str:
    """Returns the key under which a look of a request is saved."""
    return f"{key} / look {number}"


def name_end(key: str) -> str:
    """Returns the key under which it is saved that a request has ended at a look, where a step has its own one."""
    return f"{key} / end"


def read_question(request: Request, policy: Policy) -> Question:
    """Returns the question of a saved request: SQL, or a look at a cube."""
    look = request.body.get("look")
    return parse_question(policy.resolve_sql(request.body["sql"]), policy) if look is None else parse_look(look, policy)


def _check_names(key: str, analyst: str) -> None:
    for parameter, text in (("key", key), ("analyst", analyst)):
        if not isinstance(text, str) or not 0 < len(text) <= MAX_KEY_LENGTH or not text.isprintable():
            raise BadRequest(parameter, ascii(text)[:40], f"must have 1 to {MAX_KEY_LENGTH} printable characters")
