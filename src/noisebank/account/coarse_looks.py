"""Coarse looks before answers whose noise depends on the data: each is a request of its own on the one path.

What decides the precision of the next step are the answers of looks, the request and the policy: nothing that is not
paid for, and nothing that another bank with the same answers would decide otherwise. So a retry takes the same steps.
The last step decides nothing, and a look beyond the limit of `CoarseLookCounter` is not followed: docs/proofs/looks.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from math import sqrt

from noisebank.account.answers import Answer, GroupedAnswer
from noisebank.account.context import AccountContext
from noisebank.account.pipeline import BatchItem, answer_batch
from noisebank.account.reachable_goals import check_goal
from noisebank.account.requests import name_end, name_look
from noisebank.account.results import build_result, charge_question
from noisebank.account.selects import ParsedSelect, TargetedQuestion
from noisebank.core.charges import Charge
from noisebank.core.errors import (
    BudgetExhausted,
    DrawsExhausted,
    KeyReused,
    LedgerRefused,
    LooksExhausted,
    PriceMoved,
    ViewExhausted,
)
from noisebank.core.estimates import Row
from noisebank.core.records import Case
from noisebank.core.result import Result
from noisebank.core.units import ZERO_PRECISION, Precision
from noisebank.planning.coarse_looks import (
    DEFAULT_SPEND,
    MAX_LOOKS,
    MIN_GROWTH_BITS,
    SAFETY,
    SECOND_LOOK_BITS,
    SECOND_LOOK_GAP,
    choose_growth,
    grow_precision,
    looked_confidence,
    max_growth,
)
from noisebank.planning.pricing import PrecisionTarget, check_confidence

NO_ROOM = "looks may decide no more on the public ledger: say epsilon, sigma or spend"
TOO_DEAR = "that would cost more than this request may (max_cost; a tenth of the budget if not said)"
TOO_LITTLE_LEFT = (BudgetExhausted, ViewExhausted, PriceMoved, DrawsExhausted, LooksExhausted, LedgerRefused)
"""Refusals of a step after which the look before it is the answer. Other errors are those of the request."""
MAX_SHIFTED = 200
"""Numbers of a look up to which predictions try what its noise may have changed."""
Cell = tuple[tuple[str | None, ...], str]
"""A number of a table: the keys of its row, and its column."""


@dataclass(slots=True, eq=False)
class LookedRequest:
    """A request on its way through its looks. `first` is its first look, `item` its newest step."""

    parsed: ParsedSelect
    first: BatchItem
    item: BatchItem
    max_cost: Precision | None
    key: str | None
    growth: int = 0
    """In bits, over the first look."""
    earlier: list[Answer] = field(default_factory=list)
    """Of the steps before the newest."""
    is_final: bool = False
    has_ended: bool = False
    reason: str = ""
    """Why it ended at a look."""

    def save_end(self, context: AccountContext, reason: str, name: str | None) -> None:
        """Ends it at its newest look, for good: a retry under its key ends there as well, whatever has changed.

        `name` is the key under which that is saved: its own one, so that nothing else can be, unless a step has it.
        """
        self.has_ended, self.is_final, self.reason = True, False, reason
        if name is None:
            return
        end = context.request_builder.build_end(name, self.item.analyst, reason)
        refusal = context.vault.save_requests([end])[0]
        if refusal is not None:  # another attempt was quicker: with another reason, or it has come further
            known = self.find_end(context)
            self.reason, self.first.error = known or reason, None if known else refusal

    def find_end(self, context: AccountContext) -> str | None:
        """Returns why an earlier attempt under its key has ended at a look; None if none has."""
        names = () if self.key is None else (name_end(self.key), self.key)
        for name in names:
            end = context.vault.find_request_by_key(context.id, self.item.analyst, name)
            if end is not None and "end" in end.body:
                return str(end.body["end"])
        return None

    def is_saved(self, context: AccountContext, key: str) -> bool:
        """Whether an attempt, of this gateway or another one, has come to the step with this key."""
        return context.vault.find_request_by_key(context.id, self.item.analyst, key) is not None


def start_request(parsed: ParsedSelect, item: BatchItem) -> LookedRequest:
    """Returns a request at its first look."""
    request = LookedRequest(parsed, item, item, item.max_cost, item.key)
    item.plainly = item.is_look = True  # noise of its own: what follows a look is normal around the truth
    if item.key is not None:
        item.key = name_look(item.key, 1)
    return request


def answer_looked(context: AccountContext, items: Sequence[BatchItem], looked: Sequence[LookedRequest]) -> None:
    """Answers a batch, among it the first looks of some requests; then the steps that follow them."""
    for request in looked:
        with request.item.keep_error():
            check_first_look(context, request)
    answer_batch(context, items)
    for number in range(2, MAX_LOOKS + 2):
        planned: list[tuple[LookedRequest, BatchItem]] = []
        for request in looked:
            with request.first.keep_error():
                item = plan_step(context, request, number)
                if item is not None:
                    planned.append((request, item))
        if not planned:
            return
        answer_batch(context, [item for _, item in planned])
        for request, item in planned:
            with request.first.keep_error():
                take_step(context, request, item)


def check_first_look(context: AccountContext, request: LookedRequest) -> None:
    """Refuses a request whose look nothing could follow, before anything is saved or charged. A retry is none."""
    item = request.item
    is_key_used, known = (key is not None and request.is_saved(context, key) for key in (request.key, item.key))
    if is_key_used and not known:
        raise KeyReused(str(request.key))
    if not known:
        check_goal(context, request.parsed, request_limit(request))
        context.looks.check_room(context.salt_targets(item.questions), context.secrets.version)


def request_limit(request: LookedRequest) -> Precision:
    """Returns the most that a request may cost: a tenth of the budget, if it does not say so."""
    assert request.item.budget is not None
    return Precision.floor(request.item.budget.exact * DEFAULT_SPEND) if request.max_cost is None else request.max_cost


def plan_step(context: AccountContext, request: LookedRequest, number: int) -> BatchItem | None:
    """Returns the next step of a request; None if there is none."""
    item, parsed = request.item, request.parsed
    if request.has_ended or request.first.error is not None or item.error is not None:
        request.has_ended = True
        return None
    reason = request.find_end(context)
    if reason is not None:
        request.has_ended, request.reason = True, reason
        return None
    if not context.looks.may_follow([each.id for each in item.requests]):
        end_at_look(context, request, NO_ROOM)
        return None
    look = sum((context.target_precision(*targeted) for targeted in parsed.questions), ZERO_PRECISION)
    least, most = request.growth + MIN_GROWTH_BITS, max_growth(look, request_limit(request))
    reachable = list_reached(request, most) if least <= most else set()
    may_look = number <= MAX_LOOKS and request.growth + SECOND_LOOK_GAP + MIN_GROWTH_BITS <= most
    if not reachable and not (may_look and list_reached(request, most, is_sure=False)):
        end_at_look(context, request, TOO_DEAR)
        return None
    growth = choose_growth(least, most, lambda bits: reachable <= list_reached(request, bits, SAFETY))
    is_look = may_look and (not reachable or growth - request.growth >= SECOND_LOOK_BITS)
    if is_look:  # one that says nothing yet is followed by a finer one
        finer = growth - SECOND_LOOK_GAP if reachable else request.growth + SECOND_LOOK_GAP
        is_look = has_room_for_look(context, request, number, finer)
        if not is_look and not reachable:
            end_at_look(context, request, NO_ROOM)
            return None
        growth = finer if is_look else growth
    questions = grow_questions(context, parsed, growth)
    spent = sum((answer.cost for answer in [*request.earlier, *item.answers]), ZERO_PRECISION)
    left = None if request.max_cost is None else Precision(max(0, request.max_cost.units - spent.units))
    key = name_look(request.key, number) if is_look and request.key is not None else request.key
    request.is_final, request.growth = not is_look, growth
    return BatchItem(questions, left, key, item.analyst, plainly=True, is_look=is_look, budget=item.budget)


def end_at_look(context: AccountContext, request: LookedRequest, reason: str) -> None:
    """Ends a request at its newest look. Whoever has come further under its key has asked something else."""
    if request.key is not None and request.is_saved(context, request.key):
        request.has_ended, request.first.error = True, KeyReused(request.key)
    else:
        request.save_end(context, reason, request.key)


def has_room_for_look(context: AccountContext, request: LookedRequest, number: int, growth: int) -> bool:
    """Whether a look may be the next step. An attempt that came to it, or past it, has decided for all others: what the
    looks of other requests have left meanwhile does not count any more."""
    if request.key is not None:
        if request.is_saved(context, name_look(request.key, number)):
            return True
        if request.is_saved(context, request.key):
            return False
    targets = context.salt_targets(grow_questions(context, request.parsed, growth))
    return context.looks.has_room(targets, context.secrets.version)


def grow_questions(context: AccountContext, parsed: ParsedSelect, growth: int) -> list[TargetedQuestion]:
    """Returns the questions of a step."""
    return [
        (question, PrecisionTarget(grow_precision(context.target_precision(question, target), growth)))
        for question, target in parsed.questions
    ]


def take_step(context: AccountContext, request: LookedRequest, item: BatchItem) -> None:
    """Makes a step the newest one; the request ends at the look before it if account or view have too little left. Any
    other error is the request's: a retry with its key goes on where it stopped."""
    if isinstance(item.error, TOO_LITTLE_LEFT):
        request.save_end(context, str(item.error), None if request.key is None else name_end(request.key))
        return
    if isinstance(item.error, KeyReused) and (reason := request.find_end(context)) is not None:
        request.has_ended, request.is_final, request.reason = True, False, reason  # meanwhile, by another gateway
        return
    if item.error is not None:
        request.has_ended, request.first.error = True, item.error
        return
    request.earlier += request.item.answers
    request.item, request.has_ended = item, request.is_final


