"""`noisebank demo`: a bank with a made-up survey, asked 150 questions and verified; optionally served."""

from __future__ import annotations

import sys
import threading
import webbrowser
from pathlib import Path
from typing import TYPE_CHECKING

import click

from noisebank.cli.options import handle_errors, json_option

if TYPE_CHECKING:
    from noisebank.service.settings import Settings


@click.command("demo")
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
@json_option
@handle_errors
def run_demo(folder: Path, seed: int, serve: bool, port: str | None, browse: bool, as_json: bool) -> None:
    """Make a survey and a bank, ask 150 questions, verify the books.

    With --serve, look at the bank in a browser.

    Example:  noisebank demo --folder /tmp/demo
    Example:  noisebank demo --serve --open
    """
    from noisebank.cli import render
    from noisebank.cli.demo_result import show_demo
    from noisebank.demo.survey_demo import find_free_folder, run_demonstration

    free = find_free_folder(folder)
    if serve:
        from noisebank.demo.served_demo import check_port, serve_demo

        check_port(free, port)
    with render.show_progress("asking", quiet=as_json) as moved:
        result = run_demonstration(free, seed, moved)
    if serve and result.report.passed:
        serve_demo(result, port, lambda settings, keys: _announce_address(settings, keys, browse, as_json))
        return
    render.show_json(result.to_json()) if as_json else show_demo(result)
    sys.exit(0 if result.report.passed else 1)


def _announce_address(settings: Settings, keys: dict[str, str], browse: bool, as_json: bool) -> None:
    from noisebank.cli import render

    if as_json:
        render.show_json({"address": settings.address, "keys": keys, "folder": str(settings.bank.parent)})
    else:
        rows = [("address", settings.address), *((f"key of {name}", key) for name, key in keys.items())]
        render.show_facts("The demonstration, served; stop it with Ctrl-C", rows)
        render.print_line(
            "Open the address in a browser; what is public needs no key. Sign in with the key of maria or noor to ask "
            "questions, with the owner's to read the statement."
        )
    if browse:
        threading.Timer(0.5, webbrowser.open, [settings.address]).start()
