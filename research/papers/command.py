"""`papers` and `parts`: all five documents with one command, and every row of the every-part tables."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from pathlib import Path

import click

from noisebank.cli.options import handle_errors, json_option
from research.papers.exhibit import Found, Moved
from research.papers.names import PAPERS, RECORDED

TIMES = Path("docs") / "results" / "papers.json"
PROCESSES = 2


@click.command("papers")
@click.argument("name", type=click.Choice(["all", *PAPERS]), default="all")
@click.option("--quick/--full", default=True, help="Few seeds, in minutes, or what the pages show.  [default: quick]")
@click.option("--out", type=click.Path(path_type=Path), default=Path("noisebank-papers"), show_default=True,
              help="PNG, SVG and JSON go here.")  # fmt: skip
@click.option("--pages", type=click.Path(path_type=Path), help="Then write the pages into this folder of documents.")
@json_option
@handle_errors
def papers(name: str, quick: bool, out: Path, pages: Path | None, as_json: bool) -> None:
    """Run every figure and table of all five documents, or of one, and hold each number against its oracle.

    Each number says where what it is held against comes from, where the tolerance comes from, and whether that was
    chosen after looking. --json lists every part of the documents besides, with the command that shows it. Figures 5.3
    to 5.8 of P4 are of recorded trainings; attackers train with torch: `reproduce p4-attackers`.

    Example:  python -m research papers --quick --json
    """
    from noisebank.cli import render
    from research.papers.catalogue import chosen
    from research.papers.running import run_all
    from research.papers.terminal import show_papers

    names = list(chosen(name))
    if not quick:
        click.echo(f"about {estimate_minutes(names):.0f} minutes on two free cores", err=True)
    began = time.monotonic()
    with render.show_progress("reproducing", quiet=as_json) as moved:
        found = run_all(names, quick, out, _say_progress(moved, began))
    seconds = time.monotonic() - began
    if pages is not None:
        from research.papers.page import write_pages

        write_pages(out, pages)
    outside = [number for one in found.values() for number in one["numbers"] if not number["within"]]
    if as_json:
        render.show_json(summarise(name, found, quick, seconds))
    else:
        show_papers(found, out)
        total = sum(len(one["numbers"]) for one in found.values())
        render.print_line(f"{total - len(outside)} of {total} numbers are within, in {seconds:.0f} s")
    sys.exit(1 if outside else 0)


def _say_progress(moved: Moved, began: float) -> Moved:
    """A line on standard error per finished figure where no bar can be drawn: in a log, or with --json."""
    if sys.stderr.isatty():
        return moved

    def say(done: int, total: int) -> None:
        moved(done, total)
        click.echo(f"{done} of {total} after {time.monotonic() - began:.0f} s", err=True)

    return say


def summarise(name: str, found: Mapping[str, Found], quick: bool, seconds: float) -> Found:
    """For --json: parts with their commands, figures with their numbers."""
    from research.papers.parts import list_parts

    return {
        "quick": quick,
        "seconds": round(seconds, 1),
        "parts": [{"paper": paper, **part._asdict()} for paper, part in list_parts(name)],
        "figures": {
            one: {key: row[key] for key in ("paper", "title", "printed", "here", "why", "seconds", "numbers")}
            for one, row in found.items()
        },
        "numbers": sum(len(row["numbers"]) for row in found.values()),
        "outside": [number["name"] for row in found.values() for number in row["numbers"] if not number["within"]],
    }


def estimate_minutes(names: list[str]) -> float:
    """From the committed run: two processes, except for what wants the machine to itself.

    Where that run noted no processor time, its seconds shrink by the load: so many processes shared the cores.
    """
    import json

    from research.papers.catalogue import exhibit

    times = json.loads(TIMES.read_text()) if TIMES.is_file() else {}
    alone = together = 0.0
    for name in names:
        row = times.get(name, {})
        seconds = float(row.get("seconds", 5.0 if name in RECORDED else 60.0))
        if exhibit(name).timed:
            alone += seconds
            continue
        work = row.get("cpu") or seconds * min(1.0, PROCESSES / max(float(row.get("load") or 0.0), 1e-9))
        if exhibit(name).together:
            alone += work / PROCESSES
        else:
            together += work
    return (alone + together / PROCESSES) / 60


@click.command("parts")
@click.argument("name", type=click.Choice(["all", *PAPERS]), default="all")
@click.option("--run", "running", is_flag=True, help="Run the command of every part.")
@click.option("--cheap", is_flag=True, help="With --run: only those that take a second or two.")
@json_option
@handle_errors
def parts(name: str, running: bool, cheap: bool, as_json: bool) -> None:
    """List every part of the documents and what became of it; with --run, run the command that shows it.

    Each command is run once; the exit code is 1 if one of them fails. Those with `noisebank` run in a folder with the
    tutorial's table and bank, the others at the root of the repository.

    Example:  python -m research parts p2 --run --cheap
    """
    from noisebank.cli import render
    from research.papers.parts import list_commands, list_parts, run_commands

    if not running:
        rows = [{"paper": paper, **part._asdict()} for paper, part in list_parts(name)]
        if as_json:
            render.show_json({"parts": rows})
        else:
            for row in rows:
                render.show_facts(f"{row['paper']}, {row['kind']}: {row['part']}",
                                  [("here", row["here"]), ("see", row["see"]),
                                   (row["state"], row["why"] or "as in the paper")])  # fmt: skip
        return
    with render.show_progress("running", quiet=as_json) as moved:
        results = list(run_commands(list_commands(name, cheap), moved))
    if as_json:
        render.show_json({"commands": results})
    else:
        for row in results:
            state = "ok" if row["code"] == 0 else f"FAILED with {row['code']}: {row['said']}"
            render.print_line(f"{row['seconds']:6.1f} s  {row['command']}  {state}")
    sys.exit(1 if any(row["code"] for row in results) else 0)
