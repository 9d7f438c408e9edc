"""`Account`: an open account, and the one path from a question to an answer.

The path is: parse, price, plan, reserve, measure, seal, publish, answer. `Account.answers` takes questions that are
parsed and goes through the rest in this order; `complete` measures, seals and publishes. Nothing before `reserve` opens
the data; nothing is returned before it is sealed and published.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import partial
from itertools import chain
from typing import Any, Unpack

from noisebank.account.answers import Answer, Quote, RelativeAnswer, standard_deviation
from noisebank.account.derived import Answers, DerivedAnswer, combine_quotes
from noisebank.account.plain import CACHE_BYTES, size_of
from noisebank.account.recall import RecallSteps
from noisebank.account.selects import ParsedSelect, TargetedQuestion, add_question, capture_refusal, join_selects
from noisebank.core.asks import OWNER, AccuracyOptions, Ask
from noisebank.core.caches import cache_results
from noisebank.core.errors import BadRequest, NoisebankError, UnsupportedQuery
from noisebank.core.records import WHOLE_WEIGHT
from noisebank.core.units import ZERO_PRECISION, Exact, Precision, parse_exact
from noisebank.ledger.books import Budgets
from noisebank.ledger.encoding import MAX_GROUP_PARTS
from noisebank.planning.linear import MAX_RUNS
from noisebank.planning.pricing import AccuracyTarget, parse_accuracy, split_accuracy
from noisebank.planning.relative import RelativeTarget
from noisebank.planning.reuse import Plan, plan_reuse
from noisebank.privacy.calibration import budget_precision
from noisebank.privacy.odometer import promised_epsilon, raised_epsilon, raised_precision
from noisebank.queries.cells import policy_cubes
from noisebank.queries.derived import Derivation
from noisebank.queries.query import Question
from noisebank.queries.sensitivity import saturation_limit

Outcome = Answer | DerivedAnswer | Answers | NoisebankError
"""Of one question of `ask_many`: its answer, or the error that `ask` would have raised."""


class Account(RecallSteps):
    """An open account: quotes cost nothing, answers take the one path. Safe for many threads."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
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
        return self._answer_select(sql, self._parse_select(sql, options), _parse_max_cost(max_cost), key, analyst, best)

    def ask_many(self, requests: Sequence[Ask], *, atomic: bool = False) -> list[Outcome]:
        """Answers many questions; returns one outcome each, in their order. One that fails never affects another.

        With `atomic`, all are charged together, or none: they have one key, one analyst and one price, their `max_cost`
        are added up, and if the contract refuses, all have the same error. An atomic batch has at most 16 questions.
        """
        if atomic:
            return self._ask_together(requests)
        return [capture_refusal(partial(self._ask_one, request)) for request in requests]

    def _ask_one(self, request: Ask) -> Answer | DerivedAnswer | Answers:
        select, max_cost = self._parse_select(request.sql, request.accuracy), _parse_max_cost(request.max_cost)
        return self._answer_select(request.sql, select, max_cost, request.key, request.analyst, request.best)

    def _ask_together(self, requests: Sequence[Ask]) -> list[Outcome]:
        """Answers questions as one atomic group. An error is the outcome of all."""
        if not requests:
            return []
        first = requests[0]
        try:
            if any((request.key, request.analyst) != (first.key, first.analyst) for request in requests):
                raise BadRequest("atomic", "several keys or analysts", "questions together have one of each")
            limits = [limit for request in requests if (limit := _parse_max_cost(request.max_cost)) is not None]
            if 0 < len(limits) < len(requests):
                raise BadRequest("max_cost", "of some", "must be given for all questions together, or for none")
            selects = [self._parse_select(request.sql, request.accuracy) for request in requests]
            questions: list[TargetedQuestion] = []
            indices = [[add_question(questions, part) for part in select.questions] for select in selects]
            if len(questions) > MAX_GROUP_PARTS:
                raise BadRequest("atomic", f"{len(questions)} questions", f"at most {MAX_GROUP_PARTS} together")
            relative = any(isinstance(accuracy, RelativeTarget) for _, accuracy in questions)
            limit = sum(limits, ZERO_PRECISION) if limits else None
            answers = self.answers(questions, limit, first.key, first.analyst, plainly=relative)
        except NoisebankError as error:
            return [error] * len(requests)
        return [
            self._derive_results(request.sql, select, [answers[index] for index in own])
            for request, select, own in zip(requests, selects, indices, strict=True)
        ]

    def answer(
        self,
        sql: str,
        accuracy: AccuracyTarget,
        max_cost: Precision | None = None,
        key: str | None = None,
        analyst: str = OWNER,
    ) -> Answer:
        """Answers one question without cubes."""
        return self.answers([(self.parse(sql), accuracy)], max_cost, key, analyst, plainly=True)[0]

    def answers(
        self,
        questions: Sequence[TargetedQuestion],
        max_cost: Precision | None = None,
        key: str | None = None,
        analyst: str = OWNER,
        plainly: bool = False,
    ) -> list[Answer]:
        """The one path. Several questions are one atomic group: all are charged, or none.

        `plainly` leaves cubes aside: the answers must not share their noise with others.
        """
        targets = [self.price(question, accuracy) for question, accuracy in questions]
        requests = self._save_requests(questions, targets, key, analyst)  # a crash can be finished from here on
        with self._hold_turns(self._contended_queries(questions, targets), requests):
            reservations = self._find_reservations(requests)
            if reservations is None:
                plans = self._plan_questions(questions, targets, max_cost, analyst, plainly)
                reservations = self._reserve_plans(requests, questions, plans, max_cost)  # spent, even if we crash
            sealed = [  # measured, sealed and published
                self.complete(reserved, question)
                for reserved, (question, _) in zip(reservations, questions, strict=True)
            ]
        published = self._find_reservations(requests) or reservations
        return [
            self._make_answer(*parts)
            for parts in zip(published, sealed, (question for question, _ in questions), strict=True)
        ]

    def _answer_select(
        self,
        sql: str,
        select: ParsedSelect,
        max_cost: Precision | None,
        key: str | None,
        analyst: str,
        best: bool = False,
    ) -> Answer | DerivedAnswer | Answers:
        """Answers all questions of a SELECT as one group on the one path, and computes its results from them."""
        relative = any(isinstance(accuracy, RelativeTarget) for _, accuracy in select.questions)
        if best and len(select.questions) == 1 and not relative:
            question, accuracy = select.questions[0]
            select = replace(select, questions=((question, self.bettered(question, accuracy, key, analyst)),))
        # The promise of a relative answer needs a precision that no earlier answer has influenced: no cube, and not
        # a better answer that happens to be known.
        answers = self.answers(select.questions, max_cost, key, analyst, plainly=relative)
        return self._derive_results(sql, select, answers)

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
        items = self._parse_items_cached(self.named(sql))
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
        targets = [self.price(question, accuracy) for question, accuracy in select.questions]
        relative = any(isinstance(accuracy, RelativeTarget) for _, accuracy in select.questions)
        plans = _fit_transaction(self._preview_plan, select.questions, targets, relative)
        quotes = [
            self.quoted(question, accuracy, not planned.cube_number)
            for (question, accuracy), planned in zip(select.questions, plans, strict=True)
        ]
        if len(select.items) == 1 and select.items[0].derivation is Derivation.LINEAR:
            return quotes[0]
        cost = sum(
            self.costs([(question, planned) for (question, _), planned in zip(select.questions, plans, strict=True)]),
            ZERO_PRECISION,
        )
        return combine_quotes(sql, quotes, cost, self.share(self.state.spent + cost))

    def quoted(self, question: Question, accuracy: AccuracyTarget, plainly: bool = False) -> Quote:
        """Returns the quote for a parsed question."""
        target = self.price(question, accuracy)
        planned = self._preview_plan(question, target, plainly)
        state, sensitivity = self.state, self._sensitivity_of(question.query)
        (cost,) = self.costs([(question, planned)])
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

    def _preview_plan(self, question: Question, target: Precision, plainly: bool) -> Plan:
        """Plans as the path would now, without opening anything."""
        if not plainly and self.cubes.find_cube_query(question.query) is not None:
            return self.planned_in(question, target)
        planned = plan_reuse(target, self._find_records(question.query))
        self._check_noise(question.query, planned)
        return planned

    def _plan_questions(
        self,
        questions: Sequence[TargetedQuestion],
        targets: Sequence[Precision],
        max_cost: Precision | None,
        analyst: str,
        plainly: bool,
    ) -> list[Plan]:
        """Plans a group. A first look that a plan proposes is bought before, on the same path, if it is affordable."""
        plans = _fit_transaction(self.plan, questions, targets, plainly)
        for index, (question, _) in enumerate(questions):
            if plans[index].first_look is not None and self._buy_look_if_affordable(
                question, plans[index], max_cost, analyst
            ):
                plans = _fit_transaction(self.plan, questions, targets, plainly)
        return plans

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
        answer, request = super().recall(id), self.vault.find_request(id)
        if answer is None or request is None or "relative" not in request.body.get("asked", ()):
            return answer
        return self._add_verdict(answer, self.question(request), parse_accuracy(**request.body["asked"]))

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


def _fit_transaction(
    make_plan: Callable[[Question, Precision, bool], Plan],
    questions: Sequence[TargetedQuestion],
    targets: Sequence[Precision],
    plainly: bool,
) -> list[Plan]:
    """Plans a group so that it fits into one transaction: the parts with the most runs of cells go without a cube."""
    plans = [make_plan(question, target, plainly) for (question, _), target in zip(questions, targets, strict=True)]
    while sum(len(planned.charges) for planned in plans) > MAX_RUNS:
        longest = max(range(len(plans)), key=lambda index: len(plans[index].charges))
        plans[longest] = make_plan(questions[longest][0], targets[longest], True)
    return plans
