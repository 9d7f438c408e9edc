"""What a budget answers of expected questions: plainly, with cubes, with `expect`; and what would help.

Everything follows from the policy: no table is opened.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import prod
from types import MappingProxyType
from typing import Any

from noisebank.account.advice import servable_columns
from noisebank.bank.rehearsal import Rehearsal, rehearse
from noisebank.core.asks import AccuracyOptions, Ask, collect_accuracy
from noisebank.core.errors import BadRequest, Misuse
from noisebank.core.units import Exact
from noisebank.core.wording import format_percent
from noisebank.policy.model import Policy
from noisebank.queries.selects import parse_select_aggregates

USUAL_EPSILON = "0.1"
"""Of each answer, where nobody says how accurate it shall be."""
MAX_JOINED_CELLS = 4_096
"""Of a cube that is suggested for all questions together."""


@dataclass(frozen=True, slots=True)
class Arrangement:
    """A policy as it is or as it could be, and what its budget answers."""

    name: str
    policy: Policy
    rehearsal: Rehearsal

    def to_json(self) -> dict[str, Any]:
        """Returns a JSON object, for --json."""
        policy, done = self.policy, self.rehearsal
        return {
            "name": self.name, "cubes": [list(names) for names in policy.cubes],
            "expect": [str(getattr(item, "value", item)) for item in policy.expect],
            "complete": list(policy.complete_columns), "answered": done.answered, "free": done.free,
            "spent": done.spent.to_decimal(), "share": done.share, "looks": done.looks.to_decimal(),
        }  # fmt: skip


@dataclass(frozen=True, slots=True)
class BudgetExplanation:
    """What a budget answers of a list of questions, in several arrangements; and what to write into the policy."""

    questions: tuple[str, ...]
    accuracy: AccuracyOptions
    arrangements: tuple[Arrangement, ...]
    advice: tuple[str, ...]

    @property
    def refused(self) -> tuple[tuple[str, str], ...]:
        """The questions that no budget answers, with the reason."""
        return self.arrangements[0].rehearsal.refused

    def to_json(self) -> dict[str, Any]:
        """Returns a JSON object, for --json."""
        return {
            "questions": list(self.questions),
            "accuracy": {name: str(value) for name, value in self.accuracy.items()},
            "arrangements": [arrangement.to_json() for arrangement in self.arrangements],
            "advice": list(self.advice),
            "refused": [{"sql": sql, "why": why} for sql, why in self.refused],
        }

    def describe_rows(self) -> list[tuple[str, str, str, str, str]]:
        """Returns one row per arrangement: its name, answers, free ones, share spent, and what of it were looks."""
        rows = []
        for each in self.arrangements:
            done = each.rehearsal
            looks = format_percent(float(done.looks) / float(done.budget)) if done.looks else ""
            answered = f"{done.answered} of {done.asked}"
            rows.append((each.name, answered, str(done.free), format_percent(done.share), looks))
        return rows

    def __repr__(self) -> str:
        head = ("", "answered", "free", "of the budget", "for looks")
        rows = [head, *self.describe_rows()]
        widths = [max(len(row[column]) for row in rows) for column in range(len(head))]
        lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
        return "\n".join([*lines, *self.advice])


def explain(
    policy: Policy,
    questions: Sequence[str] = (),
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
) -> BudgetExplanation:
    """Returns what the policy's budget answers of these questions (SQL or names; all named queries if there are none).

    Each is asked once, in this order, with this accuracy; epsilon 0.1 if none is said. It is rehearsed in a bank in
    memory, from the policy alone.
    """
    accuracy = collect_accuracy(epsilon, delta, within, relative, floor, sigma, confidence, calibration, spend, groups)
    if not accuracy.keys() - {"confidence", "calibration", "groups"}:
        accuracy["epsilon"] = USUAL_EPSILON
    if "epsilon" in accuracy and "delta" not in accuracy:
        accuracy["delta"] = str(float(policy.delta))
    texts = tuple(questions) or tuple(policy.queries)
    if not texts:
        raise BadRequest("questions", "none", "name questions: SQL, a file of them, or queries in the policy")
    requests = [Ask(text, accuracy) for text in texts]
    arrangements = [Arrangement(name, each, rehearse(each, requests)) for name, each in _arrange(policy, texts)]
    return BudgetExplanation(texts, accuracy, tuple(arrangements), tuple(_advise(policy, arrangements)))


def _arrange(policy: Policy, texts: Sequence[str]) -> Iterator[tuple[str, Policy]]:
    """Yields what is compared: without cubes, with the policy's, with `expect`, with suggested cubes, complete."""
    yield "plainly", replace(policy, cubes=(), expect=())
    expect = policy.expect or texts
    if policy.cubes:
        yield "with the policy's cubes", replace(policy, expect=())
        yield f"with {'its' if policy.expect else 'these as'} expect", replace(policy, expect=tuple(expect))
    suggested = _suggest_cubes(policy, texts)
    for cubes in suggested:
        yield f"with cubes = {_format_cubes(cubes)}", replace(policy, cubes=cubes, expect=())
    if suggested and not policy.cubes:
        name = f"{_format_cubes(suggested[0])} with expect = these questions"
        yield name, replace(policy, cubes=suggested[0], expect=tuple(expect))
    cubes = policy.cubes or next(iter(suggested), ())
    names = [name for name in policy.columns if any(name in cube for cube in cubes)]
    keyed = [name for name in names if policy.columns[name].keys and not policy.columns[name].complete]
    if keyed:
        columns = {
            name: replace(column, complete=True) if name in keyed else column for name, column in policy.columns.items()
        }
        complete = replace(policy, columns=MappingProxyType(columns), cubes=cubes, expect=())
        yield f"{_format_cubes(cubes)} with complete keys of {', '.join(keyed)}", complete


