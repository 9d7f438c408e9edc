"""`python -m research planner`: how far a budget goes, beside what is possible."""

from __future__ import annotations

import click

from noisebank.cli.options import handle_errors, json_option

PARTS = ("pools", "values", "histories", "ranges", "time", "memory", "bank", "coverage")


@click.command("planner")
@click.option("--pool", metavar="AxBxC", help="One pool: numbers of keys, e.g. 2x3x5.")
@click.option("--quick", is_flag=True, help="Small pools, few orders.")
@click.option("--part", "parts", multiple=True, type=click.Choice(PARTS), help="Only this part; may be repeated.")
@json_option
@handle_errors
def planner(pool: str | None, quick: bool, parts: tuple[str, ...], as_json: bool) -> None:
    """What the planner pays for pools of questions, ranges and prefixes, and what it takes.

    Example:  python -m research planner --pool 2x3x5 --quick --json
    """
    from noisebank.cli import render
    from research.benches.planner import bench_planner

    with render.show_progress("planning", quiet=as_json) as moved:
        found = bench_planner(pool, quick, moved, parts)
    render.show_json(found) if as_json else render.show_facts("The planner", [(k, str(v)) for k, v in found.items()])
