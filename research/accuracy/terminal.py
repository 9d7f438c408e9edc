"""The accuracy-driven paper (P3) on the terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.table import Table

from noisebank.cli.render import out, print_line, show_facts

if TYPE_CHECKING:
    from research.accuracy.opu import Opu


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
    print_line(f"Rounding targets up to powers of two adds this much precision: {surcharges}")
    print_line("The leak: what P3 publishes, and the count that follows from it")
    show_facts(
        "", [(f"count {leak.count}", f"epsilon {leak.published:.4f} -> {leak.recovered:.2f}") for leak in made.leak]
    )
    for note in made.notes:
        print_line(f"- {note}", "dim")


def _by_default(title: str, functions: list[str], cells: dict[tuple[float, str], str]) -> None:
    """A table with a row for each default epsilon."""
    table = Table(title=title, title_justify="left")
    for name in ("eps_def", *functions):
        table.add_column(name, justify="right")
    for default in dict.fromkeys(default for default, _ in cells):
        table.add_row(f"{default:g}", *(cells[default, function] for function in functions))
    out.print(table)
