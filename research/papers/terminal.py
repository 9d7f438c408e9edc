"""`reproduce all`, a paper or one of its figures on the terminal."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from noisebank.cli.render import print_line, show_facts
from research.papers.exhibit import Found


def show_papers(found: Mapping[str, Found], out: Path) -> None:
    """What was printed, what came out, why; and which numbers are off."""
    for name, one in found.items():
        off = [number for number in one["numbers"] if not number["within"]]
        rows = [("printed", one["printed"]), ("here", one["here"]), ("why", one["why"])]
        if one["numbers"]:
            rows.append(("numbers", f"{len(one['numbers']) - len(off)} of {len(one['numbers'])} within their spread"))
        rows += [("off", f"{number['name']}: {number['ours']:g}, expected {number['expected']:g}") for number in off]
        show_facts(f"{name}: {one['title']} ({one['paper']}, {one['seconds']:.0f} s)", rows)
        print_line("")
    print_line(f"PNG, SVG and JSON are in {out}", "dim")
