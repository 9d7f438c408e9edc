"""The one path: from requests to released answers, one batch at a time.

Nothing before `reserve_charges` opens the data. Nothing is returned before it is sealed and published.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial

from noisebank.account.answers import Answer
from noisebank.account.charging import make_claims, price_for_view, price_plans
from noisebank.account.completion import complete_reservations, require_completed
from noisebank.account.context import AccountContext
from noisebank.account.cube_looks import buy_look_if_affordable, price_look
from noisebank.account.selects import TargetedQuestion
from noisebank.account.strategies import PaidQuestion, Strategy
from noisebank.core.asks import OWNER
from noisebank.core.errors import (
    BadRequest,
    BudgetExhausted,
    KeyReused,
    LedgerRefused,
    NoisebankError,
    OutcomeUnknown,
    TableChanged,
    Tampered,
    ViewExhausted,
)
from noisebank.core.records import Case
from noisebank.core.units import ZERO_PRECISION, Precision
from noisebank.ledger.protocol import ID_IN_USE, Claim, Reservation
from noisebank.planning.reuse import Plan
from noisebank.planning.serving import ALONE, ChargeLimits, CubeQuery
from noisebank.planning.transaction import fit_transaction
from noisebank.queries.query import Query, Question
from noisebank.vault.vault import Request, SealedAnswer


@dataclass(slots=True, eq=False)
class BatchItem:
    """One request on its way through a batch: an atomic group of questions, all of them charged or none."""

    questions: Sequence[TargetedQuestion]
    max_cost: Precision | None = None
    key: str | None = None
    analyst: str = OWNER
    plainly: bool = False
    """Whether cubes are left aside: the answers must not share their noise with others."""
    is_look: bool = False
    """Whether its answers decide what comes next."""
    budget: Precision | None = None
    """The one that shares are of, if any are: saved with the request, so that a retry is about the same one."""
    targets: list[Precision] = field(default_factory=list)
    requests: list[Request] = field(default_factory=list)
    """As the vault saves them, one per question. Their ids name the reservations."""
    lock_names: set[bytes] = field(default_factory=set)
    """Of the queries and cubes whose records it builds on or adds to."""
    plans: list[Plan] = field(default_factory=list)
    reservations: list[Reservation] = field(default_factory=list)
    sealed: list[SealedAnswer] = field(default_factory=list)
    answers: list[Answer] = field(default_factory=list)
    error: Exception | None = None
    """Why the request has left the batch."""

    @property
    def queries(self) -> list[Query]:
        """The queries of its questions."""
        return [question.query for question, _ in self.questions]

    def keep_error(self) -> ErrorKeeper:
        """Keeps an error as this request's own: it leaves the batch, and no other is affected."""
        return ErrorKeeper(self)


@dataclass(slots=True, eq=False)
class ErrorKeeper:
    """The context of `BatchItem.keep_error`. A class, since every request enters five of them: a generator would take
    longer than most of what is done inside."""

    item: BatchItem

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> bool:
        if not isinstance(error, Exception):
            return False
        self.item.error = error
        return True


def answer_batch(context: AccountContext, batch: Sequence[BatchItem]) -> None:
    """Gives each item its answers, or the error with which it left. One that fails never affects another one."""
    set_target_precisions(context, batch)  # from public numbers only
    save_requests(context, batch)  # durable: a crash can be finished from here on
    for wave in split_waves(context, batch):  # what builds on each other's records goes one after the other
        with keep_shared_error(wave), hold_locks(context, wave):
            find_reservations(context, wave)  # what an earlier attempt has reserved is not charged again
            plan_charges(context, wave)  # released answers in, case and charge out
            reserve_charges(context, wave)  # spent from here on, even if we crash
            settle_charges(context, wave)  # measured, sealed and published
    make_answers(context, batch)  # to be returned


# -- the stages: each takes all of a batch or wave -------------------------------------------------


def set_target_precisions(context: AccountContext, batch: Sequence[BatchItem]) -> None:
    """Sets the precision that each accuracy needs."""
    for item in open_items(batch):
        with item.keep_error():
            item.targets = [context.target_precision(question, accuracy) for question, accuracy in item.questions]


