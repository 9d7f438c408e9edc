"""P1, Figure 7: what inference adds, with a hierarchical tree bought beforehand."""

from __future__ import annotations

from typing import Any

from research.papers.exhibit import Exhibit, Found, Moved, Number, list_made_up
from research.papers.p1_charts import grid
from research.papers.p1_systems import HISTOGRAMS, Setting, histogram, many_runs, places

SETTING = Setting(within=(50, 1e3), miss=0.2, budget=6.0, tree=0.3)
SYSTEMS = ("dynamic", "bayes", "ours")


def run(quick: bool, moved: Moved) -> Found:
    """1,000 requests, an accuracy of 50 to 1,000 at 80%, a budget of 6, a tree of .3."""
    runs = {"dynamic": 10 if quick else 50, "bayes": 1 if quick else 3, "ours": 2 if quick else 6}
    found: Found = {"requests": places(SETTING), "sources": {name: histogram(name)[1] for name in HISTOGRAMS}}
    for place, name in enumerate(HISTOGRAMS):
        found[name] = {system: many_runs(system, name, runs[system], SETTING) for system in SYSTEMS}
        moved(place + 1, len(HISTOGRAMS))
    return found


def here(found: Found) -> str:
    """In words."""
    one = found["nettrace"]
    words = [
        f"{system} spends {one[system]['spent_end']:.3f}, {one[system]['inside_end']:.1%} inside, error "
        f"{one[system]['error_end']:.3f}"
        for system in SYSTEMS
    ]
    inferred = f"{one['bayes']['inferred']:.1%} of P1's answers are inferred, {one['ours']['inferred']:.1%} of ours."
    return f"net-trace: {'; '.join(words)}. {inferred}"


def numbers(found: Found) -> list[Number]:
    """One run of Bayes scatters: its answers share noise."""
    few = found["nettrace"]["bayes"]["runs"] < 3
    made = []
    for name in HISTOGRAMS:
        base, bayes = found[name]["dynamic"], found[name]["bayes"]
        made += [
            Number(f"5.3 improved baseline, spent ({name})", base["spent_end"], 2.766, 0.1),
            Number(f"5.3 improved baseline, answered ({name})", base["answered_end"], 1, 0),
            Number(f"5.3 improved baseline, inside ({name})", base["inside_end"], 0.802, 0.012),
            Number(f"5.3 improved baseline, error ({name})", base["error_end"], 0.62, 0.02),
            Number(f"5.3 Bayes and tree, spent ({name})", bayes["spent_end"], 0.804, 0.35 if few else 0.2),
            Number(f"5.3 Bayes and tree, answered ({name})", bayes["answered_end"], 1, 0),
            Number(f"5.3 Bayes and tree, inside ({name})", bayes["inside_end"], 0.71, 0.3 if few else 0.15),
            Number(f"5.3 Bayes and tree, error ({name})", bayes["error_end"], 0.15, 0.08 if few else 0.05),
        ]
    return made


def draw(found: Found) -> Any:
    """As printed: spending, error, reliability."""
    one = found["nettrace"]
    ratio = one["dynamic"]["spent_end"] / one["bayes"]["spent_end"]
    return grid(
        found, found["requests"], ("spent", "error", "inside"),
        f"Inference from a tree of answers spends {ratio:.1f} times less and errs less (P1, Figure 7)",
        "Accuracy ±50 to ±1,000 at 80%, budget 6, tree of epsilon .3. Lines: means; bands: 5% to 95% of runs.\n"
        "Answers of one run share noise, so the share of truths inside swings from run to run.",
        "requests", 0.8,
    )  # fmt: skip


EXHIBIT = Exhibit(
    name="p1-figure7",
    paper="P1",
    title="Figure 7: Bayesian inference",
    printed="With inference less is spent, and both error and reliability are better than the improved baseline's.",
    why="Spending and error agree. Reliability does not improve: it is promised query by query and, along one "
    "run, swings, since nearly all answers come from the same few measurements. P1's claim that it converges "
    "to the confidence level overlooks that. P1 simulates densities; here they are computed from "
    "characteristic functions.",
    run=run,
    here=here,
    draw=draw,
    made_up=list_made_up,
    numbers=numbers,
)
