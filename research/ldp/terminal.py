"""Chapter 3 of the thesis on the terminal."""

from __future__ import annotations

from typing import Any

from rich.table import Table

from noisebank.cli.render import out, print_line, show_facts


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
    show_facts("Crossovers (epsilon)", [(name, f"{value:.4f}") for name, value in plain["crossovers"].items()])
    show_facts("Not always best", [(name, str(value)) for name, value in plain["not_always_best"].items()])
    show_facts("A sweep of epsilon", [(name, str(value)) for name, value in plain["best_sweep"].items()])
    for path in plain["charts"]:
        print_line(f"drawn: {path}")
