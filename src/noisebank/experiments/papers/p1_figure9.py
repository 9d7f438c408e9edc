"""P1, Figure 9: the impact of the overall budget."""

from __future__ import annotations

from typing import Any

from noisebank.experiments.papers.exhibit import Exhibit, Found, Moved, Number
from noisebank.experiments.papers.p1_charts import grid
from noisebank.experiments.papers.p1_sweep import sweep
from noisebank.experiments.papers.p1_systems import HISTOGRAMS, Setting

SETTINGS = {budget: Setting(within=(1, 1e3), miss=0.2, budget=budget) for budget in (0.25, 0.5, 1.0, 2.0, 4.0)}


def run(quick: bool, moved: Moved) -> Found:
    """The bounded system at every setting; `quick` asks fewer requests."""
    return sweep(SETTINGS, quick, moved)


def here(found: Found) -> str:
    """In words."""
    one = found["nettrace"]
    words = [f"{name} {_ends(one[name]['answered'][0])}" for name in ("dynamic", "bayes", "ours")]
    return f"Answered from the smallest to the largest (net-trace, {found['asked']} requests): {', '.join(words)}. Error and reliability stay where they are."


def _ends(values: list[float]) -> str:
    return f"{values[0]:.0%} to {values[-1]:.0%}"


def numbers(found: Found) -> list[Number]:
    """What P1 says of it: the share answered rises, promises hold at every setting."""
    made = []
    for name in HISTOGRAMS:
        answered, inside = found[name]["dynamic"]["answered"][0], found[name]["dynamic"]["inside"][0]
        falls = sum(later < earlier - 0.02 for earlier, later in zip(answered, answered[1:], strict=False))
        made.append(Number(f"settings at which the baseline answers less than before ({name})", falls, 0, 0))
        made.append(Number(f"inside, baseline, mean over settings ({name})", sum(inside) / len(inside), 0.8, 0.03))
    return made


def draw(found: Found) -> Any:
    """As printed: answered, error, reliability."""
    one = found["nettrace"]
    return grid(
        found, found["x"], ("answered", "error", "inside"),
        f"A fourth of the budget: the bank still answers {one['ours']['answered'][0][0]:.0%}, P1 {one['bayes']['answered'][0][0]:.0%}, "
        f"the baseline {one['dynamic']['answered'][0][0]:.0%} (P1, Figure 9)",
        f"Accuracy ±1 to ±1,000 at 80%. {found['asked']} requests. Lines: means; bands: 5% to 95% of runs.", "overall budget (epsilon)", 0.8,
    )  # fmt: skip


EXHIBIT = Exhibit(
    name="p1-figure9",
    paper="P1",
    title="Figure 9: the impact of the overall budget",
    printed="As the budget grows, more is answered; error and reliability are not affected.",
    why="It holds for the baselines. With inference the error falls as well: a larger budget buys a better history.",
    run=run,
    here=here,
    draw=draw,
    numbers=numbers,
)
