"""Prices before spending: a curve of price against error, and what each epsilon means for a query. All free."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

from noisebank.account.account import Account
from noisebank.account.advice import explain_cube
from noisebank.core.errors import BadRequest, UnsupportedQuery
from noisebank.core.estimates import standard_deviation
from noisebank.core.intervals import confidence_interval
from noisebank.core.quote import Quote
from noisebank.core.units import MIN_PRECISION, Precision, floor_to_ladder
from noisebank.planning.pricing import PrecisionTarget, PrivacyTarget
from noisebank.queries.selects import parse_select_aggregates
from noisebank.queries.sensitivity import l2_sensitivity

EPSILONS = tuple(Fraction(number) for number in ("0.05", "0.1", "0.25", "0.5", "1", "2", "4"))
CURVE_STEPS = (-4, -3, -2, -1, 0, 1, 2, 3, 4)
"""Octaves of precision around the chosen quote."""


def quote_curve(account: Account, sql: str, chosen: Quote) -> tuple[Quote, ...]:
    """Returns quotes for more and less precise answers to the same question, from coarse to fine."""
    if chosen.parts:
        raise UnsupportedQuery("a curve for a derived answer", "its error depends on the data: look at its parts")
    question = account.parse(sql)
    targets = (_shift_octaves(chosen.target, octaves) for octaves in CURVE_STEPS)
    return tuple(account.quoted(question, PrecisionTarget(target)) for target in targets if target >= MIN_PRECISION)


def draw_curve(sql: str, points: Sequence[Quote], target: Path) -> None:
    """Draws price against error into a .png or .svg file."""
    from matplotlib.figure import Figure
    from matplotlib.ticker import NullLocator

    if target.suffix.lower() not in (".png", ".svg"):
        raise BadRequest("chart", target, "must end in .png or .svg")
    figure = Figure(figsize=(7, 4.2), layout="constrained")
    axes = figure.subplots()
    errors = [point.interval_half_width() or 0.0 for point in points]
    axes.plot(errors, [float(point.cost) for point in points], marker="o", color="#0072B2")
    axes.axhline(float(points[0].left), color="#444444", linestyle="--", linewidth=1)
    axes.text(errors[0], float(points[0].left), "left in the account", color="#444444", va="bottom", ha="right")
    axes.set_xscale("log")
    axes.set_yscale("symlog", linthresh=max(1e-9, min((float(p.cost) for p in points if p.cost), default=1e-4)))
    axes.set_ylim(bottom=0)
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xticks(errors, [f"{error:.3g}" for error in errors], fontsize=8)
    axes.set_xlabel("error at 95% confidence (half width)")
    axes.set_ylabel("price in precision")
    axes.set_title(f"What more accuracy costs\n{sql}", loc="left", fontsize=10)
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(target, dpi=150)


@dataclass(frozen=True, slots=True)
class QueryExplanation:
    """One query: the error of an answer at each epsilon, and what is known already."""

    name: str
    sql: str
    sensitivity: str
    errors: tuple[tuple[float, float], ...]
    """Pairs of epsilon and error at 95% confidence."""
    known: str
    where: str
    """Which cube answers it, or why none does."""

    def to_json(self) -> dict[str, Any]:
        """Returns a JSON object, for --json."""
        table = [{"epsilon": epsilon, "error_at_95": error} for epsilon, error in self.errors]
        return {
            "name": self.name,
            "sql": self.sql,
            "sensitivity": self.sensitivity,
            "errors": table,
            "known": self.known,
            "where": self.where,
        }


def explain_queries(account: Account, names: Sequence[str]) -> list[QueryExplanation]:
    """Explains each question of the named queries, at the account's delta. Errors follow from the policy alone."""
    rows = []
    results = [
        (name, each) for name in names for each in parse_select_aggregates(account.named(name), account.context.policy)
    ]
    for label, question in [(name, question) for name, each in results for question in each.questions]:
        name = label if account.named(label).strip() == question.sql else f"{label}: {question.sql}"
        query_sensitivity = Fraction(l2_sensitivity(question.query, account.context.policy))
        errors = []
        for epsilon in EPSILONS:
            target = account.context.target_precision(question, PrivacyTarget(epsilon, account.context.policy.delta))
            stddev = standard_deviation(query_sensitivity, question.unit, target)
            errors.append((float(epsilon), confidence_interval(0.0, stddev)[1]))
        records = account.ledger.list_records(account.id, account.secrets.salted_query(question.query))
        known = "nothing yet: the first answer pays in full"
        if records:
            best = confidence_interval(
                0.0, standard_deviation(query_sensitivity, question.unit, records[-1].precision)
            )[1]
            known = f"an answer within ± {best:.3g} (95%) is paid for: anything coarser is free"
        change = f"one person can change it by {float(query_sensitivity * abs(question.unit)):g}"
        rows.append(
            QueryExplanation(
                name, question.sql, change, tuple(errors), known, explain_cube(account.context, question.query)
            )
        )
    return rows


def _shift_octaves(precision: Precision, octaves: int) -> Precision:
    """Multiplies by a power of two and rounds to the ladder of precisions."""
    units = precision.units << octaves if octaves >= 0 else precision.units >> -octaves
    return floor_to_ladder(Precision(units))
