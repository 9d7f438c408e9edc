"""demo, reproduce: what the product can do, shown by the product itself."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from noisebank.commands.options import as_json, guarded


@click.command()
@click.option(
    "--folder",
    type=click.Path(path_type=Path),
    default=Path("noisebank-demo"),
    show_default=True,
    help="Where table, bank and charts go; a number is added if it exists.",
)
@click.option(
    "--seed", type=int, default=5, show_default=True, help="Of the made-up table and requests, not of the noise."
)
@as_json
@guarded
def demo(folder: Path, seed: int, as_json: bool) -> None:
    """Make a survey and a bank, ask 150 questions, verify the books.

    Example:  noisebank demo --folder /tmp/demo
    """
    from noisebank import console
    from noisebank.experiments.demo import demonstrate, free_folder
    from noisebank.experiments.shown import show_demo

    with console.progress("asking", quiet=as_json) as moved:
        shown = demonstrate(free_folder(folder), seed, moved)
    console.show_json(shown.plain()) if as_json else show_demo(shown)
    sys.exit(0 if shown.report.passed else 1)


@click.command()
@click.argument("name", type=click.Choice(["table2", "opu"]))
@click.option("--quick", is_flag=True, help="Fewer draws and runs.")
@as_json
@guarded
def reproduce(name: str, quick: bool, as_json: bool) -> None:
    """Reproduce a table of the papers through the product's own planner and contract.

    table2: reuse in four cases (P0, Table II). opu: the accuracy-driven paper (P3), its leak, and what
    an honest method costs.

    Example:  noisebank reproduce table2
    """
    from noisebank import console
    from noisebank.experiments import shown

    if name == "table2":
        from noisebank.experiments.table2 import table2

        table = table2()
        console.show_json(table.plain()) if as_json else shown.show_table2(table)
        return
    from noisebank.experiments.opu import opu

    with console.progress("simulating", quiet=as_json) as moved:
        made = opu(quick, moved)
    console.show_json(made.plain()) if as_json else shown.show_opu(made)
