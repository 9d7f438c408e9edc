"""Terminal output of quotes, results, statements and reports: rich tables, or JSON. Colours respect NO_COLOR."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from textwrap import wrap
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from noisebank.core.errors import Misuse, NoisebankError
from noisebank.core.rendering import result_text
from noisebank.core.units import Precision
from noisebank.core.wording import budget_share, describe_promise, describe_savings, describe_share, format_percent

if TYPE_CHECKING:
    from noisebank.account.price_curves import QueryExplanation
    from noisebank.bank.budget_explanation import BudgetExplanation
    from noisebank.core.quote import Quote
    from noisebank.core.result import Result
    from noisebank.core.statement import Statement, StatementEntry
    from noisebank.verifier.report import Report

MIN_VALUE_WIDTH = 20
"""Of values in a narrow terminal."""
out = Console(highlight=False, soft_wrap=True)
err = Console(stderr=True, highlight=False, soft_wrap=True)


def show_json(value: dict[str, Any]) -> None:
    """Prints one JSON object on standard output."""
    sys.stdout.write(json.dumps(value, default=_encode_value, indent=2, ensure_ascii=False) + "\n")
    sys.stdout.flush()  # a pipe's reader waits for the address of `serve`


def print_line(text: str, style: str = "") -> None:
    """Prints a line; square brackets are text, not markup."""
    out.print(text, style=style, markup=False)


def show_facts(title: str, rows: list[tuple[str, str]]) -> None:
    """Prints a small two-column table; square brackets in it are text, not markup.

    Long values continue on lines of their own, but a digest or a path stays whole: people copy it.
    """
    if title:
        print_line(title, style="italic")
    indent = max((len(name) for name, _ in rows), default=0) + 2
    width = max(MIN_VALUE_WIDTH, out.width - indent)
    for name, value in rows:
        for number, line in enumerate(wrap(value, width, break_long_words=False, break_on_hyphens=False) or [""]):
            label = "" if number else name
            out.print(f"[dim]{escape(label.ljust(indent))}[/dim]{escape(line)}")


@contextmanager
def show_progress(label: str, quiet: bool) -> Iterator[Callable[[int, int], None]]:
    """Shows a progress bar on standard error; a `total` of 0 means unknown."""
    if quiet:
        yield lambda done, total: None
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=err, transient=True) as bar:
        task = bar.add_task(label, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total or None)


def show_quote(quote: Quote) -> None:
    """Prints a quote: the share of the budget first."""
    show_facts(quote.sql, quote.describe_lines())


def show_result(result: Result) -> None:
    """Prints a result: its numbers with their intervals, then what they cost."""
    title, *lines = result_text(result).splitlines()
    out.print(escape(title), style="italic")
    for line in lines:
        print_line(line)


def show_curve(points: Sequence[Quote], chosen: Quote) -> None:
    """Prints a table of price against error, with bars."""
    title = "price against error at 95%, how much of the budget is spent after it, how many such new questions are left"
    table = Table(title=title, title_justify="left")
    for name in ("error", "case", "price", "of the budget", "left"):
        table.add_column(name, justify="left" if name == "case" else "right")
    table.add_column("")
    highest = max((float(point.cost) for point in points if point.affordable), default=0.0) or 1.0
    for point in points:
        bar = "█" * round(16 * float(point.cost) / highest) if point.affordable else "too dear"
        style = "bold" if point.target == chosen.target else ""
        error = f"± {point.interval_half_width() or 0.0:.4g}"
        table.add_row(
            error,
            point.case.name,
            str(point.cost),
            f"{point.share_after:.2%}",
            f"{point.how_many:,}",
            bar,
            style=style,
        )
    out.print(table)


def show_outcomes(questions: Sequence[str], outcomes: Sequence[Result | NoisebankError], as_json: bool) -> None:
    """Prints the outcome of each question: its result, or why there is none."""
    if as_json:
        show_json({"outcomes": [_outcome_to_json(outcome) for outcome in outcomes]})
        return
    for number, (question, outcome) in enumerate(zip(questions, outcomes, strict=True), 1):
        print_line(f"{number} of {len(questions)}", style="dim")
        if isinstance(outcome, NoisebankError):
            print_line(question, style="italic")
            print_line(f"{'error' if isinstance(outcome, Misuse) else 'refused'}: {outcome}", style="red")
        else:
            show_result(outcome)


def _outcome_to_json(outcome: Result | NoisebankError) -> dict[str, Any]:
    if isinstance(outcome, NoisebankError):
        return {"answer": None, "problem": {"error": outcome.kind, "message": str(outcome)}}
    return {"answer": outcome.to_json(), "problem": None}


def show_explanations(rows: Sequence[QueryExplanation], delta: float) -> None:
    """Prints the error at each epsilon, one block per query."""
    print_line(f"How far off (95%) is a first answer that spends this epsilon, at delta {delta:g}?")
    for row in rows:
        errors = "   ".join(f"{epsilon:g}:\u00a0±\u00a0{_format_number(error)}" for epsilon, error in row.errors)
        show_facts(
            row.name,
            [
                ("SQL", row.sql),
                ("sensitivity", row.sensitivity),
                ("error", errors),
                ("known", row.known),
                ("way", row.where),
            ],
        )


def show_budget_explanation(budget: BudgetExplanation) -> None:
    """Prints what a whole budget answers of a list of questions, one line per arrangement, then what would help."""
    accuracy = ", ".join(f"{name} {value}" for name, value in budget.accuracy.items())
    title = f"what a whole budget answers of these questions, each asked once ({accuracy})"
    table = Table(title=title, title_justify="left")
    for name in ("", "answered", "free", "of the budget", "for looks"):
        table.add_column(name, justify="right" if name else "left", overflow="fold")
    for row in budget.describe_rows():
        table.add_row(*(escape(cell) for cell in row))
    out.print(table)
    for sql, why in budget.refused:
        print_line(f"no budget answers {sql}: {why}")
    for line in budget.advice:
        print_line(f"would help: {line}")


def _describe_promise(statement: Statement) -> str:
    fixed = None if statement.raised or statement.lowered else statement.budget
    promise = describe_promise(statement.epsilon, statement.delta, fixed)
    if statement.raised:
        return f"{promise}, at every moment; the budget was raised after answers were given"
    if statement.lowered:
        return f"{promise}, of the budget before it was lowered: answers had been given"
    return f"{promise}, for the whole budget, whenever somebody looks"


def show_statement(statement: Statement, last: int) -> None:
    """Prints the balance, then the newest entries."""
    rows = [
        ("account", statement.account[:16]),
        ("budget", f"{format_percent(statement.share)} is spent, {format_percent(1 - statement.share)} left"),
        ("promise", _describe_promise(statement)),
        ("without reuse", f"{describe_share(statement.naive, statement.budget)} would have been spent"),
        ("saved so far", describe_savings(statement.saved, statement.looks, statement.returned, statement.budget)),
        ("measurements", f"{statement.measurements} of the data, for {sum(statement.cases.values())} answers"),
        ("cases", ", ".join(f"{case.name} {count}" for case, count in statement.cases.items())),
        ("changes", "; ".join(statement.changes)),
        ("on the ledger", f"{statement.spent} of {statement.budget} precision is spent, {statement.left} left"),
    ]
    show_facts(f"Statement of {statement.name}", rows)
    if not statement.entries or not last:
        return
    count = min(last, len(statement.entries))
    newest = "the newest entry" if count == 1 else f"newest {count} entries"
    table = Table(title=f"{newest}; cost and spent are shares of the budget", title_justify="left")
    for name in ("time", "analyst", "question", "case", "cost", "spent"):
        table.add_column(name, justify="right" if name in ("cost", "spent") else "left", overflow="fold")
    for entry in statement.entries[-last:]:
        when = datetime.fromtimestamp(entry.time, UTC).strftime("%Y-%m-%d %H:%M:%S")
        sql = entry.sql if entry.published else f"{entry.sql} (not published)"
        cost, spent = (format_percent(budget_share(amount, statement.budget)) for amount in (entry.cost, entry.spent))
        case = "LOOK" if entry.look else entry.case.name
        table.add_row(when, escape(entry.analyst), escape(sql), case, cost if entry.cost else "free", spent)
    out.print(table)


def statement_to_json(statement: Statement) -> dict[str, Any]:
    """Returns a JSON object, for --json."""
    return {
        "name": statement.name,
        "account": statement.account,
        "budget": statement.budget,
        "spent": statement.spent,
        "left": statement.left,
        "naive": statement.naive,
        "saved": statement.saved,
        "looks": statement.looks,
        "returned": statement.returned,
        "share": statement.share,
        "epsilon": statement.epsilon,
        "delta": statement.delta,
        "raised": statement.raised,
        "lowered": statement.lowered,
        "measurements": statement.measurements,
        "cases": {case.name: count for case, count in statement.cases.items()},
        "entries": [_entry_to_json(entry) for entry in statement.entries],
        "changes": statement.changes,
    }


def _entry_to_json(entry: StatementEntry) -> dict[str, Any]:
    return {
        "id": entry.id,
        "time": entry.time,
        "analyst": entry.analyst,
        "sql": entry.sql,
        "case": entry.case.name,
        "cost": entry.cost,
        "spent": entry.spent,
        "published": entry.published,
        "plain": entry.plain,
        "look": entry.look,
    }


def show_report(report: Report) -> None:
    """Prints the verifier's report."""
    if report.passed:
        out.print(f"[bold green]verified[/bold green]  {report.blocks} blocks, {report.transactions} transactions")
    else:
        out.print("[bold red]NOT VERIFIED[/bold red]", end="  ")
        print_line(report.problem)
    rows = [("head", report.head), ("records", report.level)]
    for account in report.accounts:
        cases = ", ".join(f"{name} {count}" for name, count in account.cases.items()) or "nothing asked"
        spent, budget = Precision(account.spent), Precision(account.budget)
        share = f"{describe_share(spent, budget)} is spent: {spent} of {budget} precision"
        rows.append((f"account {account.account[:12]}", f"{share} ({cases})"))
    show_facts("", rows)
    for title, lines in (
        ("proves", report.proves), ("compared with", report.compared_with), ("cannot see", report.cannot_see)
    ):  # fmt: skip
        for number, line in enumerate(lines):
            out.print(f"[dim]{title if not number else '':>14}[/dim]", end="  ")
            print_line(line)


def _format_number(number: float) -> str:
    return f"{number:,.0f}" if number >= 1000 else f"{number:.3g}"


def _encode_value(value: object) -> object:
    if isinstance(value, Precision):
        return {"units": value.units, "precision": float(value)}
    if hasattr(value, "name"):
        return value.name
    return str(value)
