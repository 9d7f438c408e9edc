"""Writes docs/results/reuse.md: what inference answers, by size of the cube and by budget. Run as a module."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator

import numpy as np

from noisebank.core.units import Precision
from noisebank.privacy.calibration import budget_precision
from research.benches.cell_workloads import Workload, make_workload
from research.benches.reuse import (
    BUDGET,
    NO_LOOK,
    Books,
    Cells,
    OneSum,
    answer_by_inference,
    answer_plainly,
    bench_reuse,
)
from research.inference.bayes import ZCDP_BUDGET

HEAD = """\
# What inference answers

Made by `NOISEBANK_DATA=... python -m research.benches.reuse_page > docs/results/reuse.md`; the tables of the last
part are also `python -m research bench reuse --workload NAME --json`. 3,000 requests for counts, wanted standard
deviations uniform in [20, 200], add/remove neighbours. A request that the budget cannot pay is refused and the next one
is tried. *Naive*: fresh noise each time. *Per type*: identical queries are reused (P0). *Inference*: from all answers
together (P1, with Gaussian noise). *One sum*: as without cubes. *By cells*: each cell is charged for what reads it, and
the largest counts. The first look is bought by the default rule: a quarter of the budget, once it would have saved half
of its price. Noise is simulated.

"""
CAPTION = (
    "| cells | one sum: naive / per type / inference | by cells: naive / per type / inference | with a first look |"
)
TAIL = """
nettrace and searchlogs have the same lines: the same questions are asked, and neither a price nor an error
depends on the counts.

The last two columns: root mean square error over the standard deviation that was asked for (1 is what was promised;
answers are often better known than asked for), and how many truths lie inside the stated 95% intervals. One run each:
answers of a run share noise, so these scatter. Coverage is tested
query by query in `tests/statistical/test_inference_coverage.py`.
"""


def page() -> Iterator[str]:
    """The lines of the page."""
    yield HEAD
    for title, budget in (
        ("the bank's budget for (1, 1e-6), precision .0560", budget_precision(*BUDGET)),
        ("the same through zCDP, precision .0487, as these figures were first computed", ZCDP_BUDGET),
    ):
        yield f"## Answered of 3,000 random ranges: {title}\n\n{CAPTION}\n|---|---|---|---|\n"
        for cells, seeds in ((64, 4), (256, 4), (1024, 2)):
            yield _line(cells, seeds, budget)
        yield "\n"
    yield from _marginals(budget_precision(*BUDGET))
    for name in ("adult", "nettrace", "searchlogs"):
        yield from _by_budget(name)
    yield TAIL


def _line(cells: int, seeds: int, budget: Precision) -> str:
    works = [make_workload("range", cells, 3000, seed) for seed in range(seeds)]

    def mean(run: Callable[[Workload], int]) -> str:
        return f"{np.mean([run(work) for work in works]):,.0f}"

    parts = []
    for books in (lambda: OneSum(budget), lambda: Cells(budget, cells)):
        parts.append(" / ".join(_ways(mean, books, budget)))
    looked = mean(lambda work: answer_by_inference(work, budget, Cells(budget, cells), True, 1).answered)
    return f"| {cells:,} | {parts[0]} | {parts[1]} | **{looked}** |\n"


def _ways(mean: Callable[[Callable[[Workload], int]], str], books: Callable[[], Books], budget: Precision) -> list[str]:
    return [
        mean(lambda work: answer_plainly(work, books(), reuse=False).answered),
        mean(lambda work: answer_plainly(work, books(), reuse=True).answered),
        mean(lambda work: answer_by_inference(work, budget, books(), NO_LOOK, 1).answered),
    ]


def _marginals(budget: Precision) -> Iterator[str]:
    work = make_workload("marginals")
    yield "## Counts of two given values, 8 x 8 x 4 x 4 cells: answered (share of the budget)\n\n"
    yield "| books | naive | per type | inference |\n|---|---|---|---|\n"
    for name, books, exact in (
        ("one sum", lambda: OneSum(budget), False),
        ("by cells, any number of runs", lambda: Cells(budget, work.cells), True),
        ("by cells, sixteen runs (the contract)", lambda: Cells(budget, work.cells), False),
    ):
        found = [answer_plainly(work, books(), reuse, exact) for reuse in (False, True)]
        found.append(answer_by_inference(work, budget, books(), NO_LOOK, 1, exact))
        shown = " | ".join(f"{one.answered:,} ({one.spent:.2f})" for one in found)
        yield f"| {name} | {shown} |\n"
    looked = answer_by_inference(work, budget, Cells(budget, work.cells), True, 1)
    yield f"| the same, with a first look | | | {looked.answered:,} ({looked.spent:.2f}) |\n\n"


def _by_budget(name: str) -> Iterator[str]:
    found = bench_reuse(name)
    yield f"## {name}: {found['cells']:,} cells, {found['source']}, delta 1e-5\n\n"
    yield "| epsilon | one sum: naive / per type | by cells: naive / per type | inference | error / wanted | inside |\n"
    yield "|---|---|---|---|---|---|\n"
    for row in found["budgets"]:
        detail = row["inference_detail"]
        plain = f"{row['naive']:,} / {row['per_type']:,} | {row['naive_by_cells']:,} / {row['per_type_by_cells']:,}"
        error = f"{detail['error_of_wanted']:.2f} | {detail['covered_95']:.3f}"
        yield f"| {row['budget']['epsilon']:g} | {plain} | **{row['inference']:,}** | {error} |\n"
    yield "\n"


if __name__ == "__main__":
    for text in page():
        sys.stdout.write(text)
        sys.stdout.flush()
