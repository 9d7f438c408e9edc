"""bench reuse, bench planner: what inference saves, and what it takes."""

from __future__ import annotations

import click

from noisebank.commands.options import as_json, guarded


@click.command("reuse")
@click.option(
    "--workload",
    type=click.Choice(["range", "adult", "nettrace", "searchlogs", "marginals"]),
    default="range",
    show_default=True,
    help="Which questions; adult, nettrace and searchlogs are read from NOISEBANK_DATA, or made up in their shape.",
)
@click.option("--cells", type=click.IntRange(1, 2**20), default=1024, show_default=True, help="Of the workload range.")
@click.option("--queries", type=click.IntRange(1), default=3000, show_default=True, help="How many are asked.")
@click.option("--seed", type=int, default=0, show_default=True, help="Of questions and simulated noise.")
@as_json
@guarded
def reuse(workload: str, cells: int, queries: int, seed: int, as_json: bool) -> None:
    """Questions that a budget answers: naively, with plain reuse, with inference.

    Example:  noisebank bench reuse --workload range --cells 1024 --json
    """
    from noisebank import console
    from noisebank.experiments.bayes_shown import show_reuse
    from noisebank.experiments.bench_reuse import bench_reuse

    with console.progress("asking", quiet=as_json) as moved:
        found = bench_reuse(workload, cells, queries, seed, moved)
    console.show_json(found) if as_json else show_reuse(found)


@click.command("planner")
@click.option("--quick", is_flag=True, help="A tenth of the questions.")
@as_json
@guarded
def planner(quick: bool, as_json: bool) -> None:
    """Milliseconds and memory of the inference planner, by number of cells.

    Example:  noisebank bench planner --json
    """
    from noisebank import console
    from noisebank.experiments.bayes_shown import show_planner
    from noisebank.experiments.bench_planner import bench_planner

    with console.progress("planning", quiet=as_json) as moved:
        found = bench_planner(quick, moved)
    console.show_json(found) if as_json else show_planner(found)