def list_reached(request: LookedRequest, growth: int, slack: float = 1.0, is_sure: bool = True) -> set[Cell]:
    """Returns the numbers that are predicted to reach the goal at some growth, from the answers of the newest step: to
    be sure, also if any of those were one standard deviation too large or too small."""
    factor = sqrt(2.0 ** (request.growth - growth))
    answers = request.item.answers
    goal = request.parsed.goal
    assert goal is not None
    is_small = sum(len(answer.groups) if isinstance(answer, GroupedAnswer) else 1 for answer in answers) <= MAX_SHIFTED
    shifts = [(index, sign) for index in range(len(answers)) for sign in (1, -1)] if is_small and is_sure else []
    cells: list[set[Cell]] = []
    for index, sign in [(0, 0), *shifts]:
        shifted = [shift_answer(each, sign if place == index else 0, factor) for place, each in enumerate(answers)]
        cells.append(
            {
                (row.keys, name)
                for row in _list_rows(request.parsed, shifted, is_final=True)
                for name, estimate in zip(row.items, row.estimates, strict=True)
                if goal.is_reached(estimate, slack)
            }
        )
    return set.intersection(*cells)


def shift_answer(answer: Answer, deviations: int, factor: float) -> Answer:
    """Returns an answer moved by some of its standard deviations, which is then multiplied by a factor."""
    off = deviations * Fraction(answer.stddev)
    moved = replace(answer, exact=answer.exact + off, value=float(answer.exact + off), stddev=answer.stddev * factor)
    if not isinstance(moved, GroupedAnswer):
        return moved
    groups = tuple(replace(each, exact=each.exact + off, value=float(each.exact + off)) for each in moved.groups)
    return replace(moved, groups=groups)


