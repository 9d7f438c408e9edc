"""`reproduce crowd` on the terminal."""

from __future__ import annotations

from typing import Any

from rich.markup import escape
from rich.table import Table

from noisebank.cli.render import out, print_line, show_facts


def show_crowd(plain: dict[str, Any]) -> None:
    """`reproduce crowd`: accuracies, sequences, attacks."""
    print_line(f"{plain['data']}: {plain['setting']}")
    table = Table(title="Test accuracy", title_justify="left")
    for name in ("", "clean features", "noisy features", "reference"):
        table.add_column(name, justify="left" if not name else "right")
    for name, row in plain["accuracies"].items():
        clean, noisy = plain["reference"][name]
        table.add_row(escape(name), f"{row['clean']:.3f}", f"{row['noisy']:.3f}", f"{clean:.3f} / {noisy:.3f}")
    out.print(table)
    for name, rows in plain["incentives"].items():
        show_facts(f"Figures 5.10, 5.11: {name}", [(key, str(value)) for key, value in rows.items()])
    show_facts("Attackers: 3 of 10", [(name, str(row)) for name, row in plain["attacks"].items()])
    for name, passed in plain["checks"].items():
        print_line(f"{'yes' if passed else 'NO '}  {name}")
