"""P0, Table II: thirteen queries of three types through planner, contract and inference."""

from __future__ import annotations

from typing import Any

from research.papers.charts import BLUE, INK, ORANGE, dress, figure
from research.papers.exhibit import Exhibit, Found, Moved, Number
from research.reuse.table2 import table2

PRINTED_CASES = ("1", "1", "1", "2C", "2B", "2B", "2A", "2C", "2B", "2B", "2B", "2C", "2B")
PRINTED_REUSES = (None, None, None, "Q1", "Q2", "Q1", "Q3", "Q5", "Q5", "Q6", "Q9", "Q6", "Q7")
CUMULATIVE = (1, 1.111111, 1.361111, 1.361111, 1.5, 4.5, 4.5, 4.5, 4.694444, 16.694444, 17.25, 17.25, 17.444444)
NAIVE = 25.847778


def run(quick: bool, moved: Moved) -> Found:
    """The contract decides each query; planner and inference must agree with it."""
    found: Found = table2().plain()
    naive, total = [], 0.0
    for sigma in found["sigmas"]:
        total += float(sigma) ** -2
        naive.append(total)
    moved(1, 1)
    agree = [ours == theirs for ours, theirs in zip(found["cases"], PRINTED_CASES, strict=True)]
    return {**found, "naive_cumulative": naive, "printed_cases": PRINTED_CASES, "cases_agree": sum(agree)}


def here(found: Found) -> str:
    """In words."""
    return (
        f"{found['cases_agree']} of 13 cases as printed. The contract charges {found['cumulative'][-1]:.6f} precision "
        f"(squared sensitivity over variance), against {found['naive']:.6f} without reuse. The inference planner, "
        "which "
        "knows nothing of types, pays the same at every step."
    )


def numbers(found: Found) -> list[Number]:
    """All of the table."""
    rows = zip(found["cumulative"], found["inference"], CUMULATIVE, strict=True)
    made = [Number("cases as printed", found["cases_agree"], 13, 0)]
    for place, (ours, inferred, expected) in enumerate(rows, 1):
        made.append(Number(f"cumulative precision after Q{place}", ours, expected, 1e-6))
        made.append(Number(f"the same by inference after Q{place}", inferred, expected, 1e-6))
    return [*made, Number("naive precision", found["naive"], NAIVE, 1e-6)]


def draw(found: Found) -> Any:
    """Spending by query, with the case of each."""
    drawn = figure(8.4, 4.6)
    saved = 1 - found["cumulative"][-1] / found["naive"]
    axes = dress(
        drawn.subplots(), f"Thirteen queries of three types: reuse saves {saved:.0%} of the precision spent (P0, "
        "Table II)",
        "query (type; noise wanted; case decided by the contract)", "precision spent so far (Δ²/σ²)",
    )  # fmt: skip
    places = range(1, 14)
    axes.step(places, found["naive_cumulative"], where="mid", color=ORANGE, linewidth=2, linestyle="--")
    axes.step(places, found["cumulative"], where="mid", color=BLUE, linewidth=2.4)
    axes.text(
        9.3, found["naive"] - 3, f"every answer paid\nanew: {found['naive']:.2f}", color=INK, va="center", ha="right"
    )
    axes.text(
        13.5, found["cumulative"][-1] - 0.9, f"reused: {found['cumulative'][-1]:.2f}", color=INK, ha="right", va="top"
    )
    words = {"1": "first", "2A": "repeat", "2B": "refine", "2C": "blur"}
    labels = [
        f"Q{place}\ntype {kind}\nσ {sigma}\n{words[case]}"
        for place, kind, sigma, case in zip(places, found["types"], found["sigmas"], found["cases"], strict=True)
    ]
    axes.set_xticks(list(places), labels, fontsize=8)
    for place, case in zip(places, found["cases"], strict=True):
        if case in ("2A", "2C"):
            axes.text(place, found["cumulative"][place - 1] + 0.5, "free", fontsize=8, color=INK, ha="center")
    axes.set_xlim(0.4, 13.6)
    axes.set_ylim(0)
    return drawn


EXHIBIT = Exhibit(
    name="p0-table2",
    paper="P0",
    title="Table II: Algorithm 1 on thirteen queries",
    printed="Cases 1, 1, 1, 2C, 2B, 2B, 2A, 2C, 2B, 2B, 2B, 2C, 2B; no amounts.",
    why="Q13 reuses Q7 in print and Q3 here: they are the same answer (Q7 is a repeat of Q3, and a repeat leaves "
    "no record). The text's set N_2C = {8, 12} forgets query 4, which the table itself marks 2C.",
    run=run,
    here=here,
    draw=draw,
    numbers=numbers,
)
