"""`Account`: an open account of a bank on this machine: ask, quote, recall, statement, verify.

`parsing` turns a SELECT into questions, `pipeline` (the one path) answers them, `results` makes a `Result` of the
answers. `RemoteAccount` in `client` has the same methods over HTTP.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from functools import partial
from typing import Any, TypeVar

from noisebank.account.answers import Answer
from noisebank.account.batch_spend import spread_spend
from noisebank.account.coarse_looks import LookedRequest, answer_looked, build_looked_result, start_request
from noisebank.account.context import AccountContext
from noisebank.account.cube import CubeStrategy
from noisebank.account.cube_planner import CubePlanner
from noisebank.account.parsing import ParsedRequest, RequestParser, join_selects
from noisebank.account.pipeline import answer_batch
from noisebank.account.plain import PlainStrategy
from noisebank.account.quotes import quote_question, quote_select
from noisebank.account.released_answers import ReleasedAnswers
from noisebank.account.results import build_result
from noisebank.account.selects import ParsedSelect
from noisebank.account.statement import cut_statement, list_history, make_statement
from noisebank.account.together import join_requests, parse_together
from noisebank.core.asks import OWNER, Ask, collect_accuracy
from noisebank.core.charges import Charge, rank_cases
from noisebank.core.entropy import Entropy
from noisebank.core.errors import BadRequest, NoisebankError, NotFound, OutcomeUnknown
from noisebank.core.estimates import Verdict
from noisebank.core.quote import Quote
from noisebank.core.receipts import Receipt
from noisebank.core.result import Result
from noisebank.core.statement import HistoryEntry, Statement
from noisebank.core.units import ZERO_PRECISION, Exact, Precision
from noisebank.core.wording import budget_share, describe_balance
from noisebank.engines.engine import Engine
from noisebank.ledger.books import Budgets
from noisebank.ledger.chain import Ledger
from noisebank.ledger.protocol import AccountState, View
from noisebank.planning.pricing import AccuracyTarget, check_confidence, parse_accuracy
from noisebank.planning.relative import RelativeTarget
from noisebank.policy.model import Policy
from noisebank.privacy.calibration import budget_precision
from noisebank.privacy.odometer import promised_epsilon, raised_epsilon, raised_precision
from noisebank.queries.query import Question
from noisebank.vault.secrets import AccountSecrets
from noisebank.vault.vault import Vault
from noisebank.verifier.report import Report
from noisebank.verifier.verification import verify

Product = TypeVar("Product")
Outcome = Result | NoisebankError
"""Of one question of `ask_many`: its result, or the error that `ask` would have raised."""


class Account:
    """An open account: quotes cost nothing, answers take the one path. Safe for many threads."""

    def __init__(
        self,
        id: bytes,
        policy: Policy,
        secrets: AccountSecrets,
        identity: str,
        engine: Engine,
        ledger: Ledger,
        vault: Vault,
        entropy: Entropy,
        cubes: tuple[int, ...] = (),
    ) -> None:
        self.id, self.secrets, self.ledger, self.vault = id, secrets, ledger, vault
        self.context = AccountContext(id, policy, secrets, identity, engine, ledger, vault, entropy)
        self.context.plain = PlainStrategy(self.context)
        self.context.cubes = CubeStrategy(self.context, cubes)
        self.context.released = ReleasedAnswers(self.context)
        self._parser = RequestParser(self.context)

    def ask(
        self,
        sql: str,
        *,
        epsilon: Exact | None = None,
        delta: Exact | None = None,
        within: Exact | None = None,
        relative: Exact | None = None,
        floor: Exact | None = None,
        sigma: Exact | None = None,
        confidence: Exact | None = None,
        calibration: str | None = None,
        spend: Exact | None = None,
        groups: str | None = None,
        max_cost: Exact | None = None,
        key: str | None = None,
        analyst: str = OWNER,
        best: bool = False,
    ) -> Result:
        """Answers a question: SQL, or the name of one of the policy's queries.

        Say how accurate the answer shall be, in one way:

        - `within`: a distance from the true value, at `confidence`.
        - `relative`: a share of the true value, such as "2%"; for plain counts and sums, if it is at least a `floor`.
        - `spend`: the most accurate answer for a share of the budget, such as "1%".
        - `epsilon` and `delta`: the privacy loss of this answer alone; `calibration` says how they name a noise level.
        - `sigma`: the noise's standard deviation.

        And, with any of these:

        - `confidence`: of `within`, `relative` and the stated intervals; 0.95 unless said otherwise.
        - `groups`: "all" if the confidence shall hold for all numbers of a table at once, not for each.
        - `max_cost`: the most to spend, a share of the budget such as "1%", or a precision.
        - `key`: makes a retry safe: the same key gives the same answer, charged once.
        - `analyst`: on whose behalf; the owner's unless said otherwise.
        - `best`: a more precise answer is given if it is free and the analyst's view has room for it.
        """
        options = collect_accuracy(
            epsilon, delta, within, relative, floor, sigma, confidence, calibration, spend, groups
        )
        request = self._parser.parse_request(Ask(sql, options, max_cost, key, analyst, best))
        (looked,) = self._answer_parsed([request])
        if request.item.error is not None:
            raise request.item.error
        return self._derive_results(request.sql, request.select, request.item.answers, looked)

    def ask_many(self, requests: Sequence[Ask], *, atomic: bool = False, spend: Exact | None = None) -> list[Outcome]:
        """Answers many questions; returns one outcome each, in their order. One that fails never affects another.

        `spend`, a share of the budget such as "1%", says how accurate all answers shall be: together they cost at most
        that, and what several questions need is paid for once. The questions then have no accuracy of their own.
        With `atomic`, all are charged together, or none: they have one key, one analyst and one price, their `max_cost`
        are added up, and if the contract refuses, all have the same error. An atomic batch has at most 16 questions.
        """
        requests = self.spread_spend(requests, spend)
        if atomic:
            return self._ask_together(requests)
        parsed = [capture_refusal(partial(self._parser.parse_request, request)) for request in requests]
        answerable = [request for request in parsed if isinstance(request, ParsedRequest)]
        looked = iter(self._answer_parsed(answerable))
        return [
            self._make_outcome(request, next(looked)) if isinstance(request, ParsedRequest) else request
            for request in parsed
        ]

    def _ask_together(self, requests: Sequence[Ask]) -> list[Outcome]:
        """Answers questions as one atomic group. An error is the outcome of all."""
        if not requests:
            return []
        try:
            parsed = parse_together(requests, self._parser)
            group, indices = join_requests(requests, parsed)
        except NoisebankError as error:
            return [error] * len(requests)
        answer_batch(self.context, [group])
        outcomes = []
        for request, own in zip(parsed, indices, strict=True):
            request.item.error = group.error
            if group.answers:  # made anew: a shared question may name its groups in another way
                request.item.answers = [
                    self.context.released.make_answer(group.reservations[index], group.sealed[index], question)
                    for index, (question, _) in zip(own, request.select.questions, strict=True)
                ]
            outcomes.append(self._make_outcome(request))
        return outcomes

    def _answer_parsed(self, requests: Sequence[ParsedRequest]) -> list[LookedRequest | None]:
        """Answers a batch. Returns for each request that needs looks what came of them, else None."""
        items = [request.item for request in requests]
        looked = [
            None if request.select.goal is None else start_request(request.select, request.item) for request in requests
        ]
        if any(looked):
            answer_looked(self.context, items, [each for each in looked if each is not None])
        else:
            answer_batch(self.context, items)
        return looked

    def _make_outcome(self, request: ParsedRequest, looked: LookedRequest | None = None) -> Outcome:
        """Returns the results of a SELECT, or the error of its item. One that nobody foresaw is an unknown outcome."""
        item = request.item
        if item.error is None:
            return self._derive_results(request.sql, request.select, item.answers, looked)
        return item.error if isinstance(item.error, NoisebankError) else report_unforeseen(item.error)

    def _derive_results(
        self, sql: str, select: ParsedSelect, answers: Sequence[Answer], looked: LookedRequest | None = None
    ) -> Result:
        """Computes the result of a SELECT from the answers to its questions."""
        if looked is not None:
            answers = [*looked.earlier, *looked.item.answers]
            return build_looked_result(self.named(sql), looked, self._make_charge(answers))
        verdicts = [
            self._judge_answer(answer, *question) for answer, question in zip(answers, select.questions, strict=True)
        ]
        return build_result(self.named(sql), select, answers, verdicts, self._make_charge(answers))

    def _make_charge(self, answers: Sequence[Answer]) -> Charge:
        """Returns what answers cost together."""
        cost, case = sum((answer.cost for answer in answers), ZERO_PRECISION), rank_cases(each.case for each in answers)
        return Charge(case, cost, answers[-1].remaining, self.state.budget, float(self.context.policy.delta))

    def quote(
        self,
        sql: str,
        *,
        epsilon: Exact | None = None,
        delta: Exact | None = None,
        within: Exact | None = None,
        relative: Exact | None = None,
        floor: Exact | None = None,
        sigma: Exact | None = None,
        confidence: Exact | None = None,
        calibration: str | None = None,
        spend: Exact | None = None,
        groups: str | None = None,
        analyst: str = OWNER,
    ) -> Quote:
        """Returns what an answer would cost now, for the options of `ask`. Spends nothing, opens no data.

        An analyst with a limit may be answered another way than others: the quote says which, and why.
        """
        options = collect_accuracy(
            epsilon, delta, within, relative, floor, sigma, confidence, calibration, spend, groups
        )
        return quote_select(self.context, *self._parser.parse_now(sql, options), analyst=analyst)

    def quote_many(self, requests: Sequence[Ask], *, spend: Exact | None = None) -> list[Quote | NoisebankError]:
        """Returns what each answer would cost now, alone, or why there is none; `spend` as for `ask_many`."""
        return [
            capture_refusal(partial(self.quote, request.sql, **request.accuracy, analyst=request.analyst))
            for request in self.spread_spend(requests, spend)
        ]

    def spread_spend(self, requests: Sequence[Ask], spend: Exact | None) -> list[Ask]:
        """Returns questions with the accuracy that each of them has if all together cost at most `spend`."""
        return spread_spend(self.context, self._parser.parse_list, requests, spend)

    def quote_together(self, requests: Sequence[Ask], *, spend: Exact | None = None) -> Quote:
        """Returns what all answers together would cost now: the price of an atomic `ask_many`."""
        requests = self.spread_spend(requests, spend)
        parsed = [self._parser.parse_now(request.sql, request.accuracy) for request in requests]
        sql = "; ".join(text for text, _ in parsed)
        analyst = next((request.analyst for request in requests), OWNER)
        return quote_select(self.context, sql, join_selects([select for _, select in parsed]), analyst)

    def quoted(self, question: Question, accuracy: AccuracyTarget, plainly: bool = False) -> Quote:
        """Returns the quote for a parsed question."""
        return quote_question(self.context, question, accuracy, plainly)

    # -- what others read ----------------------------------------------------------------------

    def __repr__(self) -> str:
        balance = describe_balance(self.state.spent, self.state.budget, self.epsilon, float(self.context.policy.delta))
        return f"Account({self.name}: {balance})"

    @property
    def name(self) -> str:
        """The policy's name: the table in FROM."""
        return self.context.policy.name

    @property
    def state(self) -> AccountState:
        """Budget and spend, as the contract holds them."""
        return self.ledger.get_account(self.id)

    @property
    def engine(self) -> Engine:
        """The table. Only its owner may look at what it returns."""
        return self.context.engine

    @property
    def cubes(self) -> CubePlanner:
        """The account's cubes, and all that is known about them."""
        return self.context.cubes.planner

    def parse(self, sql: str) -> Question:
        """Parses SQL, or the name of one of the policy's queries, to a canonical question."""
        return self.context.parse(sql)

    def named(self, sql: str) -> str:
        """Returns the SQL behind the name of one of the policy's queries, or the SQL itself."""
        return self.context.policy.resolve_sql(sql)

    def view(self, analyst: str) -> View:
        """Returns what an analyst may learn, and has learned. The owner may learn all that the account spends."""
        return self.context.view_of(analyst)

    def analyst(self, name: str) -> bytes:
        """Returns the ledger's name of an analyst: salted, or the owner's for local use."""
        return self.secrets.analyst_digest(name)

    @property
    def epsilon(self) -> float:
        """The epsilon of all answers together, at the account's delta, at every moment; rounded up."""
        budgets = self.budgets
        if budgets.opened == budgets.fixed == budgets.largest:
            return float(self.context.policy.epsilon)
        return float(promised_epsilon(budgets.fixed, budgets.largest, self.context.policy.delta))

    @property
    def budgets(self) -> Budgets:
        """The budgets that the account's epsilon follows from: at opening, before any answer, and the largest."""
        return self.ledger.books.get_budgets(self.id)

    def raise_to(self, epsilon: Fraction) -> Precision:
        """Returns the budget that a raise to `epsilon` may grant: less than at opening, once answers were given."""
        nominal, state, fixed = budget_precision(epsilon, self.context.policy.delta), self.state, self.budgets.fixed
        if not state.measurements or nominal <= fixed:  # up to what was fixed before any answer, nothing is new
            return nominal
        granted = max(fixed, raised_precision(fixed, epsilon, self.context.policy.delta))
        if granted <= state.budget:
            least = float(raised_epsilon(fixed, max(fixed, state.budget), self.context.policy.delta))
            raise BadRequest(
                "epsilon", float(epsilon), f"is no raise: answers were given, so say more than {least:.6g}"
            )
        return granted

    def share(self, spent: Precision) -> float:
        """Returns a spend as a share of the budget, from 0 to 1."""
        return budget_share(spent, self.state.budget)

    def policy(self) -> Policy:
        """Returns the public facts that prices and sensitivities follow from: columns, bounds, keys, named queries."""
        return self.context.policy

    def recall(self, id: str | bytes) -> Result:
        """Returns a published answer again, by its id on the ledger: `Result.parts` have theirs. Spends nothing."""
        id = id if isinstance(id, bytes) else parse_answer_id(id)
        answer, request = self.context.released.find_published(id), self.vault.find_request(id)
        if answer is None or request is None or "look" in request.body:
            raise NotFound("there is no such answer, or it is of an earlier version of the table")
        options, listed = request.body["asked"], self._parser.parse_list(request.body["sql"])
        targeted = (self.context.question_of(request), parse_accuracy(**options))
        confidence = float(check_confidence(options.get("confidence")))
        select = ParsedSelect(listed, (targeted,), ((0,),), confidence, confidence)
        return self._derive_results(request.body["sql"], select, [answer])

    def statement(self, last: int | None = None) -> Statement:
        """Returns balance, promise and entries, oldest first; with `last`, only so many of the newest ones."""
        return cut_statement(make_statement(self), last)

    def history(self, analyst: str = OWNER) -> Iterator[HistoryEntry]:
        """Yields an analyst's answers, newest first: `recall` returns them again."""
        return list_history(self, analyst)

    def verify(self, *, head: str | None = None, receipts: Sequence[Receipt | dict[str, Any]] = ()) -> Report:
        """Recomputes the books of this bank, and compares them with a pinned head and with receipts."""
        return verify(self.ledger.export_journal(), head=head, receipts=receipts)

    def _judge_answer(self, answer: Answer, question: Question, accuracy: AccuracyTarget) -> Verdict | None:
        """Returns the verdict if the request was relative. The next price is looked up whatever the verdict is."""
        if not isinstance(accuracy, RelativeTarget):
            return None
        try:
            next_cost = self.quoted(question, accuracy.with_half_floor(), plainly=True).cost
        except NoisebankError:
            next_cost = None
        plain = answer.inferred is None  # an earlier one under the same key may come from a cube: no promise for it
        reached = plain and accuracy.is_reached(answer.exact, answer.stddev)
        relative, confidence = float(accuracy.relative), float(accuracy.confidence)
        return Verdict(relative, confidence, float(accuracy.floor or 0), reached, next_cost)


def capture_refusal(work: Callable[[], Product]) -> Product | NoisebankError:
    """Returns the result of the work, or the error of ours that it raised."""
    try:
        return work()
    except NoisebankError as error:
        return error


def report_unforeseen(error: Exception) -> OutcomeUnknown:
    """Returns the outcome of a question at which an error happened that nobody foresaw."""
    unknown = OutcomeUnknown(f"an unexpected error ({type(error).__name__}): ask again with the same key")
    unknown.__cause__ = error
    return unknown


def parse_answer_id(text: str) -> bytes:
    """Returns an answer's id on the ledger."""
    try:
        return bytes.fromhex(text)
    except ValueError:
        raise BadRequest("id", ascii(text)[:40], "must be an answer's id in hexadecimal digits") from None
