"""P1's reproduction, reuse and the planner's speed on the terminal."""

from __future__ import annotations

from typing import Any

from rich.table import Table

from noisebank.cli.render import out, print_line, show_facts


def show_bayes(found: dict[str, Any]) -> None:
    """The running example, section 5, and the bank's planner on section 5.4."""
    example = found["example"]
    known = example["posterior"]
    show_facts("Running example (equations 10 to 44)", [
        ("variances of the observations", ", ".join(f"{one:g}" for one in example["observation_variances"])),
        ("posterior", f"mean {known['mean']}, mode {known['mode']}, 80% in [{known['low']}, {known['high']}]"),
        ("a fresh answer", f"alpha {example['alpha']}; largest cell then {max(example['spent_by_cell'])}"),
        ("variance", f"greedy representations {example['greedy_variance']}, least squares "
                     f"{example['least_squares_variance']}"),
    ])  # fmt: skip
    table = Table(title="Section 5, 1,000 requests", title_justify="left")
    for name in ("setting", "cells", "runs", "spent", "answered", "inside", "error", "inferred"):
        table.add_column(name, justify="left" if name == "setting" else "right")
    for name, row in found["section_5"].items():
        table.add_row(name, *(str(value) for value in row.values()))
    out.print(table)
    for name, row in found["planner_on_5.4"].items():
        show_facts(f"Answered of section 5.4 with Gaussian noise, {name.replace('_', ' ')}", [
            (way.replace("_", " "), f"{share:.1%}") for way, share in row.items()
        ])  # fmt: skip
    for note in found["notes"]:
        print_line(f"- {note}", "dim")


def show_reuse(found: dict[str, Any]) -> None:
    """How many requests each way answers."""
    print_line(f"{found['workload']}: {found['source']}; {found['cells']:,} cells, {found['queries']:,} requests")
    table = Table(title="Answered", title_justify="left")
    for name in (
        "epsilon",
        "naive",
        "per type",
        "naive, by cells",
        "per type, by cells",
        "inference",
        "spent",
        "error",
    ):
        table.add_column(name, justify="right")
    for row in found["budgets"]:
        detail = row["inference_detail"]
        table.add_row(
            f"{row['budget']['epsilon']:g}", *(str(row[key]) for key in WAYS),
            f"{detail['spent']:.0%}", f"{detail['error_of_wanted']:.2f} of promised",
        )  # fmt: skip
    out.print(table)


WAYS = ("naive", "per_type", "naive_by_cells", "per_type_by_cells", "inference")
