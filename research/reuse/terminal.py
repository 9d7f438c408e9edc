"""Table II of the reuse paper on the terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.table import Table

from noisebank.cli.render import out

if TYPE_CHECKING:
    from research.reuse.table2 import Table2


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
