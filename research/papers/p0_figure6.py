"""P0, Figure 6: relative errors of 150 answers, with and without reuse."""

from __future__ import annotations

from bisect import insort
from fractions import Fraction
from math import sqrt
from typing import Any

import numpy as np

from noisebank.core.entropy import Entropy
from noisebank.core.records import BridgePoint, Case
from noisebank.core.units import GridValue
from noisebank.planning.reuse import Plan, bridge_law, refine_answer
from noisebank.privacy.noise import NormalLaw, fresh_variance
from noisebank.privacy.noise import draw_value as drawn_from
from noisebank.queries.query import Question
from research.papers.charts import BLUE, ORANGE, dress, figure, headline
from research.papers.exhibit import Exhibit, Found, Moved, Number
from research.papers.p0_requests import NAMES, planned_requests
from research.papers.seeded import SeededEntropy, survey_account

STEP = 5
"""Every fifth request goes into the chart."""


class Known:
    """The released answers to one query, and its next one: the bank's own laws with repeatable noise."""

    def __init__(self, truth: Fraction, sensitivity: Fraction) -> None:
        self.truth, self.sensitivity = truth, sensitivity
        self.points: list[BridgePoint] = []

    def answer(self, planned: Plan, entropy: Entropy) -> GridValue:
        """As `steps` makes it, without ledger and vault."""
        if planned.case is Case.REPEAT:
            return next(point.value for point in self.points if point.precision == planned.target)
        if planned.case is Case.BLUR:
            same = [point.value for point in self.points if point.precision == planned.target]
            value = same[0] if same else drawn_from(bridge_law(planned.target, self.sensitivity, self.points), entropy)
        else:
            square = self.sensitivity * self.sensitivity
            value = drawn_from(NormalLaw(self.truth, fresh_variance(square, planned.fresh_precision)), entropy)
            if planned.case is Case.REFINE:
                value = refine_answer(planned.target, value, self.points[-1])
        insort(self.points, BridgePoint(planned.target, value), key=lambda point: point.precision)
        return value

    def anew(self, planned: Plan, entropy: Entropy) -> GridValue:
        """The naive scheme: as wanted, whatever is known."""
        square = self.sensitivity * self.sensitivity
        return drawn_from(NormalLaw(self.truth, fresh_variance(square, planned.target)), entropy)


def run(quick: bool, moved: Moved) -> Found:
    """Both schemes on the same requests; and one whole bank, whose errors are what its own laws say."""
    seeds = 40 if quick else 300
    with survey_account(0) as account:
        questions = [account.parse(name) for name in NAMES]
        truths = [Fraction(account.engine.statistic(question.query)) for question in questions]
        moves = [account.context.sensitivity_of(question.query) for question in questions]
    sums: dict[str, list[list[float]]] = {"bank": [], "naive": []}
    stated: dict[str, list[float]] = {"bank": [], "naive": []}
    for seed in range(seeds):
        for way, errors in _both(seed, questions, truths, moves).items():
            sums[way].append(np.cumsum([relative for relative, _ in errors])[STEP - 1 :: STEP].tolist())
            stated[way] += [error for _, error in errors]
        moved(seed + 1, seeds)
    found: Found = {"seeds": seeds, "requests": list(range(STEP, 151, STEP))}
    for way, rows in sums.items():
        ends = np.array(rows)[:, -1]
        found[way] = {
            "sum_of_relative_errors": [float(ends.mean()), *(float(one) for one in np.quantile(ends, (0.05, 0.95)))],
            "scatter_of_sum": float(ends.std()),
            "error_over_promised": float(np.sqrt(np.mean(np.square(stated[way])))),
            "outside_two_sigma": float(np.mean(np.abs(stated[way]) > 2)),
            "curve": [np.mean(rows, axis=0).tolist(), *np.quantile(rows, (0.05, 0.95), axis=0).tolist()],
        }
    bank, naive = (np.array(sums[way])[:, -1] for way in ("bank", "naive"))
    gap = float(bank.mean() - naive.mean()) / sqrt(float(bank.var() + naive.var()) / seeds)
    return {**found, "difference_in_standard_errors": gap}