def save_requests(context: AccountContext, batch: Sequence[BatchItem]) -> None:
    """Saves all requests in one commit, before anything is charged."""
    rows: list[Request] = []
    owners: list[BatchItem] = []
    for item in open_items(batch):
        with item.keep_error():
            key = context.entropy.token(16).hex() if item.key is None else item.key
            saved = context.request_builder.build_requests(
                item.questions, item.targets, key, item.analyst, item.is_look, item.budget
            )
            item.requests = saved[-len(item.questions) :]
            if len(saved) > 1:
                check_group_key(context, saved[0])
            rows += saved
            owners += [item] * len(saved)
    with keep_shared_error(batch):
        for item, refusal in zip(owners, context.vault.save_requests(rows) if rows else (), strict=True):
            item.error = item.error or refusal


def check_group_key(context: AccountContext, group: Request) -> None:
    """Refuses a group whose key names another request, before requests of its parts are saved."""
    known = context.vault.find_request_by_key(group.account, group.analyst, group.key)
    if known is not None and known.id != group.id:
        raise KeyReused(group.key)


def split_waves(context: AccountContext, batch: Sequence[BatchItem]) -> Iterator[list[BatchItem]]:
    """Yields the items in waves: within one, none builds on what another one records (same request, query or cube)."""
    waiting = open_items(batch)
    while waiting:
        wave: list[BatchItem] = []
        later: list[BatchItem] = []
        taken: set[bytes] = set()
        for item in waiting:
            item.lock_names = list_lock_names(context, item)
            names = {request.id for request in item.requests} | item.lock_names
            (wave if taken.isdisjoint(names) else later).append(item)
            taken |= names
        yield wave
        waiting = later


@contextmanager
def hold_locks(context: AccountContext, wave: Sequence[BatchItem]) -> Iterator[None]:
    """Holds requests, queries and cubes of a wave, over all threads and gateways; then reads what others did before."""
    names = sorted({context.id + name for item in wave for name in item.lock_names})
    with ExitStack() as stack:
        stack.enter_context(context.request_locks([request.id for item in wave for request in item.requests]))
        if names:
            stack.enter_context(context.vault.acquire_locks(names))
        catch_up(context, [query for item in wave if item.lock_names for query in item.queries])
        yield


def find_reservations(context: AccountContext, wave: Sequence[BatchItem]) -> None:
    """Finds what an earlier attempt at a request has reserved: the contract took all of a group or nothing."""
    for item in open_items(wave):
        entries = [context.ledger.find_reservation(context.id, request.id) for request in item.requests]
        item.reservations = [entry for entry in entries if entry is not None]
        if item.reservations and len(item.reservations) < len(entries):
            item.error = Tampered("the ledger has reserved a part of a group")


def plan_charges(context: AccountContext, wave: Sequence[BatchItem]) -> None:
    """Plans what is not reserved yet. A look that a plan proposes is bought before, if it is affordable."""
    for item in open_items(wave):
        if item.reservations:
            continue
        with item.keep_error():
            plan = partial(plan_question, context, item.analyst)
            item.plans = fit_transaction(plan, item.questions, item.targets, item.plainly)
            for index, (question, _) in enumerate(item.questions):
                others = sum((each for place, each in enumerate(item.targets) if place != index), ZERO_PRECISION)
                if item.plans[index].look is not None and buy_look_if_affordable(
                    context, question, item.plans[index], item.max_cost, item.analyst, others
                ):
                    item.plans = fit_transaction(plan, item.questions, item.targets, item.plainly)
            if any(each.look is not None for each in item.plans):  # not bought: then whichever is cheaper without it
                item.plans = fit_transaction(plan, item.questions, item.targets, item.plainly, may_look=False)


