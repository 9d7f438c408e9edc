"""P1, Figure 8: a bounded system, with least squares as the other baseline."""

from __future__ import annotations

from typing import Any

from noisebank.privacy.calibration import budget_precision
from research.benches.reuse import BUDGET
from research.inference.bayes import ZCDP_BUDGET, gaussian
from research.papers.exhibit import Exhibit, Found, Moved, Number, list_made_up
from research.papers.p1_charts import grid
from research.papers.p1_systems import HISTOGRAMS, Setting, histogram, many_runs, places

SETTING = Setting(within=(1, 1e3), miss=0.2, budget=1.0)
SYSTEMS = ("dynamic", "least squares", "bayes", "ours")


def run(quick: bool, moved: Moved) -> Found:
    """1,000 requests, an accuracy of 1 to 1,000 at 80%, a budget of 1; and the planner without any first look."""
    runs = {
        "dynamic": 10 if quick else 50,
        "least squares": 2 if quick else 5,
        "bayes": 1 if quick else 3,
        "ours": 2 if quick else 6,
    }
    found: Found = {"requests": places(SETTING), "sources": {name: histogram(name)[1] for name in HISTOGRAMS}}
    for place, name in enumerate(HISTOGRAMS):
        found[name] = {system: many_runs(system, name, runs[system], SETTING) for system in SYSTEMS}
        moved(place + 1, len(HISTOGRAMS) + 1)
    few = 2 if quick else 4
    found["planner"] = {
        "zcdp_budget": gaussian(ZCDP_BUDGET, few),
        "bank_budget": gaussian(budget_precision(*BUDGET), few),
    }
    moved(len(HISTOGRAMS) + 1, len(HISTOGRAMS) + 1)
    return found


def here(found: Found) -> str:
    """In words."""
    one, plain = found["nettrace"], found["planner"]["zcdp_budget"]
    words = [
        f"{system} answers {one[system]['answered_end']:.1%} (error {one[system]['error_end']:.3f}, "
        f"{one[system]['inside_end']:.1%} inside)"
        for system in SYSTEMS
    ]
    ends = one["ours"]["inside_ends"]
    return (
        f"net-trace: {'; '.join(words)}. Our runs one by one have {min(ends):.0%} to {max(ends):.0%} inside. "
        "Without any first look, by cells at (1, 1e-6) through zCDP, Gaussian noise answers "
        f"{plain['naive']:.1%} naively, {plain['per_type']:.1%} per type, {plain['inference']:.1%} by inference."
    )


def numbers(found: Found) -> list[Number]:
    """As in Figure 7."""
    few = found["nettrace"]["bayes"]["runs"] < 3
    made = []
    for name in HISTOGRAMS:
        base, bayes = found[name]["dynamic"], found[name]["bayes"]
        made += [
            Number(f"5.4 improved baseline, spent ({name})", base["spent_end"], 1, 0.01),
            Number(f"5.4 improved baseline, answered ({name})", base["answered_end"], 0.332, 0.05),
            Number(f"5.4 improved baseline, inside ({name})", base["inside_end"], 0.804, 0.02),
            Number(f"5.4 improved baseline, error ({name})", base["error_end"], 0.618, 0.04),
            Number(f"5.4 Bayes, spent ({name})", bayes["spent_end"], 1, 0.01),
            Number(f"5.4 Bayes, answered ({name})", bayes["answered_end"], 0.559, 0.2 if few else 0.12),
            Number(f"5.4 Bayes, inside ({name})", bayes["inside_end"], 0.818, 0.15 if few else 0.08),
            Number(f"5.4 Bayes, error ({name})", bayes["error_end"], 0.468, 0.2 if few else 0.12),
        ]
    plain = found["planner"]["zcdp_budget"]
    return [
        *made,
        Number("Gaussian planner on 5.4, naive", plain["naive"], 0.688, 0.06 if few else 0.03),
        Number("Gaussian planner on 5.4, per type", plain["per_type"], 0.72, 0.06 if few else 0.03),
        Number("Gaussian planner on 5.4, inference", plain["inference"], 0.977, 0.02),
    ]


def draw(found: Found) -> Any:
    """As printed: answered, error, reliability."""
    one = found["nettrace"]
    return grid(
        found, found["requests"], ("answered", "error", "inside"),
        f"With a budget of 1, P1's inference answers {one['bayes']['answered_end']:.0%}, the bank's "
        f"{one['ours']['answered_end']:.0%}, "
        f"the baseline {one['dynamic']['answered_end']:.0%} (P1, Figure 8)",
        "Accuracy ±1 to ±1,000 at 80%. Lines: means; bands: 5% to 95% of runs. Ours: epsilon 1 at delta 1e-6, with a "
        "first look.",
        "requests", 0.8,
    )  # fmt: skip


EXHIBIT = Exhibit(
    name="p1-figure8",
    paper="P1",
    title="Figure 8: the bounded system",
    printed="Inference answers more than the improved baseline after the budget is gone, with better error and "
    "reliability; least squares errs more than inference.",
    why="Shares answered and errors of inference agree; reliability does not improve, as in Figure 7. It swings "
    "from run to run for our planner, too: what is promised for each query is not promised along one run, whose "
    "answers share noise. Unweighted least squares can even err more than no inference at all: an answer "
    "with much noise counts as much as one with little. How P1 continues least squares after the budget is "
    "gone is not said; here it answers what it can pay for. With Gaussian noise and cells charged one by "
    "one, nearly everything is answered.",
    run=run,
    here=here,
    draw=draw,
    made_up=list_made_up,
    numbers=numbers,
)
