"""P1, Figure 9: the impact of the overall budget."""

from __future__ import annotations

from typing import Any

from research.papers.exhibit import Exhibit, Found, Moved, list_made_up
from research.papers.p1_charts import grid
from research.papers.p1_sweep import answered_words, promises, sweep
from research.papers.p1_systems import Setting

SETTINGS = {budget: Setting(within=(1, 1e3), miss=0.2, budget=budget) for budget in (0.25, 0.5, 1.0, 2.0, 4.0)}


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
        f"A fourth of the budget: the bank still answers {one['ours']['answered'][0][0]:.0%}, P1 "
        f"{one['bayes']['answered'][0][0]:.0%}, "
        f"the baseline {one['dynamic']['answered'][0][0]:.0%} (P1, Figure 9)"
    )
    note = f"Accuracy ±1 to ±1,000 at 80%. {found['asked']} requests. Lines: means; bands: 5% to 95% of runs."
    return grid(found, found["x"], ("answered", "error", "inside"), finding, note, "overall budget (epsilon)", 0.8)


EXHIBIT = Exhibit(
    name="p1-figure9",
    paper="P1",
    title="Figure 9: the impact of the overall budget",
    printed="As the budget grows, more is answered; error and reliability are not affected.",
    why="Shares answered agree, and the improved baseline's error and reliability stay where they are. Not so "
    "with inference: where less can be paid for, more is inferred, which moves the error; and least squares "
    "errs, by chance, far more than it should.",
    run=run,
    here=here,
    draw=draw,
    made_up=list_made_up,
    numbers=promises,
)
