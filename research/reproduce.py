"""`reproduce`: tables and figures of the papers, one command."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from noisebank.cli.options import handle_errors, json_option
from research.papers.names import CROWD, EXHIBITS, PAPERS


@click.command("reproduce")
@click.argument(
    "name",
    type=click.Choice(
        ["table2", "opu", "ldp", "chained", "bayes", "fedsgd", "crowd", "all", *PAPERS, *EXHIBITS, *CROWD]
    ),
)
@click.option("--quick", is_flag=True, help="Fewer draws and runs.")
@click.option("--folder", type=click.Path(path_type=Path), help="With ldp, chained, fedsgd: draw the figures here.")
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    default=Path("noisebank-papers"),
    show_default=True,
    help="With all, p0 to p4, one of their figures, or budget: PNG, SVG and JSON go here.",
)
@json_option
@handle_errors
def reproduce(name: str, quick: bool, folder: Path | None, out: Path, as_json: bool) -> None:
    """Reproduce tables and figures of the papers through the product's own code.

    all: every figure and table of the five documents, and how far a budget goes (but for p4-attackers, which trains
    with torch); or one paper (p0 to p4), or one of them by name. Those that measure time run last and alone.

    table2: reuse in four cases (P0, Table II). opu: the accuracy-driven paper (P3), its leak, and what
    an honest method costs. ldp: local mechanisms (P4, chapter 3), their variances and crossovers.
    chained: the relay of users (P2), its game, and what its claims are worth. bayes: inference from earlier
    answers (P1), its example and experiments, beside the bank's planner. fedsgd: LDP-FedSGD (P4, chapter 3), three
    models and all mechanisms. crowd: learning by a crowd (P4, chapter 5): some of its trainings, reputations and
    attackers; its figures are p4-figure5-3 to p4-figure5-8, from trainings that `python -m research crowd` records.

    Example:  python -m research reproduce all --quick --out /tmp/papers
    """
    from noisebank.cli import render

    if name == "all" or name in (*PAPERS, *EXHIBITS, *CROWD):
        _reproduce_papers(name, quick, out, as_json)
    elif name == "table2":
        from research.reuse.table2 import table2
        from research.reuse.terminal import show_table2

        table = table2()
        render.show_json(table.plain()) if as_json else show_table2(table)
    elif name == "opu":
        from research.accuracy.opu import opu
        from research.accuracy.terminal import show_opu

        with render.show_progress("simulating", quiet=as_json) as moved:
            made = opu(quick, moved)
        render.show_json(made.plain()) if as_json else show_opu(made)
    elif name == "ldp":
        _reproduce_ldp(quick, folder, as_json)
    elif name == "fedsgd":
        _reproduce_fedsgd(quick, folder, as_json)
    elif name == "bayes":
        from research.inference.bayes import bayes
        from research.inference.terminal import show_bayes

        with render.show_progress("simulating", quiet=as_json) as moved:
            inferred = bayes(quick, moved)
        render.show_json(inferred) if as_json else show_bayes(inferred)
    elif name == "crowd":
        _reproduce_crowd(quick, as_json)
    else:
        _reproduce_chained(quick, folder, as_json)


def _reproduce_papers(name: str, quick: bool, out: Path, as_json: bool) -> None:
    from noisebank.cli import render
    from research.papers.catalogue import chosen
    from research.papers.running import run_all
    from research.papers.terminal import show_papers

    with render.show_progress("reproducing", quiet=as_json) as moved:
        found = run_all(chosen(name), quick, out, moved)
    render.show_json(found) if as_json else show_papers(found, out)


def _reproduce_ldp(quick: bool, folder: Path | None, as_json: bool) -> None:
    from noisebank.cli import render
    from research.ldp.chapter3 import ldp
    from research.ldp.terminal import show_ldp

    with render.show_progress("simulating", quiet=as_json) as moved:
        found = ldp(quick, moved)
    charts: list[Path] = []
    if folder is not None:
        from research.ldp.charts import draw_charts

        folder.mkdir(parents=True, exist_ok=True)
        with render.show_progress("drawing", quiet=as_json) as moved:
            charts = draw_charts(folder, quick, moved)
    plain = {**found.plain(), "charts": [str(path) for path in charts]}
    render.show_json(plain) if as_json else show_ldp(plain)


def _reproduce_chained(quick: bool, folder: Path | None, as_json: bool) -> None:
    from noisebank.cli import render
    from research.chained_dp.recomputed import chained
    from research.chained_dp.terminal import show_chained

    with render.show_progress("simulating", quiet=as_json) as moved:
        found = chained(quick, moved)
    charts: list[Path] = []
    if folder is not None:
        from research.chained_dp.charts import draw_charts

        folder.mkdir(parents=True, exist_ok=True)
        with render.show_progress("drawing", quiet=as_json) as moved:
            charts = draw_charts(folder, quick, moved, found)
    plain = {**found.plain(), "charts": [str(path) for path in charts]}
    render.show_json(plain) if as_json else show_chained(plain)


def _reproduce_crowd(quick: bool, as_json: bool) -> None:
    from noisebank.cli import render
    from research.blockfl.chapter5 import crowd
    from research.blockfl.terminal import show_crowd

    with render.show_progress("training", quiet=as_json) as moved:
        plain = crowd(quick, moved).plain()
    render.show_json(plain) if as_json else show_crowd(plain)
    sys.exit(0 if all(plain["checks"].values()) else 1)


def _reproduce_fedsgd(quick: bool, folder: Path | None, as_json: bool) -> None:
    from noisebank.cli import render
    from research.fedsgd.figures import fedsgd
    from research.fedsgd.terminal import show_fedsgd

    with render.show_progress("learning", quiet=as_json) as moved:
        found = fedsgd(quick, moved)
    charts: list[Path] = []
    if folder is not None:
        from research.fedsgd.charts import draw_charts

        with render.show_progress("drawing", quiet=as_json) as moved:
            charts = draw_charts(found, folder, moved)
    plain = {**found.plain(), "charts": [str(path) for path in charts]}
    render.show_json(plain) if as_json else show_fedsgd(plain)