def build_looked_result(sql: str, request: LookedRequest, charge: Charge) -> Result:
    """Returns the result of a request after its looks, with the parts and the cost of all of its steps."""
    parsed, answers = request.parsed, request.item.answers
    stated = _state_confidence(parsed, request.is_final)
    result = build_result(sql, stated, answers, [None] * len(answers), charge)
    looks = tuple(charge_question(answer) for answer in request.earlier)
    # After a look the noise is no longer Gaussian to the last digit: the stated intervals hold, a bell would not.
    rows = tuple(
        replace(row, estimates=tuple(replace(each, stddev=None) for each in row.estimates)) for row in result.rows
    )
    return replace(
        result, rows=rows, parts=(*looks, *result.parts), notes=(*result.notes, describe_goal(request, rows))
    )


def describe_goal(request: LookedRequest, rows: Sequence[Row]) -> str:
    """Returns what a reader must know of how accurate the numbers are."""
    goal, count = request.parsed.goal, sum(len(row.items) for row in rows)
    assert goal is not None
    missed = count - sum(goal.is_reached(each) for row in rows for each in row.estimates)
    if not missed:
        return f"every number is {goal}; a coarse look came first, and its cost is in the price"
    reason = f": {request.reason}" if request.reason else ""
    subject = "the number is" if count == 1 else f"{missed} of {count} numbers are"
    return f"{subject} not seen to be {goal}{reason}"


def _list_rows(parsed: ParsedSelect, answers: Sequence[Answer], is_final: bool) -> tuple[Row, ...]:
    nothing = Charge(Case.FIRST, ZERO_PRECISION, ZERO_PRECISION, ZERO_PRECISION, 0.5)
    return build_result("", _state_confidence(parsed, is_final), answers, [None] * len(answers), nothing).rows


def _state_confidence(parsed: ParsedSelect, is_final: bool) -> ParsedSelect:
    stated = looked_confidence(check_confidence(parsed.confidence), is_final)
    return replace(parsed, confidence=float(stated))