def reserve_charges(context: AccountContext, wave: Sequence[BatchItem]) -> None:
    """Has the ledger charge what was planned; by plain reuse if a cube costs more than view or budget allow."""
    planned = [item for item in open_items(wave) if not item.reservations]
    send_claims(context, planned)
    adopt_reservations(context, planned)
    exhausted = [
        item
        for item in planned
        if isinstance(item.error, ViewExhausted | BudgetExhausted) and any(plan.cube_number for plan in item.plans)
    ]
    for item in exhausted:
        item.error = None
        with item.keep_error():
            item.plans = [
                plan_question(context, item.analyst, question, plan.target, True)
                for (question, _), plan in zip(item.questions, item.plans, strict=True)
            ]
    send_claims(context, exhausted)


def adopt_reservations(context: AccountContext, items: Sequence[BatchItem]) -> None:
    """Takes what another gateway has reserved for the same requests since `find_reservations` has looked: whoever
    repeats a recorded answer holds no lock, so both may have found nothing. What is adopted is finished."""
    late = [item for item in items if isinstance(item.error, LedgerRefused) and item.error.reason == ID_IN_USE]
    for item in late:
        item.error = None
    with keep_shared_error(late):
        if late:
            context.ledger.refresh()
        find_reservations(context, late)
    for item in open_items(late):
        if not item.reservations or not all(reservation.is_finished for reservation in item.reservations):
            item.error = OutcomeUnknown("another gateway is busy with this request: ask again with the same key")


def send_claims(context: AccountContext, items: Sequence[BatchItem]) -> None:
    """Reserves the plans of items, each a group of its own, sent together."""
    senders: list[BatchItem] = []
    groups: list[list[Claim]] = []
    for item in open_items(items):
        with item.keep_error():
            planned = [(question, plan) for (question, _), plan in zip(item.questions, item.plans, strict=True)]
            measured = [question.query for question, plan in planned if plan.fresh_precision]
            context.draws.check_next(measured, context.policy)
            ids = [request.id for request in item.requests]
            groups.append(make_claims(context, ids, item.analyst, planned, item.max_cost))
            senders.append(item)
    for item, outcome in zip(senders, context.ledger.reserve_many(groups) if groups else (), strict=True):
        if isinstance(outcome, NoisebankError):
            item.error = outcome
        else:
            item.reservations = list(outcome)


def settle_charges(context: AccountContext, wave: Sequence[BatchItem]) -> None:
    """Brings all reservations of a wave to published answers."""
    items = open_items(wave)
    settled = iter(complete_reservations(context, [paid for item in items for paid in list_paid(item)]))
    for item in items:
        for outcome in [next(settled) for _ in item.reservations]:
            if isinstance(outcome, NoisebankError):
                item.error = item.error or outcome
            else:
                item.sealed.append(outcome)


def make_answers(context: AccountContext, batch: Sequence[BatchItem]) -> None:
    """Turns published reservations and their sealed answers into what the asker gets."""
    for item in open_items(batch):
        with item.keep_error():
            item.answers = [
                context.released.make_answer(reservation, sealed, question)
                for (reservation, question), sealed in zip(list_paid(item), item.sealed, strict=True)
            ]


# -- what the stages share -------------------------------------------------------------------------


def open_items(batch: Sequence[BatchItem]) -> list[BatchItem]:
    """Returns the items that have not left the batch."""
    return [item for item in batch if item.error is None]


@contextmanager
def keep_shared_error(items: Sequence[BatchItem]) -> Iterator[None]:
    """An error of a step that all items take together is the error of each that has not left."""
    try:
        yield
    except Exception as error:
        for item in open_items(items):
            item.error = error


def list_paid(item: BatchItem) -> list[PaidQuestion]:
    """Returns each reservation of an item with its question."""
    questions = [question for question, _ in item.questions]
    return list(zip(item.reservations, questions, strict=True))


def list_lock_names(context: AccountContext, item: BatchItem) -> set[bytes]:
    """Returns the names of the queries and cubes that an item builds on; none if all of its answers are recorded and
    published, since the contract finds the same records and says REPEAT, and nothing is drawn."""
    if all(
        find_cube_query(context, query) is None and is_repeat(context, query, target)
        for query, target in zip(item.queries, item.targets, strict=True)
    ):
        return set()
    return name_queries(context, item.queries)


def find_cube_query(context: AccountContext, query: Query) -> CubeQuery | None:
    """Returns the query over a cube's cells; None if the account has no cube that can answer it."""
    return context.cubes.find_cube_query(query) if context.policy.cubes else None


