"""Crash points of the cube path: first looks, measurements, groups, inferred and derived answers, and the opening.

As in `crashes`, and besides: what is charged adds up by cells, no cube is looked at twice, and each sealed answer is
the least-squares estimate from exactly what was sealed before it. A sample that a crash has lost is in none of them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from math import sqrt
from pathlib import Path
from typing import Any

import numpy as np

from assurance.crashes import PLANTED, Asked, Laboratory, Witness, room_for
from assurance.planting import in_place_of, plant_part, replaces
from assurance.report import Finding
from noisebank import Account, Bank, Precision, Result, create_bank
from support.internals import (
    WHOLE_WEIGHT,
    Case,
    CubeQuery,
    CubeStrategy,
    Question,
    Reservation,
    SealedAnswer,
    buy_look_if_affordable,
    find_cube_query,
    workload_rng,
)

CRASHES = 2_000
POLICY = """\
name = "people"
source = "people.csv"
neighbours = "add-remove"
row_cap = 100
cubes = [["age"]]
[budget]
epsilon = 20
delta = 1e-6
[columns.age]
type = "integer"
bounds = [0, 79]
bins = [10, 20, 30, 40, 50, 60, 70]
"""


def ages(low: int, high: int, *more: str) -> tuple[str, ...]:
    """A range in two spellings, and more."""
    start = "SELECT COUNT(*) FROM people WHERE"
    return f"{start} age BETWEEN {low} AND {high}", f"{start} age >= {low} AND age < {high + 1}", *more


WORK = (
    ("low", ages(0, 9), "3"),
    ("better", ages(0, 9), "2"),
    ("across", ages(10, 59), "2"),
    ("wide", ages(10, 69), "2"),
    ("groups", ("SELECT age, COUNT(*) FROM people GROUP BY age", "select count(*) from people group by age"), "4"),
    ("wider", ages(0, 29), "9"),
    ("middle", ages(20, 59), "3"),
    ("upper", ages(30, 79), "3"),
    ("narrow", ages(20, 49), "3"),
    ("lower", ages(0, 49), "3"),
    ("median", ("SELECT MEDIAN(age) FROM people", "SELECT QUANTILE(age, 0.5) FROM people"), "5"),
    ("again", ages(0, 9), "2"),
)
"""FIRST, REFINE, two looks that are earned by what was paid, INFER of many groups and of ranges, derived, REPEAT. In
this order costs are those of a bank that nobody restarts: what free answers have earned towards a look is not kept."""


def requests() -> list[Asked]:
    return [Asked(name, name, spellings, Fraction(sigma), sigma) for name, spellings, sigma in WORK]


@dataclass
class CubeWitness(Witness):
    """Knows what an undisturbed bank did, and least squares."""

    def drew(self) -> None:
        self.draws += 1
        if all(id in self.sealed for id, (_, charged) in self.fresh.items() if charged):
            self.blame("noise drawn although every reservation is sealed: a second sample")

    def saw(self, key: str, answer: Any) -> None:
        """Every row with its intervals, also of a derived answer, and its only part, which has the receipt."""
        if not isinstance(answer, Result):  # what a planted bug shows too early has no intervals yet
            super().saw(key, answer)
            return
        (only,) = answer.parts
        self.saw_values(key, tuple((row.keys, row.estimates) for row in answer), only)

    def audit(self, account: Account, requests: list[Asked]) -> None:
        """The books, the looks, and every answer in the vault."""
        made = account.ledger.list_reservations(account.id)
        if spend(made) != account.state.spent.units:
            self.blame("the books do not balance: spent is not the largest cell of what was charged")
        looks = [one for one in made if "look" in asked_of(account, one)]
        if len(looks) > REFERENCE.look_count or len(made) - len(looks) != len(requests):
            self.blame(f"{len(looks)} looks and {len(made)} reservations for {len(requests)} requests: charged twice")
        answers = {one.id: one.answer_digest for one in made if one.case is not Case.REPEAT}
        if answers != self.published or answers != self.sealed or answers.keys() != self.fresh.keys():
            self.blame("what was durable is missing from the ledger")
        for asked in requests:
            if asked.key not in self.shown:
                self.blame("a request has no answer")
            elif self.shown[asked.key][2:] != undisturbed()[asked.key]:
                self.blame("a request has another case or cost than it should")
        check_answers(self, account, made)


def asked_of(account: Account, made: Reservation) -> dict[str, Any]:
    request = account.vault.find_request(made.id)
    return {} if request is None else request.body


def spend(made: tuple[Reservation, ...]) -> int:
    """Plain charges and the largest cell, from the runs alone."""
    cells = [0] * 16
    for one in made:
        for run in one.runs:
            for place in range(run.start, run.stop):
                cells[place] += -(-one.fresh_precision.units * run.weight // WHOLE_WEIGHT)
    return max(cells) + sum(one.fresh_precision.units for one in made if not one.cube)


def check_answers(witness: Witness, account: Account, made: tuple[Reservation, ...]) -> None:
    """Each answer against least squares over all that was sealed up to it, in the ledger's order."""
    information, pooled = np.zeros((8, 8)), np.zeros(8)
    for one in made:
        if one.case is Case.REPEAT:
            continue  # its answer is the recorded one
        sealed, request = account.vault.find_answer(one.id), account.vault.find_request(one.id)
        if sealed is None or request is None or not one.cube:
            witness.blame("an answer is missing from the vault, or was asked plainly")
            return
        served = find_cube_query(account.context.question_of(request).query, account.context.policy)
        assert served is not None
        for row, value, variance in measured(account, served, one, sealed):
            information += np.outer(row, row) / variance
            pooled += row * value / variance
        inverse = np.linalg.pinv(information, rcond=1e-10, hermitian=True)
        for group, value, stated in zip(
            served.groups, sealed.body.get("values", ()), sealed.body.get("variances", ()), strict=True
        ):
            assert group is not None
            row = group.query.dense_weights * float(group.factor)
            variance = float(row @ inverse @ row)
            off = abs(float(row @ inverse @ pooled) - value[0] / 2 ** value[1])
            if off > 1e-5 * sqrt(variance) or abs(float(Fraction(stated)) / variance - 1) > 1e-6:
                witness.blame("an answer is not the least-squares estimate from what was sealed before it")
                return


