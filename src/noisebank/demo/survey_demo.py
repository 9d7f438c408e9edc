"""`noisebank demo`: 150 random requests over five queries, as in Figure 5 of the reuse paper (`run_demonstration`)."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from math import sqrt
from pathlib import Path
from typing import Any

from noisebank.account.account import Account
from noisebank.account.statement import make_openings
from noisebank.bank.bank import Bank, create_bank
from noisebank.core.entropy import workload_rng
from noisebank.core.records import Case
from noisebank.core.result import Result
from noisebank.core.units import ZERO_PRECISION, Precision
from noisebank.core.wording import budget_share
from noisebank.demo.survey import write_survey
from noisebank.privacy.calibration import account_epsilon, classical_epsilon
from noisebank.verifier.verification import Report, verify

REQUEST_COUNT = 150
DEMO_SEED = 5
"""A typical one of the seeds 0 to 6, which gave 15 to 28 data accesses and savings of .69 to .72."""
Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class Demonstration:
    """Result of the demonstration."""

    folder: Path
    answers: tuple[Result, ...]
    naive_curve: tuple[float, ...]
    bank_curve: tuple[float, ...]
    """Epsilon spent after each request, by the paper's formula."""
    plain_shares: tuple[float, ...]
    spent_shares: tuple[float, ...]
    """Shares of the budget after each request: paid for one by one, and as it was."""
    epsilon_exact: float
    epsilon_naive_exact: float
    budget_epsilon: float
    delta: float
    spent: Precision
    left: Precision
    naive: Precision
    """What would have been spent without reuse."""
    data_accesses: int
    rms_error: float
    """Root mean square of error / promised standard deviation: near 1."""
    relative_error: float
    truths: Mapping[str, float]
    """The true values by SQL, which only a demonstration on invented people may show."""
    report: Report
    seconds: float

    @property
    def case_counts(self) -> dict[str, int]:
        """Number of requests by case."""
        counts = Counter(answer.case for answer in self.answers)
        return {case.name: counts[case] for case in Case}

    @property
    def best_answers(self) -> dict[str, Result]:
        """The most precise answer to each query, by its SQL."""
        return {answer.sql: answer for answer in sorted(self.answers, key=lambda answer: -answer.stddev)}

    @property
    def epsilon_saving(self) -> float:
        """Share of epsilon saved, by the paper's formula."""
        return 1.0 - self.bank_curve[-1] / self.naive_curve[-1]

    def to_json(self) -> dict[str, Any]:
        """Return the result as the JSON object of --json."""
        return {
            "queries": REQUEST_COUNT,
            "answered": len(self.answers),
            "epsilon_paper": round(self.bank_curve[-1], 6),
            "epsilon_naive_paper": round(self.naive_curve[-1], 6),
            "saving": round(self.epsilon_saving, 4),
            "epsilon_exact": round(self.epsilon_exact, 6),
            "epsilon_naive_exact": round(self.epsilon_naive_exact, 6),
            "cases": self.case_counts,
            "data_accesses": self.data_accesses,
            "remaining_epsilon": round(self.budget_epsilon - self.epsilon_exact, 6),
            "remaining_precision": float(self.left),
            "rms_error": round(self.rms_error, 4),
            "relative_error": round(self.relative_error, 6),
            "verified": self.report.passed,
            "level": self.report.level,
            "folder": str(self.folder),
            "seconds": round(self.seconds, 2),
        }


def find_free_folder(folder: Path) -> Path:
    """Return `folder`, or the first numbered neighbour that does not exist yet: nothing is overwritten."""
    candidate, number = folder, 2
    while candidate.exists():
        candidate, number = folder.with_name(f"{folder.name}-{number}"), number + 1
    return candidate


