"""demo, reproduce: what the product can do, shown by the product itself."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from noisebank.commands.options import as_json, guarded
from noisebank.experiments.papers.names import EXHIBITS, PAPERS


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
@click.option("--serve", is_flag=True, help="Then serve the bank with a clinic besides, and print keys to it.")
@click.option("--port", "-p", help="With --serve: the port; 8410 unless said otherwise, 0 for any.")
@click.option("--open", "browse", is_flag=True, help="With --serve: open a browser there.")
@as_json
@guarded
def demo(folder: Path, seed: int, serve: bool, port: str | None, browse: bool, as_json: bool) -> None:
    """Make a survey and a bank, ask 150 questions, verify the books; with --serve, look at it in a browser.

    Example:  noisebank demo --folder /tmp/demo
    Example:  noisebank demo --serve --open
    """
    from noisebank import console
    from noisebank.experiments.demo import demonstrate, free_folder
    from noisebank.experiments.shown import show_demo

    with console.progress("asking", quiet=as_json) as moved:
        shown = demonstrate(free_folder(folder), seed, moved)
    if serve and shown.report.passed:
        from noisebank.experiments.demo_service import serve_demo

        serve_demo(shown, port, browse, as_json)
        return
    console.show_json(shown.plain()) if as_json else show_demo(shown)
    sys.exit(0 if shown.report.passed else 1)


@click.command()
@click.argument(
    "name",
    type=click.Choice(["table2", "opu", "ldp", "chained", "bayes", "fedsgd", "crowd", "all", *PAPERS, *EXHIBITS]),
)
@click.option("--quick", is_flag=True, help="Fewer draws and runs.")
@click.option(
    "--folder", type=click.Path(path_type=Path), help="With ldp, chained, fedsgd, crowd: draw the figures here."
)
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    default=Path("noisebank-papers"),
    show_default=True,
    help="With all, p0, p1, p3, one of their figures, or budget: PNG, SVG and JSON go here.",
)
@as_json
@guarded
def reproduce(name: str, quick: bool, folder: Path | None, out: Path, as_json: bool) -> None:
    """Reproduce tables and figures of the papers through the product's own code.

    all: every figure and table of P0, P1 and P3, and how far a budget goes; or one paper (p0, p1, p3), or one of them
    by name. Those that measure time run last and alone.

    table2: reuse in four cases (P0, Table II). opu: the accuracy-driven paper (P3), its leak, and what
    an honest method costs. ldp: local mechanisms (P4, chapter 3), their variances and crossovers.
    chained: the relay of users (P2), its game, and what its claims are worth. bayes: inference from earlier
    answers (P1), its example and experiments, beside the bank's planner. fedsgd: LDP-FedSGD (P4, chapter 3), three
    models and all mechanisms. crowd: learning by a crowd (P4, chapter 5), its figures, reputations and attackers; with
    --folder an interrupted run goes on where it was.

    Example:  noisebank reproduce all --quick --out /tmp/papers
    """
    from noisebank import console
    from noisebank.experiments import shown

    if name == "all" or name in PAPERS or name in EXHIBITS:
        _reproduce_papers(name, quick, out, as_json)
    elif name == "table2":
        from noisebank.experiments.table2 import table2

        table = table2()
        console.show_json(table.plain()) if as_json else shown.show_table2(table)
    elif name == "opu":
        from noisebank.experiments.opu import opu

        with console.progress("simulating", quiet=as_json) as moved:
            made = opu(quick, moved)
        console.show_json(made.plain()) if as_json else shown.show_opu(made)
    elif name == "ldp":
        _reproduce_ldp(quick, folder, as_json)
    elif name == "fedsgd":
        from noisebank.commands.learning import reproduce_fedsgd

        reproduce_fedsgd(quick, folder, as_json)
    elif name == "bayes":
        from noisebank.experiments.bayes import bayes
        from noisebank.experiments.bayes_shown import show_bayes

        with console.progress("simulating", quiet=as_json) as moved:
            inferred = bayes(quick, moved)
        console.show_json(inferred) if as_json else show_bayes(inferred)
    elif name == "crowd":
        _reproduce_crowd(quick, folder, as_json)
    else:
        _reproduce_chained(quick, folder, as_json)


def _reproduce_papers(name: str, quick: bool, out: Path, as_json: bool) -> None:
    from noisebank import console
    from noisebank.experiments.papers.catalogue import chosen
    from noisebank.experiments.papers.running import run_all
    from noisebank.experiments.papers.terminal import show_papers

    with console.progress("reproducing", quiet=as_json) as moved:
        found = run_all(chosen(name), quick, out, moved)
    console.show_json(found) if as_json else show_papers(found, out)


def _reproduce_ldp(quick: bool, folder: Path | None, as_json: bool) -> None:
    from noisebank import console
    from noisebank.experiments import shown
    from noisebank.experiments.ldp import ldp

    with console.progress("simulating", quiet=as_json) as moved:
        found = ldp(quick, moved)
    charts: list[Path] = []
    if folder is not None:
        from noisebank.experiments.ldp_charts import draw_charts

        folder.mkdir(parents=True, exist_ok=True)
        with console.progress("drawing", quiet=as_json) as moved:
            charts = draw_charts(folder, quick, moved)
    plain = {**found.plain(), "charts": [str(path) for path in charts]}
    console.show_json(plain) if as_json else shown.show_ldp(plain)


def _reproduce_chained(quick: bool, folder: Path | None, as_json: bool) -> None:
    from noisebank import console
    from noisebank.experiments.chained import chained
    from noisebank.experiments.chained_shown import show_chained

    with console.progress("simulating", quiet=as_json) as moved:
        found = chained(quick, moved)
    charts: list[Path] = []
    if folder is not None:
        from noisebank.experiments.chained_charts import draw_charts

        folder.mkdir(parents=True, exist_ok=True)
        with console.progress("drawing", quiet=as_json) as moved:
            charts = draw_charts(folder, quick, moved, found)
    plain = {**found.plain(), "charts": [str(path) for path in charts]}
    console.show_json(plain) if as_json else show_chained(plain)


def _reproduce_crowd(quick: bool, folder: Path | None, as_json: bool) -> None:
    from noisebank import console
    from noisebank.errors import BadRequest
    from noisebank.experiments.crowd import crowd
    from noisebank.experiments.crowd_shown import show_crowd

    try:
        with console.progress("training", quiet=as_json) as moved:
            found = crowd(quick, moved, None if folder is None else folder / "trained")
    except ImportError as error:
        raise BadRequest("crowd", error.name or "", "needs pip install 'noisebank[federated]'") from None
    charts: list[Path] = []
    if folder is not None:
        from noisebank.experiments.crowd_charts import draw_charts

        with console.progress("drawing", quiet=as_json) as moved:
            charts = draw_charts(folder, found, moved)
    plain = {**found.plain(), "charts": [str(path) for path in charts]}
    console.show_json(plain) if as_json else show_crowd(plain)
    sys.exit(0 if all(plain["checks"].values()) else 1)


@click.group()
def bench() -> None:
    """Measure, as ratios in one run."""


@bench.command("local")
@as_json
@guarded
def bench_local_(as_json: bool) -> None:
    """Values a second of each local mechanism, against plain Laplace sampling.

    Example:  noisebank bench local --json
    """
    from noisebank import console
    from noisebank.experiments.bench_local import bench_local

    found = bench_local()
    if as_json:
        console.show_json(found)
        return
    rows = []
    for name, row in found["mechanisms"].items():
        speed, ratio = row["values_per_second"] / 1e6, row["ratio_to_plain_laplace"]
        rows.append((name, f"{speed:.1f} million values a second, {ratio:.2f} of plain"))
    plain = ("plain Laplace sampling", f"{found['plain_laplace_values_per_second'] / 1e6:.1f} million values a second")
    console.facts(f"Local mechanisms at epsilon {found['epsilon']:g}, one core", [plain, *rows])


@bench.command("ledger")
@click.option("--quick", is_flag=True, help="A fifth of the work.")
@as_json
@guarded
def bench_ledger_(quick: bool, as_json: bool) -> None:
    """Spends, replay and verification a second, against the bare disk; with anvil also over RPC.

    Example:  noisebank bench ledger --json
    """
    from noisebank import console
    from noisebank.experiments.bench_ledger import bench_ledger

    with console.progress("measuring", quiet=as_json) as moved:
        found = bench_ledger(quick, moved)
    console.show_json(found) if as_json else console.facts("The ledger", [(k, str(v)) for k, v in found.items()])


@bench.command("engine")
@click.option(
    "--rows", type=click.IntRange(1, 10**9), default=10_000_000, show_default=True, help="Of the made-up table."
)
@click.option("--quick", is_flag=True, help="A fifth of the rounds.")
@as_json
@guarded
def bench_engine_(rows: int, quick: bool, as_json: bool) -> None:
    """What a measurement costs beside the bare DuckDB query on the same file, and 1,000 groups from ask to answer.

    Example:  noisebank bench engine --json
    """
    from noisebank import console
    from noisebank.experiments.bench_engine import bench_engine

    with console.progress("measuring", quiet=as_json) as moved:
        found = bench_engine(rows, quick, moved)
    if as_json:
        console.show_json(found)
        return
    ratios = [(f"{name}, against the bare query", f"{ratio:.2f}") for name, ratio in found.pop("ratios").items()]
    console.facts("Engines", [*((name, str(value)) for name, value in found.items()), *ratios])