def _suggest_cubes(policy: Policy, texts: Sequence[str]) -> list[tuple[tuple[str, ...], ...]]:
    """Returns sets of cubes that could answer the questions, other than the policy's: one per set of columns that is
    asked for together, and a single one for all."""
    needed: set[tuple[str, ...]] = set()
    for text in texts:
        try:
            items = parse_select_aggregates(policy.resolve_sql(text), policy)
        except Misuse:
            continue
        for question in (question for item in items for question in item.questions):
            names = servable_columns(policy, question.query)
            if names:
                needed.add(names)
    largest = sorted(names for names in needed if not any(set(names) < set(other) for other in needed))
    apart = tuple(names for names in largest if not any(set(names) <= set(cube) for cube in policy.cubes))
    options = [(*policy.cubes, *apart)] if apart else []
    joined = tuple(sorted(set().union(*needed))) if needed else ()
    cells = prod(policy.columns[name].piece_count for name in joined)
    is_covered = any(set(joined) <= set(cube) for cube in policy.cubes)
    if joined and not is_covered and cells <= MAX_JOINED_CELLS:
        options.append((joined,))
    return list(dict.fromkeys(options))


def _advise(policy: Policy, arrangements: Sequence[Arrangement]) -> Iterator[str]:
    """Yields what to write into the policy, best first, where it answers more than the policy does now, or for less."""
    now = next((each for each in arrangements if _is_same(each.policy, policy)), arrangements[0])
    better = [each for each in arrangements if each.rehearsal.rank > now.rehearsal.rank]
    for each in sorted(better, key=lambda each: each.rehearsal.rank, reverse=True):
        done, before = each.rehearsal, now.rehearsal
        if done.answered > before.answered:
            gain = f"answers {done.answered} instead of {before.answered} of {done.asked}"
        elif format_percent(done.share) != format_percent(before.share):
            gain = f"spends {format_percent(done.share)} instead of {format_percent(before.share)}"
        else:
            continue  # hardly any
        yield f"{_format_change(policy, each.policy)}: {gain}"


def _is_same(one: Policy, other: Policy) -> bool:
    return (one.cubes, one.expect, one.complete_columns) == (other.cubes, other.expect, other.complete_columns)


def _format_change(policy: Policy, other: Policy) -> str:
    changes = []
    if other.cubes != policy.cubes:
        changes.append(f"cubes = {_format_cubes(other.cubes)}" if other.cubes else "no cubes")
    if other.expect != policy.expect:
        changes.append("expect = these questions" if other.expect else "no expect")
    complete = [name for name in other.complete_columns if name not in policy.complete_columns]
    if complete:
        keys = "their keys are" if len(complete) > 1 else "its keys are"
        changes.append(f"complete = true for {' and '.join(complete)} if {keys} all there are")
    return ", ".join(changes)


def _format_cubes(cubes: Sequence[tuple[str, ...]]) -> str:
    return "[" + ", ".join("[" + ", ".join(f'"{name}"' for name in names) + "]" for names in cubes) + "]"