def _both(
    seed: int, questions: list[Question], truths: list[Fraction], moves: list[Fraction]
) -> dict[str, list[tuple[float, float]]]:
    """Relative error, and error over the promised standard deviation, of each answer."""
    known = [Known(truth, move) for truth, move in zip(truths, moves, strict=True)]
    entropy, found = SeededEntropy(seed), dict[str, list[tuple[float, float]]](bank=[], naive=[])
    for kind, planned in planned_requests(seed):
        one = known[kind]
        promised = float(one.sensitivity) / sqrt(float(planned.target))
        for way, value in (("bank", one.answer(planned, entropy)), ("naive", one.anew(planned, entropy))):
            error = float(value.exact - one.truth)
            found[way].append((abs(error) / abs(float(one.truth)), error / promised))
    return found


def here(found: Found) -> str:
    """In words."""
    bank, naive = found["bank"], found["naive"]
    return (
        f"Sum of 150 relative errors: {bank['sum_of_relative_errors'][0]:.2f} with reuse, "
        f"{naive['sum_of_relative_errors'][0]:.2f} without ({found['difference_in_standard_errors']:+.1f} standard "
        "errors "
        f"apart, {found['seeds']} runs). Error over promised standard deviation, root mean square: "
        f"{bank['error_over_promised']:.3f} and {naive['error_over_promised']:.3f}. But with reuse the sum scatters "
        f"{bank['scatter_of_sum'] / naive['scatter_of_sum']:.1f} times as much from run to run."
    )


def numbers(found: Found) -> list[Number]:
    """Each answer has the promised law in both schemes; answers of a run share noise, so a run counts once."""
    scatter = 4 / sqrt(found["seeds"] * 5)
    return [
        Number("difference of mean sums in standard errors", found["difference_in_standard_errors"], 0, 4),
        Number("error over promised, with reuse", found["bank"]["error_over_promised"], 1, scatter / 1.4),
        Number(
            "error over promised, naive", found["naive"]["error_over_promised"], 1, 4 / sqrt(2 * 150 * found["seeds"])
        ),
        Number("outside of 2 sigma, with reuse", found["bank"]["outside_two_sigma"], 0.0455, scatter * 0.21),
    ]


def draw(found: Found) -> Any:
    """Sums of relative errors."""
    drawn = figure(8.4, 4.8)
    ratio = found["bank"]["scatter_of_sum"] / found["naive"]["scatter_of_sum"]
    headline(
        drawn,
        f"Reuse costs no accuracy on average; one run's luck counts {ratio:.1f} times as much",
        f"Lines: mean of {found['seeds']} runs on a made-up survey of 5,000 people; bands: 5% to 95% of the runs.",
    )
    axes = dress(drawn.subplots(), "", "requests answered", "sum of relative errors so far")
    for way, colour, label in (("naive", ORANGE, "every answer with fresh noise"), ("bank", BLUE, "noisebank (reuse)")):
        mean, low, high = found[way]["curve"]
        axes.fill_between(found["requests"], low, high, color=colour, alpha=0.2, linewidth=0)
        axes.plot(
            found["requests"], mean, color=colour, linewidth=2, linestyle="-" if way == "bank" else "--", label=label
        )
    axes.set_xlim(0, 150)
    axes.set_ylim(0)
    axes.legend(frameon=False, loc="upper left")
    return drawn


EXHIBIT = Exhibit(
    name="p0-figure6",
    paper="P0",
    title="Figure 6: relative errors of 150 answers",
    printed="One run: the two sums of relative errors are comparable.",
    why="They are equal in distribution, answer by answer, as the theory says. What one run cannot show: reused "
    "answers share noise, so the sum of a run scatters more. The survey is made up in the shape of the "
    "paper's, whose extract cannot be had.",
    run=run,
    here=here,
    draw=draw,
    made_up=lambda found: "a survey of 5,000 people with the ranges that P0 prints",
    numbers=numbers,
)
