"""P1, Figure 6: static against dynamic allocation of the budget."""

from __future__ import annotations

from typing import Any

from research.papers.exhibit import Exhibit, Found, Moved, Number, list_made_up
from research.papers.p1_charts import grid
from research.papers.p1_systems import HISTOGRAMS, Setting, histogram, many_runs, places

SETTING = Setting(within=(50, 1e4), miss=0.05, budget=4.0)
SYSTEMS = ("static", "dynamic", "ours")


def run(quick: bool, moved: Moved) -> Found:
    """1,000 requests, an accuracy of 50 to 10,000 at 95%, a budget of 4."""
    runs = {"static": 10 if quick else 50, "dynamic": 10 if quick else 50, "ours": 2 if quick else 6}
    found: Found = {"requests": places(SETTING), "sources": {name: histogram(name)[1] for name in HISTOGRAMS}}
    for place, name in enumerate(HISTOGRAMS):
        found[name] = {system: many_runs(system, name, runs[system], SETTING) for system in SYSTEMS}
        moved(place + 1, len(HISTOGRAMS))
    return found


def here(found: Found) -> str:
    """In words."""
    one = found["nettrace"]
    words = [
        f"{system} spends {one[system]['spent_end']:.3f}, {one[system]['inside_end']:.1%} of truths inside "
        f"({one[system]['strict']:.0%} as near as required in the strictest tenth), error "
        f"{one[system]['error_end']:.3f}"
        for system in SYSTEMS
    ]
    return f"net-trace: {'; '.join(words)}. Everything is answered. Histograms: {', '.join(found['sources'].values())}."


def numbers(found: Found) -> list[Number]:
    """Independent figures are for other counts and seeds: prices and errors do not depend on counts."""
    made = []
    for name in HISTOGRAMS:
        one = found[name]["dynamic"]
        made += [
            Number(f"5.2 dynamic, spent ({name})", one["spent_end"], 0.938, 0.06),
            Number(f"5.2 dynamic, answered ({name})", one["answered_end"], 1, 0),
            Number(f"5.2 dynamic, inside ({name})", one["inside_end"], 0.95, 0.01),
            Number(f"5.2 dynamic, error ({name})", one["error_end"], 0.333, 0.012),
        ]
    return made


def draw(found: Found) -> Any:
    """As printed: spending above, reliability below."""
    one = found["nettrace"]
    saved = 1 - one["dynamic"]["spent_end"] / one["static"]["spent_end"]
    return grid(
        found, found["requests"], ("spent", "inside"),
        f"Paying what each request needs saves {saved:.0%} of equal shares; inference saves far more (P1, Figure 6)",
        f"Accuracy ±50 to ±10,000 at 95%, budget 4. Lines: means; bands: 5% to 95% of runs.\nEqual shares overserve "
        "the many and "
        f"miss the strict: {one['static']['strict']:.0%} of the strictest tenth are near enough, "
        f"{one['dynamic']['strict']:.0%} "
        "with shares as needed.", "requests", 0.95,
    )  # fmt: skip


EXHIBIT = Exhibit(
    name="p1-figure6",
    paper="P1",
    title="Figure 6: static and dynamic allocation",
    printed="Dynamic allocation spends less (the bound of 4 is not reached) and has the better reliability; no "
    "numbers.",
    why="Spending agrees. Reliability of equal shares (4/1,000 a request) is no worse on average, as these "
    "figures show: it is bad exactly where much accuracy is required, and needlessly good elsewhere. "
    "Equation 50 does not add up to 1 and is normalised. The two histograms look alike since neither prices "
    "nor errors depend on counts; their 4,096 cells are merged to 32. Our planner pays in (epsilon, 1e-6) "
    "and gets below Laplace's pure epsilon only through inference.",
    run=run,
    here=here,
    draw=draw,
    made_up=list_made_up,
    numbers=numbers,
)
