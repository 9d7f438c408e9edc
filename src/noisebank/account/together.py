"""Joins the questions of an atomic batch into one group, which is charged as a whole or not at all."""

from __future__ import annotations

from collections.abc import Sequence

from noisebank.account.parsing import ParsedRequest, RequestParser, add_question
from noisebank.account.pipeline import BatchItem
from noisebank.account.selects import TargetedQuestion
from noisebank.core.asks import Ask
from noisebank.core.errors import BadRequest, NoisebankError
from noisebank.core.units import ZERO_PRECISION
from noisebank.ledger.encoding import MAX_GROUP_PARTS


def parse_together(requests: Sequence[Ask], parser: RequestParser) -> list[ParsedRequest]:
    """Returns parsed questions that may be charged together; raises the first mistake, which is that of all."""
    first = requests[0]
    if any((request.key, request.analyst) != (first.key, first.analyst) for request in requests):
        raise BadRequest("atomic", "several keys or analysts", "questions together have one of each")
    parsed = []
    for number, request in enumerate(requests, 1):
        try:
            parsed.append(parser.parse_request(request))
        except NoisebankError as error:
            error.place_in_batch(number, len(requests))
            raise
    if any(request.select.goal is not None for request in parsed):
        raise BadRequest(
            "atomic", "within or relative", "needs looks, which are charged before: say epsilon, or a spend for all"
        )
    return parsed


def join_requests(requests: Sequence[Ask], parsed: Sequence[ParsedRequest]) -> tuple[BatchItem, list[list[int]]]:
    """Returns the questions as one item of a batch, and for each request the indices of its own."""
    limits = [request.item.max_cost for request in parsed if request.item.max_cost is not None]
    if 0 < len(limits) < len(requests):
        raise BadRequest("max_cost", "of some", "must be given for all questions together, or for none")
    questions: list[TargetedQuestion] = []
    indices = [[add_question(questions, part) for part in request.select.questions] for request in parsed]
    if len(questions) > MAX_GROUP_PARTS:
        raise BadRequest("atomic", f"{len(questions)} questions", f"at most {MAX_GROUP_PARTS} together")
    limit = sum(limits, ZERO_PRECISION) if limits else None
    plainly = any(request.item.plainly for request in parsed)
    budget = next((request.item.budget for request in parsed if request.item.budget is not None), None)
    return BatchItem(questions, limit, requests[0].key, requests[0].analyst, plainly, budget=budget), indices
