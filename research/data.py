"""`data`: the tables of the papers, and what this machine has of them."""

from __future__ import annotations

import click

from noisebank.cli.options import handle_errors, json_option


@click.command("data")
@json_option
@handle_errors
def data(as_json: bool) -> None:
    """List the tables of the papers: what a package ships, what NOISEBANK_DATA has, what is made up and why.

    A file of NOISEBANK_DATA is "real" if its SHA-256 is the one known here, else "unverified". Nothing is downloaded.

    Example:  NOISEBANK_DATA=~/tables python -m research data
    """
    from noisebank.cli import render
    from research.papers.datasets import list_datasets

    rows = list_datasets()
    if as_json:
        render.show_json({"datasets": rows})
        return
    for row in rows:
        facts = [("papers", ", ".join(row["papers"])), ("used for", row["used for"]), ("state", row["state"])]
        facts += [(name, str(row[name])) for name in ("source", "sha256", "made up", "why") if row[name]]
        if not row["source"] and row["looked for"]:
            facts.append(("looked for", "; ".join(row["looked for"])))
        render.show_facts(row["name"], facts)
        render.print_line("")
