"""`Account`: an open account: ask, quote, recall. What it is asked takes the one path (`pipeline`).

Parsing and the results of a SELECT are here; the path itself takes parsed questions and gives released answers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from functools import partial
from itertools import chain
from typing import Any, Unpack

from noisebank.account.answers import Answer, Quote, RelativeAnswer, standard_deviation
from noisebank.account.charging import price_plans
from noisebank.account.context import CACHE_BYTES, AccountContext, size_of
from noisebank.account.cube import CubeStrategy
from noisebank.account.cube_measurement import CubePlanner
from noisebank.account.derived import Answers, DerivedAnswer, combine_quotes
from noisebank.account.pipeline import BatchItem, answer_batch, fit_transaction, preview_plan
from noisebank.account.plain import PlainStrategy
from noisebank.account.recall import improve_accuracy
from noisebank.account.released import ReleasedAnswers
from noisebank.account.selects import ParsedSelect, TargetedQuestion, add_question, capture_refusal, join_selects
from noisebank.core.asks import OWNER, AccuracyOptions, Ask
from noisebank.core.caches import cache_results
from noisebank.core.entropy import Entropy
from noisebank.core.errors import BadRequest, NoisebankError, OutcomeUnknown, UnsupportedQuery
from noisebank.core.records import WHOLE_WEIGHT
from noisebank.core.units import ZERO_PRECISION, Exact, Precision, parse_exact
from noisebank.engines.engine import Engine
from noisebank.ledger.books import Budgets
from noisebank.ledger.chain import Ledger
from noisebank.ledger.encoding import MAX_GROUP_PARTS
from noisebank.ledger.protocol import AccountState, View
from noisebank.planning.pricing import AccuracyTarget, parse_accuracy, split_accuracy
from noisebank.planning.relative import RelativeTarget
from noisebank.planning.reuse import Plan
from noisebank.policy.model import Policy
from noisebank.privacy.calibration import budget_precision
from noisebank.privacy.odometer import promised_epsilon, raised_epsilon, raised_precision
from noisebank.queries.cells import policy_cubes
from noisebank.queries.derived import Derivation, parse_select_items
from noisebank.queries.query import Question
from noisebank.queries.sensitivity import saturation_limit
from noisebank.vault.secrets import AccountSecrets
from noisebank.vault.vault import Vault

Outcome = Answer | DerivedAnswer | Answers | NoisebankError
"""Of one question of `ask_many`: its answer, or the error that `ask` would have raised."""


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
        self.id, self.policy, self.secrets, self.ledger, self.vault = id, policy, secrets, ledger, vault
        self.context = AccountContext(id, policy, secrets, identity, engine, ledger, vault, entropy)
        self.context.plain = PlainStrategy(self.context)
        self.context.cubes = CubeStrategy(self.context, cubes)
        self.context.released = ReleasedAnswers(self.context)
        self._parse_items_cached = cache_results(CACHE_BYTES, size_of)(
            lambda text: parse_select_items(text, self.policy)
        )
        self._parse_select_cached = cache_results(CACHE_BYTES, size_of, typed=True)(
            self._parse_select_afresh
        )  # typed: True is not 1

    def ask(
        self,
        sql: str,
        *,
        max_cost: Exact | None = None,
        key: str | None = None,
        analyst: str = OWNER,
        best: bool = False,
        **options: Unpack[AccuracyOptions],
    ) -> Any:
        """Answers a question: SQL, or the name of one of the policy's queries.

        Choose the accuracy in one way: `epsilon` and `delta`, or `within` a distance at a
        `confidence`, or `relative` to the true value if that is at least a `floor`, or `sigma`.
        `key` makes a retry safe: the same key gives the same answer, charged once. `max_cost` is the
        most precision to spend. With `best`, a more precise answer is given if it is free and the
        analyst's view has room for it. Returns an `Answer`; a `RelativeAnswer` for `relative`; a
        `GroupedAnswer` for GROUP BY; a `DerivedAnswer` for what is computed from several queries;
        `Answers` for a SELECT of several results.
        """
        select, item = self._parse_ask(Ask(sql, options, max_cost, key, analyst, best))
        answer_batch(self.context, [item])
        if item.error is not None:
            raise item.error
        return self._derive_results(sql, select, item.answers)

    def ask_many(self, requests: Sequence[Ask], *, atomic: bool = False) -> list[Outcome]:
        """Answers many questions; returns one outcome each, in their order. One that fails never affects another.

        With `atomic`, all are charged together, or none: they have one key, one analyst and one price, their `max_cost`
        are added up, and if the contract refuses, all have the same error. An atomic batch has at most 16 questions.
        """
        if atomic:
            return self._ask_together(requests)
        outcomes: list[Outcome | None] = [None] * len(requests)
        parsed: list[tuple[int, ParsedSelect, BatchItem]] = []
        for index, request in enumerate(requests):
            try:
                parsed.append((index, *self._parse_ask(request)))
            except NoisebankError as error:
                outcomes[index] = error
        answer_batch(self.context, [item for _, _, item in parsed])
        for index, select, item in parsed:
            outcomes[index] = self._make_outcome(requests[index].sql, select, item)
        return [outcome for outcome in outcomes if outcome is not None]

    def _ask_together(self, requests: Sequence[Ask]) -> list[Outcome]:
        """Answers questions as one atomic group. An error is the outcome of all."""
        if not requests:
            return []
        first = requests[0]
        try:
            if any((request.key, request.analyst) != (first.key, first.analyst) for request in requests):
                raise BadRequest("atomic", "several keys or analysts", "questions together have one of each")
            parsed = [self._parse_ask(request) for request in requests]
            limits = [item.max_cost for _, item in parsed if item.max_cost is not None]
            if 0 < len(limits) < len(requests):
                raise BadRequest("max_cost", "of some", "must be given for all questions together, or for none")
            questions: list[TargetedQuestion] = []
            indices = [[add_question(questions, part) for part in select.questions] for select, _ in parsed]
            if len(questions) > MAX_GROUP_PARTS:
                raise BadRequest("atomic", f"{len(questions)} questions", f"at most {MAX_GROUP_PARTS} together")
        except NoisebankError as error:
            return [error] * len(requests)
        limit = sum(limits, ZERO_PRECISION) if limits else None
        plainly = any(item.plainly for _, item in parsed)
        group = BatchItem(questions, limit, first.key, first.analyst, plainly)
        answer_batch(self.context, [group])
        outcomes = []
        for request, (select, item), own in zip(requests, parsed, indices, strict=True):
            item.error, item.answers = group.error, [group.answers[index] for index in own if group.answers]
            outcomes.append(self._make_outcome(request.sql, select, item))
        return outcomes

    def _parse_ask(self, request: Ask) -> tuple[ParsedSelect, BatchItem]:
        """Returns what a request needs, and as an item of a batch."""
        select = self._parse_select(request.sql, request.accuracy)
        relative = any(isinstance(accuracy, RelativeTarget) for _, accuracy in select.questions)
        if request.best and len(select.questions) == 1 and not relative:
            question, accuracy = select.questions[0]
            better = improve_accuracy(self.context, question, accuracy, request.key, request.analyst)
            select = replace(select, questions=((question, better),))
        # The promise of a relative answer needs a precision that no earlier answer has influenced: no cube, and not
        # a better answer that happens to be known.
        max_cost = _parse_max_cost(request.max_cost)
        return select, BatchItem(select.questions, max_cost, request.key, request.analyst, plainly=relative)

    def _make_outcome(self, sql: str, select: ParsedSelect, item: BatchItem) -> Outcome:
        """Returns the results of a SELECT, or the error of its item. One that nobody foresaw is an unknown outcome."""
        if item.error is None:
            return self._derive_results(sql, select, item.answers)
        if isinstance(item.error, NoisebankError):
            return item.error
        unknown = OutcomeUnknown(f"an unexpected error ({type(item.error).__name__}): ask again with the same key")
        unknown.__cause__ = item.error
        return unknown

    def _derive_results(
        self, sql: str, select: ParsedSelect, answers: Sequence[Answer]
    ) -> Answer | DerivedAnswer | Answers:
        """Computes the results of a SELECT from the answers to its questions."""
        parts = [
            self._add_verdict(answer, *question) for answer, question in zip(answers, select.questions, strict=True)
        ]
        results = [
            parts[indices[0]]
            if item.derivation is Derivation.LINEAR
            else DerivedAnswer(item.name, item.derivation, sql, tuple(parts[index] for index in indices), item)
            for item, indices in zip(select.items, select.question_indices, strict=True)
        ]
        if len(results) == 1:
            return results[0]
        cost = sum((part.cost for part in parts), ZERO_PRECISION)
        return Answers(sql, tuple(results), tuple(item.name for item in select.items), cost)

    def _parse_select(self, sql: str, options: AccuracyOptions) -> ParsedSelect:
        """Returns what a SELECT needs. It depends on text, accuracy and policy only, so it is cached."""
        arguments: tuple[Any, ...] = (sql, *chain.from_iterable(options.items()))
        try:
            hash(arguments)
        except TypeError:  # neither text nor number: parsing it raises the error for it
            return self._parse_select_afresh(*arguments)
        return self._parse_select_cached(*arguments)

    def _parse_select_afresh(self, sql: str, *arguments: Any) -> ParsedSelect:
        """Returns what a SELECT needs: its results, their questions, and each question's share of the accuracy.

        `arguments` are names and values of the accuracy options, one after the other: hashable, for the cache.
        """
        accuracy = parse_accuracy(**dict(zip(arguments[::2], arguments[1::2], strict=True)))
        items = self._parse_items_cached(self.context.named_sql(sql))
        questions: list[TargetedQuestion] = []
        indices = []
        for item in items:
            if isinstance(accuracy, RelativeTarget) and item.derivation is not Derivation.LINEAR:
                raise UnsupportedQuery("relative accuracy of a derived answer", "say epsilon, delta instead")
            part = accuracy if len(item.questions) == 1 else split_accuracy(accuracy, len(item.questions))
            indices.append(
                tuple(
                    add_question(questions, (question, self._set_floor(question, part))) for question in item.questions
                )
            )
        return ParsedSelect(items, tuple(questions), tuple(indices))

    def quote(self, sql: str, **options: Unpack[AccuracyOptions]) -> Quote:
        """Returns what an answer would cost now. Spends nothing, opens no data."""
        return self._quote_select(sql, self._parse_select(sql, options))

    def quote_many(self, requests: Sequence[Ask]) -> list[Quote | NoisebankError]:
        """Returns what each answer would cost now, alone, or why there is none."""
        return [capture_refusal(partial(self.quote, request.sql, **request.accuracy)) for request in requests]

    def quote_together(self, requests: Sequence[Ask]) -> Quote:
        """Returns what all answers together would cost now: the price of an atomic `ask_many`."""
        selects = [self._parse_select(request.sql, request.accuracy) for request in requests]
        return self._quote_select("; ".join(request.sql for request in requests), join_selects(selects))

    def _quote_select(self, sql: str, select: ParsedSelect) -> Quote:
        # Parts that share a query are decided one after the other, so that later ones find what earlier ones pay for.
        targets = [self.context.target_precision(question, accuracy) for question, accuracy in select.questions]
        relative = any(isinstance(accuracy, RelativeTarget) for _, accuracy in select.questions)
        plans = fit_transaction(partial(preview_plan, self.context), select.questions, targets, relative)
        quotes = [
            self.quoted(question, accuracy, not planned.cube_number)
            for (question, accuracy), planned in zip(select.questions, plans, strict=True)
        ]
        if len(select.items) == 1 and select.items[0].derivation is Derivation.LINEAR:
            return quotes[0]
        cost = sum(
            price_plans(
                self.context,
                [(question, planned) for (question, _), planned in zip(select.questions, plans, strict=True)],
            ),
            ZERO_PRECISION,
        )
        return combine_quotes(sql, quotes, cost, self.share(self.state.spent + cost))

    def quoted(self, question: Question, accuracy: AccuracyTarget, plainly: bool = False) -> Quote:
        """Returns the quote for a parsed question."""
        target = self.context.target_precision(question, accuracy)
        planned = preview_plan(self.context, question, target, plainly)
        state, sensitivity = self.state, self.context.sensitivity_of(question.query)
        (cost,) = price_plans(self.context, [(question, planned)])
        return Quote(
            sql=question.sql,
            case=planned.case,
            target=target,
            cost=cost,
            left=state.remaining_budget,
            stddev=standard_deviation(sensitivity, question.unit, target),
            reused_stddev=(
                standard_deviation(sensitivity, question.unit, planned.reused_record.precision)
                if planned.reused_record
                else None
            ),
            share_now=self.share(state.spent),
            share_after=self.share(state.spent + cost),
            cube=self.cube_of(planned),
            cell_factor=-(-max((charge.weight for charge in planned.charges), default=WHOLE_WEIGHT) // WHOLE_WEIGHT),
            first_look=planned.first_look.cost if planned.first_look else ZERO_PRECISION,
            floor=float(accuracy.floor) if isinstance(accuracy, RelativeTarget) and accuracy.floor else None,
        )

    def cube_of(self, planned: Plan) -> tuple[str, ...]:
        """Returns the columns of the cube that a plan uses; none for plain reuse."""
        return (
            policy_cubes(self.policy)[self.cubes.cube_numbers.index(planned.cube_number)].columns
            if planned.cube_number
            else ()
        )

    # -- what others read ----------------------------------------------------------------------

    @property
    def name(self) -> str:
        """The policy's name: the table in FROM."""
        return self.policy.name

    @property
    def state(self) -> AccountState:
        """Budget and spend, as the contract holds them."""
        return self.context.state

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
        return self.context.named_sql(sql)

    def view(self, analyst: str) -> View:
        """Returns what an analyst may learn, and has learned. The owner may learn all that the account spends."""
        return self.context.view_of(analyst)

    def analyst(self, name: str) -> bytes:
        """Returns the ledger's name of an analyst: salted, or the owner's for local use."""
        return self.context.analyst_digest(name)

    @property
    def epsilon(self) -> float:
        """The epsilon of all answers together, at the account's delta, at every moment; rounded up."""
        budgets = self.budgets
        if budgets.opened == budgets.fixed == budgets.largest:
            return float(self.policy.epsilon)
        return float(promised_epsilon(budgets.fixed, budgets.largest, self.policy.delta))

    @property
    def budgets(self) -> Budgets:
        """The budgets that the account's epsilon follows from: at opening, before any answer, and the largest."""
        return self.ledger.books.get_budgets(self.id)

    def raise_to(self, epsilon: Fraction) -> Precision:
        """Returns the budget that a raise to `epsilon` may grant: less than at opening, once answers were given."""
        nominal, state, fixed = budget_precision(epsilon, self.policy.delta), self.state, self.budgets.fixed
        if not state.measurements or nominal <= fixed:  # up to what was fixed before any answer, nothing is new
            return nominal
        granted = max(fixed, raised_precision(fixed, epsilon, self.policy.delta))
        if granted <= state.budget:
            least = float(raised_epsilon(fixed, max(fixed, state.budget), self.policy.delta))
            raise BadRequest(
                "epsilon", float(epsilon), f"is no raise: answers were given, so say more than {least:.6g}"
            )
        return granted

    def share(self, spent: Precision) -> float:
        """Returns a spend as a share of the budget, from 0 to 1."""
        budget = self.state.budget
        return float(spent) / float(budget) if budget else 1.0

    def recall(self, id: bytes) -> Answer | None:
        """Returns a published answer again, with its verdict if it was a relative request. Spends nothing."""
        answer, request = self.context.released.find_published(id), self.vault.find_request(id)
        if answer is None or request is None or "relative" not in request.body.get("asked", ()):
            return answer
        return self._add_verdict(answer, self.context.question_of(request), parse_accuracy(**request.body["asked"]))

    def _set_floor(self, question: Question, accuracy: AccuracyTarget) -> AccuracyTarget:
        """Gives a relative target without a floor one from the policy: no answer influences it."""
        if not isinstance(accuracy, RelativeTarget):
            return accuracy
        if question.query.by or question.offset:
            raise UnsupportedQuery("relative accuracy of a group-by or with a constant", "say --within instead")
        return accuracy.with_floor(saturation_limit(question.query, self.policy) * abs(question.unit))

    def _add_verdict(self, answer: Answer, question: Question, accuracy: AccuracyTarget) -> Answer:
        """Adds a verdict if the request was relative. The next price is looked up whatever the verdict is."""
        if not isinstance(accuracy, RelativeTarget):
            return answer
        try:
            next_cost = self.quoted(question, accuracy.with_half_floor(), plainly=True).cost
        except NoisebankError:
            next_cost = None
        common = {name: getattr(answer, name) for name in Answer.__slots__}
        plain = answer.inferred is None  # an earlier one under the same key may come from a cube: no promise for it
        reached = plain and accuracy.is_reached(answer.exact, answer.stddev)
        return RelativeAnswer(**common, accuracy=accuracy, reached=reached, next_cost=next_cost)


def _parse_max_cost(max_cost: Exact | None) -> Precision | None:
    if max_cost is None:
        return None
    value = parse_exact(max_cost, "max_cost")
    if value < 0:
        raise BadRequest("max_cost", "less than nothing", "must not be negative")
    return Precision.floor(value)
