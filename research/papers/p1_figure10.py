"""P1, Figure 10: the impact of the utility requirement."""

from __future__ import annotations

from typing import Any

from research.papers.exhibit import Exhibit, Found, Moved, list_made_up
from research.papers.p1_charts import grid
from research.papers.p1_sweep import answered_words, promises, sweep
from research.papers.p1_systems import Setting

SETTINGS = {upper: Setting(within=(1, upper), miss=0.2, budget=1.0) for upper in (200.0, 400.0, 600.0, 800.0, 1000.0)}


def run(quick: bool, moved: Moved) -> Found:
    """The bounded system at every setting; `quick` asks fewer requests."""
    return sweep(SETTINGS, quick, moved)


def here(found: Found) -> str:
    """In words."""
    return answered_words(found)


def draw(found: Found) -> Any:
    """As printed: answered, error, reliability."""
    one = found["nettrace"]
    finding = (
        f"The looser the requirement, the more is answered: the bank {one['ours']['answered'][0][0]:.0%} to "
        f"{one['ours']['answered'][0][-1]:.0%}, the baseline {one['dynamic']['answered'][0][0]:.0%} to "
        f"{one['dynamic']['answered'][0][-1]:.0%} (P1, Figure 10)"
    )
    note = f"Budget 1, 80% confidence. {found['asked']} requests. Lines: means; bands: 5% to 95% of runs."
    return grid(
        found,
        found["x"],
        ("answered", "error", "inside"),
        finding,
        note,
        "accuracy required: ±1 to ± this (uniformly)",
        0.8,
    )


EXHIBIT = Exhibit(
    name="p1-figure10",
    paper="P1",
    title="Figure 10: the impact of the utility requirement",
    printed="As the requirement declines, more is answered; error and reliability are not affected.",
    why="Shares answered agree, and the improved baseline's error and reliability stay where they are. "
    "Unweighted least squares gets worse as requirements spread: loose answers count as much as strict ones.",
    run=run,
    here=here,
    draw=draw,
    made_up=list_made_up,
    numbers=promises,
)