def measured(
    account: Account, served: CubeQuery, one: Reservation, sealed: SealedAnswer
) -> list[tuple[np.ndarray, float, float]]:
    """Rows over the cells, values and variances of what a reservation has measured."""
    if not one.fresh_precision:
        return []
    if "row_values" in sealed.body:
        query = account.context.question_of(account.vault.find_request(one.id)).query
        look = query.find_look(account.context.policy)
        values = [number / 2 ** sealed.body["shift"] / float(look.noise_scale) for number in sealed.body["row_values"]]
        noise = 1 / float(one.fresh_precision)
        return [(row, value, noise) for row, value in zip(look.rows_over_cells(), values, strict=True)]
    found = zip(served.groups, sealed.body["measured"], strict=True)
    return [
        (
            group.query.dense_weights * float(group.factor),
            value[0] / 2 ** value[1],
            float(served.group_variance(group, one.fresh_precision)),
        )
        for group, value in found
        if group is not None
    ]


@dataclass
class Reference:
    """Case and cost of each request in a bank that nobody disturbs: they depend on no measured value."""

    known: dict[str, tuple[Case, Precision]]
    look_count: int = 1


REFERENCE = Reference({})


def undisturbed() -> dict[str, tuple[Case, Precision]]:
    return REFERENCE.known


def new_bank(room: Path) -> tuple[Path, Path]:
    """A bank without accounts and a policy with a cube."""
    table = room / "table"
    table.mkdir(parents=True)
    pick = workload_rng(4)
    (table / "people.csv").write_text("\n".join(["age", *(str(pick.randrange(80)) for _ in range(60))]) + "\n")
    policy = table / "people.toml"
    policy.write_text(POLICY)
    return create_bank(room / "bank"), policy


