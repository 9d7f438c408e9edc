"""`bench`: how fast the parts are, as ratios in one run."""

from __future__ import annotations

import click

from noisebank.cli.options import handle_errors, json_option


@click.group("bench")
def bench() -> None:
    """Measure, as ratios in one run."""


@bench.command("local")
@json_option
@handle_errors
def measure_local(as_json: bool) -> None:
    """Values a second of each local mechanism, against plain Laplace sampling.

    Example:  python -m research bench local --json
    """
    from noisebank.cli import render
    from research.benches.local import bench_local

    found = bench_local()
    if as_json:
        render.show_json(found)
        return
    rows = []
    for name, row in found["mechanisms"].items():
        speed, ratio = row["values_per_second"] / 1e6, row["ratio_to_plain_laplace"]
        rows.append((name, f"{speed:.1f} million values a second, {ratio:.2f} of plain"))
    plain = ("plain Laplace sampling", f"{found['plain_laplace_values_per_second'] / 1e6:.1f} million values a second")
    render.show_facts(f"Local mechanisms at epsilon {found['epsilon']:g}, one core", [plain, *rows])


@bench.command("ledger")
@click.option("--quick", is_flag=True, help="A fifth of the work.")
@json_option
@handle_errors
def measure_ledger(quick: bool, as_json: bool) -> None:
    """Spends, replay and verification a second, against the bare disk; with anvil also over RPC.

    Example:  python -m research bench ledger --json
    """
    from noisebank.cli import render
    from research.benches.ledger import bench_ledger

    with render.show_progress("measuring", quiet=as_json) as moved:
        found = bench_ledger(quick, moved)
    render.show_json(found) if as_json else render.show_facts("The ledger", [(k, str(v)) for k, v in found.items()])


@bench.command("engine")
@click.option(
    "--rows", type=click.IntRange(1, 10**9), default=10_000_000, show_default=True, help="Of the made-up table."
)
@click.option("--quick", is_flag=True, help="A fifth of the rounds.")
@json_option
@handle_errors
def measure_engine(rows: int, quick: bool, as_json: bool) -> None:
    """What a measurement costs beside the bare DuckDB query on the same file, and 1,000 groups from ask to answer.

    Example:  python -m research bench engine --json
    """
    from noisebank.cli import render
    from research.benches.engine import bench_engine

    with render.show_progress("measuring", quiet=as_json) as moved:
        found = bench_engine(rows, quick, moved)
    if as_json:
        render.show_json(found)
        return
    ratios = [(f"{name}, against the bare query", f"{ratio:.2f}") for name, ratio in found.pop("ratios").items()]
    without = found.pop("without_optimisers_ratios").items()
    ratios += [(f"{name}, without optimisers against with them", f"{ratio:.2f}") for name, ratio in without]
    render.show_facts("Engines", [*((name, str(value)) for name, value in found.items()), *ratios])


@bench.command("reuse")
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
@click.option("--before", metavar="COMMIT", help="The same in an earlier commit, beside it.")
@json_option
@handle_errors
def measure_reuse(workload: str, cells: int, queries: int, seed: int, before: str | None, as_json: bool) -> None:
    """Questions that a budget answers: naively, with plain reuse, with inference.

    Example:  python -m research bench reuse --workload range --cells 1024 --json

    Beside an earlier version:  python -m research bench reuse --workload adult --before 7ef99e28
    """
    from research.benches.before import run_before

    earlier = None
    if before is not None:
        options = ["--workload", workload, "--cells", str(cells), "--queries", str(queries), "--seed", str(seed)]
        earlier = run_before(before, ["bench", "reuse", *options])
    from noisebank.cli import render
    from research.benches.reuse import bench_reuse
    from research.inference.terminal import show_reuse

    with render.show_progress("asking", quiet=as_json) as moved:
        found = bench_reuse(workload, cells, queries, seed, moved)
    if as_json:
        render.show_json(found if earlier is None else {"before": {"commit": before, **earlier}, "after": found})
        return
    if earlier is not None:
        render.print_line(f"before, at {before}")
        show_reuse(earlier)
        render.print_line("now")
    show_reuse(found)


@bench.command("service")
@click.option("--quick", is_flag=True, help="A few seconds instead of minutes.")
@json_option
@handle_errors
def measure_service(quick: bool, as_json: bool) -> None:
    """Answers a second of a served bank, beside its bare endpoint and the bare disk; then twice too many for it.

    Example:  python -m research bench service --json
    """
    from noisebank.cli import render
    from research.benches.service import bench_service

    with render.show_progress("measuring", quiet=as_json) as moved:
        found = bench_service(quick, moved)
    render.show_json(found) if as_json else render.show_facts("The service", [(k, str(v)) for k, v in found.items()])
