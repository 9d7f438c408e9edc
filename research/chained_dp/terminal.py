"""`reproduce chained` on the terminal."""

from __future__ import annotations

from typing import Any

from rich.table import Table

from noisebank.cli.render import out, print_line, show_facts


def show_chained(plain: dict[str, Any]) -> None:
    """Ours beside expected and printed; then the claims; then who is protected from whom."""
    table = Table(title="Ours, expected, and the paper's formula where it has one", title_justify="left")
    for name in ("number", "ours", "spread", "expected", "paper", "within"):
        table.add_column(name, justify="left" if name == "number" else "right")
    for name, row in _rows(plain):
        cells = (_short(row.get(key)) for key in ("ours", "spread", "expected", "paper"))
        table.add_row(name, *cells, "yes" if row["within"] else "NO")
    out.print(table)
    for claim in plain["claims"]:
        show_facts(claim["where"], [("claimed", claim["claimed"]), ("holds", claim["holds"]),
                               ("numbers", f"{_words(claim['paper'])} | {_words(claim['ours'])}")])  # fmt: skip
    repairs = plain["repairs"]
    schemes = [name for name, row in repairs.items() if isinstance(row, dict)]
    shown = Table(title=f"Epsilon of a whole vector, noise sized for {repairs['goal epsilon']}", title_justify="left")
    shown.add_column("learned by")
    for name in schemes:
        shown.add_column(f"{name} (mse {repairs[name]['mse']:.3g})", justify="right")
    for trust in repairs[schemes[0]]["epsilon"]:
        cells = (repairs[name]["epsilon"][trust] for name in schemes)
        shown.add_row(trust, *("the vector" if cell is None else f"{cell:.3g}" for cell in cells))
    out.print(shown)
    for name, row in plain["remedies"].items():
        show_facts(f"Remedy: {name}", [(key, _words(value)) for key, value in row.items()])
    for path in plain["charts"]:
        print_line(f"drawn: {path}")


def _rows(value: Any, name: str = "") -> list[tuple[str, dict[str, Any]]]:
    """Every number that has something to be compared with, by its path."""
    if not isinstance(value, dict):
        return []
    if "within" in value:
        return [(name, value)]
    parts = [(f"{name} {key}".strip(), part) for key, part in value.items()]
    return [row for path, part in parts for row in _rows(part, path)]


def _short(value: Any) -> str:
    return "" if value is None else f"{value:.4g}"


def _words(value: Any) -> str:
    return ", ".join(f"{key}: {part}" for key, part in value.items()) if isinstance(value, dict) else str(value)