def bank_with_account(room: Path) -> Path:
    """A bank with one account and no history; what it does undisturbed is remembered."""
    folder, policy = new_bank(room)
    with Bank(folder) as bank:
        bank.open_account(policy)
    other, policy = new_bank(room / "undisturbed")
    with Bank(other) as bank:
        account = bank.open_account(policy)
        for asked in requests():
            answer = account.ask(asked.sql(0), sigma=asked.sigma, key=asked.key)
            REFERENCE.known[asked.key] = (answer.case, answer.cost)
        looks = [one for one in account.ledger.list_reservations(account.id) if "look" in asked_of(account, one)]
        assert looks, "the workload must earn a look"
        REFERENCE.look_count = len(looks)
    return folder


# -- planted bugs ------------------------------------------------------------------------------


class MeasuresFirst(CubeStrategy):
    """Looks at the data before the reservation."""

    @replaces
    def plan(self, question: Question, target: Precision, *limits: Any) -> Any:
        engine = self._context.engine
        engine.statistics(question.query) if question.query.by else engine.statistic(question.query)
        return super().plan(question, target, *limits)


class Forgets(CubeStrategy):
    """Does not take in, after a restart, what was measured before."""

    @replaces
    def rebuild(self) -> None:
        context = self._context
        ledger, context.ledger = context.ledger, _Empty(context.ledger)  # type: ignore[assignment]
        super().rebuild()
        context.ledger = self.planner._ledger = ledger


class _Empty:
    def __init__(self, ledger: Any) -> None:
        self.get_account = ledger.get_account

    def list_reservations(self, account: bytes) -> tuple[Reservation, ...]:
        return ()


@in_place_of("noisebank.account.pipeline", "buy_look_if_affordable")
def looks_again(context: Any, question: Question, plan: Any, max_cost: Any, analyst: str, others: Precision) -> bool:
    """Buys a look a second time."""
    assert plan.look is not None
    half = replace(plan.look.look, precision=Precision(plan.look.look.precision.units // 2))
    buy_look_if_affordable(
        context, question, replace(plan, look=replace(plan.look, look=half)), max_cost, analyst, others
    )
    return buy_look_if_affordable(context, question, plan, max_cost, analyst, others)


BUGS: dict[str, tuple[Any, str]] = {
    "measures before it reserves": (MeasuresFirst, "data touched without"),
    "forgets what was measured": (Forgets, "not the least-squares estimate"),
    "draws again for a sealed answer": (PLANTED["draws again for a sealed answer"][0], "a second sample"),
    "looks twice": (looks_again, "charged twice"),
    "shows before it publishes": (PLANTED["shows before it publishes"][0], "shown before it was published"),
    "a new id for each retry": (PLANTED["a new id for each retry"][0], "charged twice"),
}
"""Each with the words that the witness must find for it."""


def cube_crashes(share: float) -> Finding:
    """An answer from a cube without a record; a record lost after it was acknowledged; a second sample."""
    enough = max(1, round(CRASHES * share))
    with room_for("cubes") as name:
        room = Path(name)
        start = bank_with_account(room)
        laboratory = Laboratory(room, depth=2 if share >= 0.5 else 1, witness=CubeWitness)
        bare, policy = new_bank(room / "opening")
        wrong = laboratory.open_accounts(bare, policy, laboratory.depth)
        wrong += laboratory.work(start, requests(), enough).wrong
        planted = {bug: _caught(room, start, kind, words) for bug, (kind, words) in BUGS.items()}
    cases = ", ".join(f"{count} {case}" for case, count in sorted(laboratory.cases.items()))
    return Finding(
        row="an answer from a cube without a record; a lost or second sample in what is inferred",
        tried=f"{laboratory.crashes:,} crashes in process, at {len(laboratory.points)} points"
        f"{', singly and in pairs' if laboratory.depth > 1 else ''}",
        figure=f"{len(wrong)} violations; {laboratory.judged:,} banks judged; requests cut off at every step: {cases}",
        violations=len(wrong),
        planted=planted,
        note="; ".join(dict.fromkeys(wrong)),
    )


def _caught(room: Path, start: Path, kind: Any, words: str) -> bool:
    laboratory = Laboratory(room / kind.__name__, kind, depth=1, witness=CubeWitness)
    laboratory.room.mkdir()
    with plant_part(kind):
        wrong = laboratory.work(start, requests(), CRASHES).wrong
    return any(words in what for what in wrong)
