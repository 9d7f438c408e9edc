"""Prints the result of `noisebank demo` on the terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from noisebank.cli.render import facts, out, show_report

if TYPE_CHECKING:
    from noisebank.demo.survey_demo import Demonstration


def show_demo(shown: Demonstration) -> None:
    """Print the result on one screen."""
    plain = shown.plain()
    rows = [
        ("answered", f"{plain['answered']} of {plain['queries']} requests, {plain['data_accesses']} looks at the data"),
        ("cases", ", ".join(f"{name} {count}" for name, count in shown.cases.items())),
        ("epsilon, paper's formula", f"{shown.bank_curve[-1]:.3f} instead of {shown.naive_curve[-1]:.3f} "
                                     f"({shown.saving:.1%} less)"),
        ("epsilon, exact", f"{shown.epsilon_exact:.3f} instead of {shown.epsilon_naive_exact:.3f}"),
        ("budget", f"epsilon {shown.budget_epsilon:g} at delta 1e-4; "
                   f"{shown.left} of {shown.spent + shown.left} precision left"),
        ("error", f"{shown.rms_error:.2f} of the promised standard deviation (root mean square), "
                  f"{shown.relative_error:.1%} relative; answers share noise, so .5 to 1.6 is usual"),
        ("written", f"{shown.folder}: table, policy, bank, journal.jsonl, spending.png, spending.svg"),
    ]  # fmt: skip
    facts(f"{plain['queries']} requests over five queries in {shown.seconds:.1f} s", rows)
    out.print()
    show_report(shown.report)
