"""Prints the result of `noisebank demo` on the terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from noisebank.cli.render import out, show_facts, show_report

if TYPE_CHECKING:
    from noisebank.demo.survey_demo import Demonstration


def show_demo(demo: Demonstration) -> None:
    """Print the result on one screen."""
    plain = demo.to_json()
    rows = [
        ("answered", f"{plain['answered']} of {plain['queries']} requests, {plain['data_accesses']} looks at the data"),
        ("cases", ", ".join(f"{name} {count}" for name, count in demo.case_counts.items())),
        ("epsilon, paper's formula", f"{demo.bank_curve[-1]:.3f} instead of {demo.naive_curve[-1]:.3f} "
                                     f"({demo.epsilon_saving:.1%} less)"),
        ("epsilon, exact", f"{demo.epsilon_exact:.3f} instead of {demo.epsilon_naive_exact:.3f}"),
        ("budget", f"epsilon {demo.budget_epsilon:g} at delta 1e-4; "
                   f"{demo.left} of {demo.spent + demo.left} precision left"),
        ("error", f"{demo.rms_error:.2f} of the promised standard deviation (root mean square), "
                  f"{demo.relative_error:.1%} relative; answers share noise, so .5 to 1.6 is usual"),
        ("written", f"{demo.folder}: table, policy, bank, journal.jsonl, spending.png, spending.svg"),
    ]  # fmt: skip
    show_facts(f"{plain['queries']} requests over five queries in {demo.seconds:.1f} s", rows)
    out.print()
    show_report(demo.report)
