"""Demonstrations and reproductions on the terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich.table import Table

from noisebank.console import facts, out, say, show_report

if TYPE_CHECKING:
    from noisebank.experiments.demo import Demonstration
    from noisebank.experiments.opu import Opu
    from noisebank.experiments.table2 import Table2


def show_demo(shown: Demonstration) -> None:
    """The demonstration in one screen."""
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


def show_table2(table: Table2) -> None:
    """Table II of the reuse paper."""
    shown = Table(
        title=f"Table II: {table.cumulative[-1]} precision spent, {table.naive} without reuse", title_justify="left"
    )
    for name in ("query", "type", "sigma", "case", "reuses", "spent so far"):
        shown.add_column(name, justify="right")
    for number, row in enumerate(
        zip(table.types, table.sigmas, table.cases, table.reuses, table.cumulative, strict=True), 1
    ):
        kind, sigma, case, reuses, spent = row
        shown.add_row(f"Q{number}", str(kind), sigma, case, reuses or "-", f"{spent:.6f}")
    out.print(shown)


def show_opu(made: Opu) -> None:
    """The accuracy-driven paper: its tables, its leak, and honest prices beside it."""
    functions = list(dict.fromkeys(row.function for row in made.table2))
    budgets = {
        "OPU": {(row.eps_def, row.function): f"{row.opu:.2f} ({row.opu_paper:.2f})" for row in made.table2},
        "BST": {(row.eps_def, row.function): f"{row.bst:.2f} ({row.bst_paper:.2f})" for row in made.table2},
        "standard": {
            (row.eps_def, row.function): f"{row.standard:.2f} ({row.standard_paper:.2f})" for row in made.table2
        },
    }
    for scheme, cells in budgets.items():
        _by_default(f"Table II, {scheme}: total epsilon here (and printed)", functions, cells)
    for eta in dict.fromkeys(row.eta for row in made.table3):
        satisfied = {
            (row.eps_def, row.function): f"{row.drawn[0]}-{row.drawn[1]} ({row.paper})"
            for row in made.table3
            if row.eta == eta
        }
        _by_default(f"Table III, eta {eta:g}: satisfied users here (and printed)", functions, satisfied)
    prices = Table(
        title=f"Epsilon of ten queries; sound: delta 1e-6, beta .05, {made.runs:,} runs", title_justify="left"
    )
    for name in ("truth", "flat", "BST", "unsound", "oracle", "sound", "on ladder", "covers", "x oracle"):
        prices.add_column(name, justify="right")
    for row in made.comparison:
        prices.add_row(
            f"{row.truth:g}", f"{row.flat:.2f}", f"{row.bst:.2f}", f"{row.unsound:.2f}", f"{row.oracle:.3f}",
            f"{row.sound.epsilon:.3f}", f"{row.product.epsilon:.3f}", f"{row.sound.coverage_least:.3f}",
            f"{row.sound.ratio_mean:.2f}",
        )  # fmt: skip
    out.print(prices)
    surcharges = ", ".join(f"{row.surcharge:.0%} at {row.truth:g}" for row in made.comparison)
    say(f"Rounding targets up to powers of two adds this much precision: {surcharges}")
    say("The leak: what P3 publishes, and the count that follows from it")
    facts("", [(f"count {leak.count}", f"epsilon {leak.published:.4f} -> {leak.recovered:.2f}") for leak in made.leak])
    for note in made.notes:
        say(f"- {note}", "dim")


def _by_default(title: str, functions: list[str], cells: dict[tuple[float, str], str]) -> None:
    """A table with a row for each default epsilon."""
    table = Table(title=title, title_justify="left")
    for name in ("eps_def", *functions):
        table.add_column(name, justify="right")
    for default in dict.fromkeys(default for default, _ in cells):
        table.add_row(f"{default:g}", *(cells[default, function] for function in functions))
    out.print(table)


def show_ldp(plain: dict[str, Any]) -> None:
    """Local mechanisms: worst-case variances, crossovers, and how `best` compares."""
    variances = plain["worst_variances"]
    table = Table(title="Worst-case variance of one number in [-1, 1], by epsilon", title_justify="left")
    table.add_column("mechanism", no_wrap=True)
    for epsilon in variances:
        table.add_column(epsilon, justify="right")
    for name in next(iter(variances.values())):
        table.add_row(name, *(f"{row[name]:.4g}" for row in variances.values()))
    out.print(table)
    facts("Crossovers (epsilon)", [(name, f"{value:.4f}") for name, value in plain["crossovers"].items()])
    facts("Not always best", [(name, str(value)) for name, value in plain["not_always_best"].items()])
    facts("A sweep of epsilon", [(name, str(value)) for name, value in plain["best_sweep"].items()])
    for path in plain["charts"]:
        say(f"drawn: {path}")
