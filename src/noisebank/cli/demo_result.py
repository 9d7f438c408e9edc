"""Prints the result of `noisebank demo` on the terminal: a few answers, what they cost, and what to try next."""

from __future__ import annotations

import shlex
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from rich.table import Table

from noisebank.cli.render import out, print_line, show_facts, show_report
from noisebank.core.wording import budget_share, describe_balance, format_number, format_percent

if TYPE_CHECKING:
    from noisebank.demo.survey_demo import Demonstration


def show_demo(demo: Demonstration) -> None:
    """Prints the result on one screen, and three commands for the bank that was made."""
    counts, budget = demo.case_counts, demo.spent + demo.left
    table = Table(title=f"{len(demo.answers)} questions about 5,000 invented people", title_justify="left")
    for heading in ("question", "best answer (95%)", "truth"):
        table.add_column(heading, justify="left" if heading == "question" else "right")
    for sql, answer in sorted(demo.best_answers.items()):
        error = answer.interval()[1] - answer.value
        value = f"{format_number(answer.value, error)} ± {format_number(error, error)}"
        table.add_row(sql, value, format_number(demo.truths[sql], error))
    out.print(table)
    naive_share = format_percent(budget_share(demo.naive, budget))
    saved_share = format_percent(demo.plain_shares[-1] - demo.spent_shares[-1])
    reused = counts["REPEAT"] + counts["BLUR"] + counts["INFER"]
    rows = [
        ("answers", f"{len(demo.answers)} in {demo.seconds:.0f} s; {demo.data_accesses} looked at the data, "
                    f"{reused} reused an earlier answer and were free"),
        ("budget", describe_balance(demo.spent, budget, demo.budget_epsilon, demo.delta)),
        ("saved so far", f"{saved_share} of the budget: paying for every answer anew would have taken {naive_share} "
                         f"(epsilon {demo.naive_curve[-1]:.2f} instead of {demo.bank_curve[-1]:.2f}, by the paper's "
                         "formula)"),
        *([("books", f"verified: {demo.report.blocks} signed blocks, every charge recomputed")]
          if demo.report.passed else []),
        ("written", f"{demo.folder}: survey.csv, its policy survey.toml, bank, journal.jsonl, spending.png"),
    ]  # fmt: skip
    show_facts("", rows)
    if not demo.report.passed:
        show_report(demo.report)
        return
    print_line("\nTry next, with the bank that was made:")
    for command in next_commands(demo.folder):
        print_line(f"  {command}")


def next_commands(folder: Path) -> list[str]:
    """Returns three command lines that work where this one did: a new question, the statement, the verifier."""
    program, bank = _program_words(), shlex.quote(str(folder / "bank"))
    return [
        f'{program} ask "SELECT COUNT(*) FROM survey WHERE age < 18" --within 40 --bank {bank}',
        f"{program} statement --last 5 --bank {bank}",
        f"{program} verify {bank}",
    ]


def _program_words() -> str:
    """Returns how to start this program again from the same shell: `noisebank` only if that is what a shell finds."""
    started = Path(sys.argv[0])
    if started.name != "noisebank":
        return f"{shlex.quote(sys.executable)} -m noisebank"
    on_path = shutil.which("noisebank")
    return "noisebank" if on_path and Path(on_path).resolve() == started.resolve() else shlex.quote(str(started))