def run_demonstration(
    folder: Path, seed: int = DEMO_SEED, progress: Progress = lambda done, total: None
) -> Demonstration:
    """Create table, bank and account in `folder`, ask all requests, verify the journal, draw the chart."""
    started = time.perf_counter()
    policy = write_survey(folder, seed)
    create_bank(folder / "bank")
    with Bank(folder / "bank") as bank:
        account = bank.open_account(policy)
        answers, naive_amounts, spent_amounts = _ask_requests(account, seed, progress)
        naive, budget = naive_amounts[-1], account.state.budget
        truths = {answer.sql: _compute_truth(account, answer.sql) for answer in answers}
        errors = [(answer.value - truths[answer.sql]) / answer.stddev for answer in answers]
        relative = [abs(answer.value - truths[answer.sql]) / abs(truths[answer.sql]) for answer in answers]
        (folder / "journal.jsonl").write_text("\n".join(bank.export()) + "\n")
        report = verify(folder / "journal.jsonl", head=bank.head().digest.hex(), openings=[make_openings(account)])
        state, delta = account.state, account.context.policy.delta
        demo = Demonstration(
            folder=folder,
            answers=answers,
            naive_curve=tuple(classical_epsilon(amount, delta) for amount in naive_amounts),
            bank_curve=tuple(classical_epsilon(amount, delta) for amount in spent_amounts),
            plain_shares=tuple(budget_share(amount, budget) for amount in naive_amounts),
            spent_shares=tuple(budget_share(amount, budget) for amount in spent_amounts),
            epsilon_exact=float(account_epsilon(state.spent, delta)),
            epsilon_naive_exact=float(account_epsilon(naive, delta)),
            budget_epsilon=float(account.context.policy.epsilon),
            delta=float(delta),
            spent=state.spent,
            left=state.remaining_budget,
            naive=naive,
            data_accesses=state.measurements,
            rms_error=sqrt(sum(error * error for error in errors) / len(errors)),
            relative_error=sum(relative) / len(relative),
            truths=truths,
            report=report,
            seconds=time.perf_counter() - started,
        )
    draw_chart(demo)
    return demo


def _ask_requests(
    account: Account, seed: int, progress: Progress
) -> tuple[tuple[Result, ...], list[Precision], list[Precision]]:
    """Ask the requests; return the answers, and after each what it is one by one, and what is spent.

    The paper's set-up: queries uniform, epsilon ~ U[.1, 1.1], delta ~ U[1e-5, 1e-4], classical calibration.
    """
    random = workload_rng(seed + 1)
    names = list(account.context.policy.queries)
    answers, naive_amounts, spent_amounts, naive = [], [], [], ZERO_PRECISION
    for number in range(REQUEST_COUNT):
        answer = account.ask(
            random.choice(names),
            epsilon=round(random.uniform(0.1, 1.1), 6),
            delta=round(random.uniform(1e-5, 1e-4), 9),
            calibration="classical",
            key=f"demo {number}",
        )
        answers.append(answer)
        naive += answer.parts[0].target
        naive_amounts.append(naive)
        spent_amounts.append(account.state.spent)
        progress(number + 1, REQUEST_COUNT)
    return tuple(answers), naive_amounts, spent_amounts


def _compute_truth(account: Account, sql: str) -> float:
    """Return the true value. Only a demonstration on synthetic people may look at it."""
    question = account.parse(sql)
    return float(Fraction(account.engine.statistic(question.query)) * question.unit)


def draw_chart(demo: Demonstration) -> None:
    """Draw the share of the budget that is spent after each request, with and without reuse, as PNG and SVG."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 4.8), layout="constrained")
    axes = figure.subplots()
    requests = range(1, REQUEST_COUNT + 1)
    plain, spent = ([100 * share for share in shares] for shares in (demo.plain_shares, demo.spent_shares))
    axes.fill_between(requests, spent, plain, color="#D55E00", alpha=0.08, linewidth=0)
    axes.plot(requests, plain, color="#D55E00", linewidth=2)
    axes.plot(requests, spent, color="#0072B2", linewidth=2)
    axes.axhline(100, color="#444444", linestyle="--", linewidth=1)
    axes.text(2, 101.5, f"budget: epsilon {demo.budget_epsilon:g}", color="#444444")
    end, saved = REQUEST_COUNT, demo.plain_shares[-1] - demo.spent_shares[-1]
    one_by_one = f"every answer paid anew: {plain[-1]:.0f}% (epsilon {demo.naive_curve[-1]:.2f})"
    as_it_was = f"spent: {spent[-1]:.1f}% (epsilon {demo.bank_curve[-1]:.2f})"
    left = end // 2  # above the curve, which rises
    axes.text(left, plain[left] + 4, one_by_one, color="#D55E00", ha="right")
    axes.text(end - 2, spent[-1] + 2.5, as_it_was, color="#0072B2", ha="right")
    axes.text(end - 2, (plain[-1] + spent[-1]) / 2 - 8, f"saved so far: {saved:.0%} of the budget", ha="right")
    axes.set_title(f"{REQUEST_COUNT} requests, answered for {spent[-1]:.1f}% of the budget", loc="left")
    axes.set_xlabel("requests answered (5 queries, noise levels at random)")
    axes.set_ylabel("percent of the budget")
    axes.set_xlim(0, REQUEST_COUNT + 1)
    axes.set_ylim(0, max(100.0, plain[-1]) * 1.12)
    axes.spines[["top", "right"]].set_visible(False)
    for kind in ("png", "svg"):
        figure.savefig(demo.folder / f"spending.{kind}", dpi=150)
