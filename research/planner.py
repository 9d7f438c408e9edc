"""`python -m research planner`: how far a budget goes, beside what is possible."""

from __future__ import annotations

import click

from noisebank.cli.options import handle_errors, json_option


@click.command("planner")
@click.option("--pool", metavar="AxBxC", help="One pool: numbers of keys, e.g. 2x3x5.")
@click.option("--quick", is_flag=True, help="Small pools, few orders.")
@json_option
@handle_errors
def planner(pool: str | None, quick: bool, as_json: bool) -> None:
    """What the planner pays for pools of questions, ranges and prefixes, and what it takes.

    Example:  python -m research planner --pool 2x3x5 --quick --json
    """
    from noisebank.cli import render
    from research.benches.planner import bench_planner

    with render.show_progress("planning", quiet=as_json) as moved:
        found = bench_planner(pool, quick, moved)
    render.show_json(found) if as_json else render.show_facts("The planner", [(k, str(v)) for k, v in found.items()])