def is_repeat(context: AccountContext, query: Query, target: Precision) -> bool:
    """Whether there is a published answer of exactly this precision."""
    for record in context.ledger.list_records(context.id, context.secrets.salted_query(query)):
        if record.precision == target:
            reservation = context.ledger.find_reservation(context.id, record.id)
            return reservation is not None and reservation.is_finished
    return False


def name_queries(context: AccountContext, queries: Sequence[Query]) -> set[bytes]:
    """Returns the names of queries and of the cubes that can answer them. Blurs of one query are drawn one at a time:
    concurrent ones average out. In a cube, what is known decides what is paid."""
    cube_queries = [find_cube_query(context, query) for query in queries]
    cubes = {b"cube %d" % cube_query.cube_index for cube_query in cube_queries if cube_query is not None}
    return {query.digest for query in queries} | cubes


@contextmanager
def hold_queries(context: AccountContext, queries: Sequence[Query]) -> Iterator[None]:
    """Holds queries and their cubes over all threads and gateways, for what is finished without a request."""
    with context.vault.acquire_locks([context.id + name for name in name_queries(context, queries)]):
        catch_up(context, queries)
        yield


def catch_up(context: AccountContext, queries: Sequence[Query]) -> None:
    """Reads what other gateways have made final, before anything is planned from it."""
    context.ledger.refresh()
    if context.ledger.get_account(context.id).version != context.secrets.version:
        name = context.policy.name
        raise TableChanged(f"another version of the table {name} has been opened: take the account anew")
    if queries and context.ledger.is_shared and context.vault.is_shared:
        context.cubes.learn_from_others(queries)


def choose_strategy(
    context: AccountContext, analyst: str, question: Question, target: Precision, plainly: bool,
    limits: ChargeLimits = ALONE,
) -> tuple[Strategy, Plan]:  # fmt: skip
    """Returns how a question is answered, and its plan: in a cube that can answer it or by plain reuse, whichever
    costs less.

    If both cost the same: the same bits as before if there are any, and else the cube, which leaves something for
    others. What is free plainly buys no look. An analyst with a limit is never charged more through a cube than
    plainly, looks included.
    """
    if plainly or find_cube_query(context, question.query) is None:
        return context.plain, context.plain.plan(question, target)
    planned = context.cubes.plan(question, target, limits)
    try:
        plain = context.plain.plan(question, target)
    except BadRequest:  # noise that 64 bits cannot hold
        return context.cubes, planned
    costs = price_plans(context, [(question, planned)]) + price_plans(context, [(question, plain)])
    shown, plain_shown = (
        price_for_view(context, analyst, question, plan, cost)
        for plan, cost in zip((planned, plain), costs, strict=True)
    )
    if planned.look is not None:
        look_shown = price_for_view(context, analyst, question, planned, price_look(context, question, planned))
        if limits.may_look and costs[1] and look_shown <= plain_shown:
            return context.cubes, planned
        planned = replace(planned, look=None)
    cost, plain_cost = costs
    takes_cube = (shown <= plain_shown and cost <= plain_cost) or plain_cost > context.state.remaining_budget
    if not cost and not plain_cost and shown == plain_shown:
        takes_cube = not (plain.case is Case.REPEAT and planned.shown_case is not Case.REPEAT)
    return (context.cubes, planned) if takes_cube else (context.plain, plain)


def plan_question(
    context: AccountContext, analyst: str, question: Question, target: Precision, plainly: bool,
    limits: ChargeLimits = ALONE,
) -> Plan:  # fmt: skip
    """Plans one question, after finishing what its answer builds on. Refuses what could not be answered."""
    strategy, plan = choose_strategy(context, analyst, question, target, plainly, limits)
    if plan.case is not Case.FIRST or plan.cube_number:
        unfinished = strategy.list_unfinished(question, plan)
        if unfinished:
            require_completed(context, unfinished)
            strategy, plan = choose_strategy(context, analyst, question, target, plainly, limits)
        strategy.check_reusable(plan)
    if plan.fresh_precision:
        context.check_identity()
    return plan
