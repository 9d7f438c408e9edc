"""`reproduce fedsgd` on the terminal."""

from __future__ import annotations

from typing import Any

from rich.table import Table

from noisebank.cli.render import out, print_line, show_facts
from research.fedsgd.runs import NONE


def show_fedsgd(plain: dict[str, Any]) -> None:
    """Accuracies beside the reference, then each figure's numbers."""
    show_facts("Tables", [(name, f"{row['title']} ({row['source']})") for name, row in plain["tables"].items()])
    reference = plain["reference"]
    shown = Table(title=f"{reference['what']}: {reference['table']}, {reference['seeds']} splits", title_justify="left")
    shown.add_column("mechanism", no_wrap=True)
    for epsilon in reference["by epsilon"]:
        shown.add_column(epsilon, justify="right")
    for name in next(iter(reference["by epsilon"].values())):
        cells = (rows[name] for rows in reference["by epsilon"].values())
        shown.add_row(name, *(f"{c['mean']:.3f}{' !' if c['within'] is False else ''}" for c in cells))
    out.print(shown)
    print_line(f"without noise {reference[NONE]['mean']:.4f}; within the reference's ranges: {reference['within']}")
    for title, tables in plain["figures"].items():
        if "outputs, epsilon" in title or "by number" in title:
            continue  # in --json, and on the charts
        for name, rows in tables.items():
            _figure(f"Figure {title}: {name} (without noise {rows[NONE]['mean']:.4g})", rows)
    show_facts(plain["laplace in words"], [(name, f"{row['laplace']:.3f} against {row['worst of the others']:.3f}: "
                                        f"{'yes' if row['clearly worse'] else 'no'}")
                                       for name, row in plain["laplace"].items()])  # fmt: skip
    print_line(f"{plain['runs']}; {plain['seconds']:g} seconds")
    for path in plain["charts"]:
        print_line(f"drawn: {path}")


def _figure(title: str, rows: dict[str, Any]) -> None:
    table = Table(title=title, title_justify="left")
    table.add_column("mechanism", no_wrap=True)
    named = {name: row for name, row in rows.items() if name != NONE}
    for epsilon in next(iter(named.values())):
        table.add_column(epsilon, justify="right")
    for name, row in named.items():
        table.add_row(name, *(f"{cell['mean']:.4g} ± {cell['spread']:.2g}" for cell in row.values()))
    out.print(table)
