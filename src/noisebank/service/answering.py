"""Answers requests in batches, one worker per table: what the API's routes and the console give every question to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from noisebank.account.account import Account
from noisebank.core.asks import Ask
from noisebank.core.errors import NoisebankError, OutcomeUnknown
from noisebank.core.result import Result
from noisebank.service import serializers
from noisebank.service.auth import AccessControl
from noisebank.service.batching import BatchWorker
from noisebank.service.errors import ApiError
from noisebank.service.metrics import Metrics
from noisebank.service.operations import Operations, RequestTime
from noisebank.service.roles import Caller
from noisebank.service.schemas import AskIn
from noisebank.service.settings import Settings

SQL_CHARACTERS = 500
"""Of a question that weighs twice as much as a short one: parsing takes up to 9 microseconds per character."""
GROUPED_WEIGHT = 16
"""Of a GROUP BY, whose answer may have 10,000 rows: so few of them are held in memory at once."""


@dataclass(frozen=True, slots=True)
class PendingAsk:
    """A question on its way to its table: who asks, with which secret, under which key."""

    caller: Caller
    secret: str
    body: AskIn
    key: str
    time: RequestTime


Outcome = bytes | Exception
"""Of a question: the answer as JSON, or its error."""


class AnswerBatches:
    """Collects questions per table and answers them in batches. A slow table holds up no other one."""

    def __init__(self, operations: Operations, access: AccessControl, metrics: Metrics, settings: Settings) -> None:
        self._operations, self._access, self._metrics, self._settings = operations, access, metrics, settings
        self._workers: dict[str, BatchWorker[PendingAsk, Outcome]] = {}

    async def answer_one(self, dataset: str, ask: PendingAsk) -> bytes:
        """Answer one question; returns the answer as JSON, or raises its error."""
        (outcome,) = await self.find_worker(dataset).run([ask])
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    def find_worker(self, dataset: str) -> BatchWorker[PendingAsk, Outcome]:
        """Return the worker of a table; raises not-found if there is no such table."""
        worker = self._workers.get(dataset)
        if worker is None:
            self._operations.find_account(dataset)
            worker = self._workers[dataset] = BatchWorker(
                dataset,
                lambda asks, atomic: self.answer_batch(dataset, asks, atomic),
                self._settings.batch,
                self._settings.queue,
                lambda ask: weigh_question(self._operations.find_account(dataset).named(ask.body.sql)),
            )
        return worker

    def is_full(self, dataset: str) -> bool:
        """Whether a further question to this table would be refused."""
        worker = self._workers.get(dataset)
        return worker is not None and worker.is_full

    @property
    def active_questions(self) -> int:
        """How many questions are in work or wait."""
        return sum(worker.active_items for worker in self._workers.values())

    def close(self) -> None:
        """Finish what was let in; call it in the event loop's thread."""
        for worker in self._workers.values():
            worker.close()

    def answer_batch(self, dataset: str, asks: Sequence[PendingAsk], atomic: bool) -> list[Outcome]:
        """Answer a batch; returns one outcome per question. On a thread of the table.

        Access is checked before a question is begun and before its answer is returned. What was charged is finished
        even if access ends meanwhile; the owner can read its answer.
        """
        try:
            account = self._operations.find_account(dataset)
        except ApiError as error:
            return [error] * len(asks)
        admitted = self._find_admitted(asks)
        requests = [self._prepare_ask(account, ask, admitted) for ask in asks]
        if atomic and (refusal := next((each for each in requests if isinstance(each, Exception)), None)):
            return [refusal] * len(asks)
        results = iter(_ask_account(account, [each for each in requests if isinstance(each, Ask)], atomic))
        admitted = self._find_admitted(asks)
        return [
            request if isinstance(request, Exception) else self._encode_result(dataset, ask, next(results), admitted)
            for ask, request in zip(asks, requests, strict=True)
        ]

    def _find_admitted(self, asks: Sequence[PendingAsk]) -> set[str]:
        """Return which secrets of a batch are valid now: each is looked up once, however many questions it has."""
        return {secret for secret in {ask.secret for ask in asks} if self._access.find_caller(secret) is not None}

    def _prepare_ask(self, account: Account, ask: PendingAsk, admitted: set[str]) -> Ask | Exception:
        """Return the question as the account takes it; a signature is checked before anything else happens."""
        try:
            check_access(ask, admitted)
            return self._operations.make_ask(account, ask.caller, ask.body, ask.key, ask.time)
        except Exception as error:
            return error

    def _encode_result(self, dataset: str, ask: PendingAsk, result: Result | Exception, admitted: set[str]) -> Outcome:
        if isinstance(result, Exception):
            return _find_mistake(result)
        try:
            check_access(ask, admitted)
            self._metrics.answers.labels(dataset, result.case.name).inc()
            return serializers.result_to_bytes(result)
        except Exception as error:
            return error


def check_access(ask: PendingAsk, admitted: set[str]) -> None:
    """Raise if the secret of a question is none of those that are valid."""
    if ask.secret not in admitted:
        raise ApiError("access-ended", "this key or session has ended while the request was worked on")


def weigh_question(sql: str) -> int:
    """Return how much of a batch a question takes, in short questions; by its text alone."""
    return len(sql) // SQL_CHARACTERS + (GROUPED_WEIGHT if "group" in sql.lower() else 1)


def _find_mistake(error: Exception) -> Exception:
    """Return the mistake of ours behind an unknown outcome, which is logged and not quoted; else the error itself."""
    cause = error.__cause__
    if isinstance(error, OutcomeUnknown) and isinstance(cause, Exception) and not isinstance(cause, NoisebankError):
        return cause
    return error


def _ask_account(account: Account, asks: Sequence[Ask], atomic: bool) -> list[Result | Exception]:
    """Ask the account. A mistake of ours in one question is not the others': each is then asked alone.

    That is safe, since each has its idempotency key: it is the same as if its caller had asked again.
    """
    if not asks:
        return []
    try:
        return list(account.ask_many(asks, atomic=atomic))
    except NoisebankError as error:
        return [error] * len(asks)
    except Exception as error:
        if atomic or len(asks) == 1:
            return [error] * len(asks)
        return [_ask_account(account, [ask], False)[0] for ask in asks]
