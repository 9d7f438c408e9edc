"""`python -m research`: reproduce the papers, measure the parts."""

from __future__ import annotations

import click

from research.bench import bench
from research.crowd import crowd
from research.data import data
from research.oracles.command import oracles
from research.papers.command import papers, parts
from research.planner import planner
from research.reproduce import reproduce
from research.smartnoise import smartnoise


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
def main() -> None:
    """Reproduce the papers and measure the parts, through the product's own code.

    Start with:  python -m research papers --quick --out papers
    """


main.add_command(papers)
main.add_command(parts)
main.add_command(reproduce)
main.add_command(bench)
main.add_command(crowd)
main.add_command(data)
main.add_command(planner)
main.add_command(oracles)
main.add_command(smartnoise)

if __name__ == "__main__":
    main(prog_name="python -m research")
