"""API routes for many questions at once: `answers:batch` and `quotes:batch`, each question with its own outcome."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from typing import Any, overload

from fastapi import APIRouter, Request
from fastapi.routing import APIRoute
from starlette.responses import JSONResponse, Response, StreamingResponse

from noisebank.service.answering import Outcome, PendingAsk
from noisebank.service.api.answers import AskCaller, IdempotencyKey, QuoteCaller, parse_body, parse_key, raise_mistakes
from noisebank.service.api.public import PROBLEM_RESPONSES
from noisebank.service.authenticator import MAY_ASK, MAY_QUOTE, ServiceState, read_secret, run_for, state_of
from noisebank.service.batch_schemas import AnswerBatchIn, AnswerBatchOut, QuestionIn, QuoteBatchIn, QuoteBatchOut
from noisebank.service.errors import ApiError
from noisebank.service.limits import overload_error
from noisebank.service.operations import RequestTime
from noisebank.service.problem_reports import report_problem
from noisebank.service.roles import Caller
from noisebank.service.schemas import QuoteIn

router = APIRouter(prefix="/v1/datasets/{dataset}", tags=["asking"], responses=PROBLEM_RESPONSES)


async def post_answers(
    request: Request, dataset: str, body: AnswerBatchIn, caller: AskCaller, key: IdempotencyKey
) -> Response:
    """Up to 1,000 answers, each with its own outcome; or, with "atomic", all of up to 16 at one price, or none."""
    state = state_of(request)
    worker = state.answers.find_worker(dataset)
    questions = await _spread_spend(request, dataset, body)
    clock, secret = RequestTime(time.time(), state.settings.skew_seconds), read_secret(request) or ""
    asks = [
        PendingAsk(caller, secret, question, key if body.atomic else question.key or f"{key} #{number}", clock)
        for number, question in enumerate(questions, 1)
    ]
    parts = [asks] if body.atomic else worker.split_items(asks)
    outcomes = await worker.run(parts[0], atomic=body.atomic)
    if body.atomic and isinstance(outcomes[0], Exception):  # then it is the error of all
        raise outcomes[0]

    async def encode_parts() -> AsyncIterator[bytes]:
        """Answer part after part: nobody's batch holds others up for long, and no response is held as a whole."""
        piece = _encode_outcomes(state, request, outcomes)
        size = len(piece)
        yield b'{"outcomes":[' + piece
        for part in parts[1:]:
            too_large = size > state.settings.max_batch_answers
            rest = [_too_large_error(size)] * len(part) if too_large else await worker.run(part, is_admitted=True)
            piece = _encode_outcomes(state, request, rest)
            size += len(piece)
            yield b"," + piece
        yield b"]}"

    if len(parts) == 1:
        return Response(b"".join([piece async for piece in encode_parts()]), media_type="application/json")
    return StreamingResponse(encode_parts(), media_type="application/json")


async def post_quotes(request: Request, dataset: str, body: QuoteBatchIn, caller: QuoteCaller) -> Response:
    """What up to 1,000 answers would cost now, each alone; with "atomic", also all of them together."""
    state = state_of(request)
    questions = await _spread_spend(request, dataset, body)

    def work() -> dict[str, Any]:
        outcomes = state.operations.quote_many(dataset, caller, questions)
        together = state.operations.quote_together(dataset, caller, questions) if body.atomic else None
        return {"outcomes": [_quote_row(state, request, each) for each in outcomes], "together": together}

    return JSONResponse(await run_for(request, work))


async def parse_and_answer(request: Request) -> Response:
    """Parse a request for `post_answers`: the caller first, then the body, which may be large."""
    caller, state = MAY_ASK.check_request(request), state_of(request)
    dataset = request.path_params["dataset"]
    if state.answers.is_full(dataset):
        raise overload_error()
    mistakes: list[Any] = []
    key, body = parse_key(request, mistakes), await parse_body(request, AnswerBatchIn, mistakes)
    if key is None or body is None:
        raise_mistakes(mistakes)
    state.authenticator.count_questions(caller, len(body.questions))
    return await post_answers(request, dataset, body, caller, key)


async def parse_and_quote(request: Request) -> Response:
    """Parse a request for `post_quotes`, the caller first."""
    caller: Caller = MAY_QUOTE.check_request(request)
    mistakes: list[Any] = []
    body = await parse_body(request, QuoteBatchIn, mistakes)
    if body is None:
        raise_mistakes(mistakes)
    state_of(request).authenticator.count_questions(caller, len(body.questions))
    return await post_quotes(request, request.path_params["dataset"], body, caller)


class AnswersRoute(APIRoute):
    """The route of `post_answers`, parsed by hand."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        return parse_and_answer


class QuotesRoute(APIRoute):
    """The route of `post_quotes`, parsed by hand."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        return parse_and_quote


router.add_api_route(
    "/quotes:batch",
    post_quotes,
    name="quote_batch",
    methods=["POST"],
    response_model=QuoteBatchOut,
    route_class_override=QuotesRoute,
)
router.add_api_route(
    "/answers:batch",
    post_answers,
    name="answer_batch",
    methods=["POST"],
    response_model=AnswerBatchOut,
    route_class_override=AnswersRoute,
)


@overload
async def _spread_spend(request: Request, dataset: str, body: AnswerBatchIn) -> Sequence[QuestionIn]: ...
@overload
async def _spread_spend(request: Request, dataset: str, body: QuoteBatchIn) -> Sequence[QuoteIn]: ...
async def _spread_spend(request: Request, dataset: str, body: AnswerBatchIn | QuoteBatchIn) -> Sequence[QuoteIn]:
    """Return the questions, each with what it may spend if the batch says that for all of them."""
    spend = body.spend
    if spend is None:
        return body.questions
    operations = state_of(request).operations
    return await run_for(request, lambda: operations.spread_spend(dataset, body.questions, spend))


def _too_large_error(size: int) -> ApiError:
    """Return the error of the questions that are not asked any more."""
    text = f"the answers to this batch have {size} bytes already: ask this question again, in another batch"
    return ApiError("too-large", f"{text}; nothing was spent on it")


def _encode_outcomes(state: ServiceState, request: Request, outcomes: Sequence[Outcome]) -> bytes:
    return b",".join(
        b'{"answer":null,"problem":%b}' % json.dumps(_report(state, request, outcome)).encode()
        if isinstance(outcome, Exception)
        else b'{"answer":%b,"problem":null}' % outcome
        for outcome in outcomes
    )


def _quote_row(state: ServiceState, request: Request, outcome: dict[str, Any] | Exception) -> dict[str, Any]:
    if isinstance(outcome, Exception):
        return {"quote": None, "problem": _report(state, request, outcome)}
    return {"quote": outcome, "problem": None}


def _report(state: ServiceState, request: Request, error: Exception) -> dict[str, Any]:
    return report_problem(state, error, request.scope["state"]["request"])[1]
