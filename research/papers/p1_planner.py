"""Inference at scale, beyond P1: how many of 3,000 questions a budget answers, and how long the planner thinks."""

from __future__ import annotations

import time
from collections.abc import Callable
from fractions import Fraction
from math import isnan, log10
from typing import Any

import numpy as np
from flint import fmpq, fmpq_mat

from noisebank.core.entropy import simulation_rng
from noisebank.core.units import Precision
from noisebank.planning.linear import range_query
from noisebank.planning.look_posterior import LookPosterior
from noisebank.planning.posterior import CovariancePosterior
from noisebank.planning.strategies.kronecker import find_strategy
from noisebank.planning.strategies.looks import Look
from research.benches.cell_workloads import make_workload
from research.benches.reuse import (
    NO_LOOK,
    Books,
    Cells,
    OneSum,
    answer_by_inference,
    answer_plainly,
    look_at,
    wanted_precision,
)
from research.inference.bayes import ZCDP_BUDGET
from research.papers.charts import INK, WAYS, dress, figure, headline
from research.papers.exhibit import Exhibit, Found, Moved, Number, near

EXPECTED: dict[int, dict[str, tuple[int | None, ...]]] = {
    64: {"one sum": (195, 334, 2327), "by cells": (840, 1150, 2912)},
    256: {"one sum": (195, 203, 237), "by cells": (880, 900, 2246)},
    1024: {"one sum": (183, 183, 183), "by cells": (871, 870, None)},
}
LOOKED = {64: 3000, 256: 3000, 1024: 2974}
MARGINALS = {"one sum": (196, 1398, 1422), "shares by cells": (0.92, 0.27, 0.26)}
HOW = ("naive", "per type", "inference")
DIFFUSE = 1e8


def run(quick: bool, moved: Moved) -> Found:
    """The budget is (1, 1e-6) through zCDP, as in the independent computation."""
    seeds = {64: 1, 256: 1, 1024: 1} if quick else {64: 3, 256: 1, 1024: 1}
    found: Found = {"budget": float(ZCDP_BUDGET), "ranges": {}}
    for place, (cells, count) in enumerate(seeds.items()):
        found["ranges"][str(cells)] = _ranges(cells, count, quick and cells == 1024)
        moved(place + 1, 6)
    found["marginals"] = _marginals()
    moved(4, 6)
    if not quick:  # a look at so many cells takes many seconds
        found["dual"] = {**_timed(131_072, 3000), "asked": 3000}
    moved(5, 6)
    found["paid_ms"] = {str(cells): _paid_ms(cells) for cells in (4096, 8192)}
    found["digits_lost_to_a_diffuse_prior"] = _digits_lost()
    moved(6, 6)
    return found


def _ranges(cells: int, seeds: int, less: bool) -> Found:
    """`less` leaves out what takes a minute: inference over many cells without a first look."""
    works = [make_workload("range", cells, 3000, seed) for seed in range(seeds)]
    found: Found = {"seeds": seeds}
    books: dict[str, Callable[[], Books]] = {
        "one sum": lambda: OneSum(ZCDP_BUDGET),
        "by cells": lambda: Cells(ZCDP_BUDGET, cells),
    }
    for name, make in books.items():
        found[name] = []
        for work in works:
            row: list[int | None] = [answer_plainly(work, make(), reuse).answered for reuse in (False, True)]
            leave = less and name == "by cells"
            row.append(None if leave else answer_by_inference(work, ZCDP_BUDGET, make(), NO_LOOK, 1).answered)
            found[name].append(row)
    looked = [answer_by_inference(work, ZCDP_BUDGET, Cells(ZCDP_BUDGET, cells), True, 1).answered for work in works]
    return {**found, "looked": looked}


def _marginals() -> Found:
    """Counts of two given values over 8 x 8 x 4 x 4 cells, charged as one sum and cell by cell."""
    work = make_workload("marginals")
    found: Found = {}
    for name, exact, make in (
        ("one sum", False, lambda: OneSum(ZCDP_BUDGET)),
        ("by cells", True, lambda: Cells(ZCDP_BUDGET, work.cells)),
    ):
        made = [answer_plainly(work, make(), reuse, exact) for reuse in (False, True)]
        made.append(answer_by_inference(work, ZCDP_BUDGET, make(), NO_LOOK, 1, exact))
        found[name] = [one.answered for one in made]
        found[f"shares {name}"] = [one.spent for one in made]
    return found


def _timed(cells: int, asked: int) -> Found:
    """How many ranges over many cells are answered, and milliseconds of processor time a request."""
    work, budget, began = make_workload("range", cells, asked), ZCDP_BUDGET, time.process_time()
    run = answer_by_inference(work, budget, Cells(budget, cells), True, 1)
    return {"answered": run.answered, "ms_a_query": round(1000 * (time.process_time() - began) / asked, 3)}


def _paid_ms(cells: int) -> float:
    """Milliseconds of CPU to plan, learn and answer one paid request with a covariance of this size; a median."""
    work = make_workload("range", cells, 12, 0)
    strategy = find_strategy(work.axes, (True,) * len(work.axes))
    look = Look(strategy, ZCDP_BUDGET, np.zeros((0, strategy.part_count), dtype=object), ())
    known = LookPosterior([look_at(look, work.counts, simulation_rng(0))])
    spent = []
    for query, stddev in zip(work.queries, work.wanted, strict=True):
        began = time.process_time()
        known.infer(query)
        known.observe(query, query.dot(work.counts), wanted_precision(query, stddev))
        known.infer(query)
        spent.append(1000 * (time.process_time() - began))
    return float(np.median(spent))


def _digits_lost() -> float:
    """How much farther from the exact variance a covariance that starts from a large prior is than the bank's."""
    cells, generator = 16, simulation_rng(5)
    spots = [tuple(sorted(generator.integers(0, cells, 2).tolist())) for _ in range(60)]
    spots += [(place, place) for place in range(cells)]
    exact = fmpq_mat(cells, cells)
    ours, diffuse = CovariancePosterior(cells), DIFFUSE * np.eye(cells)
    precision = Precision(10**16)
    for low, high in spots:
        query = range_query(cells, low, high + 1)
        weights = np.array([float(low <= place <= high) for place in range(cells)])
        ours.observe(query, 0.0, precision)
        moved = diffuse @ weights
        diffuse -= np.outer(moved, moved) / (weights @ moved + 1 / float(precision))
        row = fmpq_mat(cells, 1, [fmpq(int(one)) for one in weights])
        exact += row * row.transpose() * fmpq(1, 100)
    inverse, worst = exact.inv(), {"ours": 1e-17, "diffuse": 1e-17}
    for low, high in spots[:20]:
        row = fmpq_mat(cells, 1, [fmpq(int(low <= place <= high)) for place in range(cells)])
        value = (row.transpose() * inverse * row)[0, 0]
        truth = float(Fraction(int(value.p), int(value.q)))
        weights = np.array([float(low <= place <= high) for place in range(cells)])
        inferred = ours.infer(range_query(cells, low, high + 1))
        assert inferred is not None
        worst["ours"] = max(worst["ours"], abs(inferred.variance / truth - 1))
        worst["diffuse"] = max(worst["diffuse"], abs(float(weights @ diffuse @ weights) / truth - 1))
    return log10(worst["diffuse"] / worst["ours"])


def here(found: Found) -> str:
    """In words."""
    one = found["ranges"]["1024"]
    sums, cells = (_means(one[name]) for name in ("one sum", "by cells"))
    dual = found.get("dual")
    many = (
        f"Over 131,072 cells {dual['answered']:,} of {dual['asked']:,}, {dual['ms_a_query']:.1f} ms a request. "
        if dual else ""
    )  # fmt: skip
    return (
        f"Of 3,000 random ranges over 1,024 cells: {sums[0]:.0f} naively, {sums[1]:.0f} per type, {sums[2]:.0f} by "
        "inference "
        f"in one sum; {_slashed(cells)} charged by cells; {np.mean(one['looked']):.0f} "
        "with a first "
        f"look. {many}A paid "
        f"request takes {', '.join(f'{ms:.0f} ms at {cells} cells' for cells, ms in found['paid_ms'].items())}. A "
        "prior of 1e8 "
        f"in place of unmeasured directions would cost {found['digits_lost_to_a_diffuse_prior']:.1f} digits."
    )


def _slashed(means: list[float]) -> str:
    """Naive, per type and inference; a dash for what a quick run leaves out."""
    return " / ".join("-" if isnan(mean) else f"{mean:.0f}" for mean in means)


def _means(rows: list[list[float | None]]) -> list[float]:
    """Over the runs; not a number where it was left out."""
    return [float(one) for one in np.mean(np.array(rows, dtype=float), axis=0)]


def numbers(found: Found) -> list[Number]:
    """Counts scatter with questions and noise; times with the machine."""
    made = []
    for cells, expected in EXPECTED.items():
        one = found["ranges"][str(cells)]
        for name in ("one sum", "by cells"):
            means = _means(one[name])
            for how, ours, known in zip(HOW, means, expected[name], strict=True):
                if known is not None:
                    made.append(near(f"{cells} cells, {name}, {how}", ours, known, 0.17))
        made.append(near(f"{cells} cells, with a first look", float(np.mean(one["looked"])), LOOKED[cells], 0.01))
    marginals = found["marginals"]
    for how, ours, wanted in zip(HOW, marginals["one sum"], MARGINALS["one sum"], strict=True):
        made.append(near(f"marginals, one sum, {how}", ours, wanted, 0.13))
    for how, ours, wanted in zip(HOW, marginals["by cells"], (3000, 3000, 3000), strict=True):
        made.append(Number(f"marginals, by cells, {how}", ours, wanted, 0))
    for how, ours, wanted in zip(HOW, marginals["shares by cells"], MARGINALS["shares by cells"], strict=True):
        made.append(Number(f"marginals, by cells, share of the budget, {how}", ours, wanted, 0.06))
    if dual := found.get("dual"):
        share = dual["answered"] / dual["asked"]
        made.append(Number("131,072 cells, share answered", share, round(2709 / 3000, 3), 0.04))
        made.append(Number("131,072 cells, ms a request, up to tenfold", dual["ms_a_query"], 1.9, 17.1))
    for size, wanted in (("4096", 37), ("8192", 82)):
        if size in found["paid_ms"]:
            made.append(
                Number(f"{size} cells, ms a paid request, up to tenfold", found["paid_ms"][size], wanted, 9.0 * wanted)
            )
    return [*made, Number("digits lost to a prior of 1e8", found["digits_lost_to_a_diffuse_prior"], 7, 2)]


def draw(found: Found) -> Any:
    """Bars by way, one panel a size."""
    drawn = figure(9.6, 4.6)
    sizes = list(found["ranges"])
    panels = drawn.subplots(1, len(sizes), sharey=True)
    headline(
        drawn,
        "Answers from answers: a first look makes a budget last more than ten times longer, also on large domains",
        "Answered of 3,000 random ranges, wanted standard deviation 20 to 200, budget (1, 1e-6). Marks: single runs.",
    )
    for axes, cells in zip(panels, sizes, strict=True):
        one = found["ranges"][cells]
        bars = [("naive", "naive", [row[0] for row in one["one sum"]]),
                ("per type", "reuse\n(P0)", [row[1] for row in one["one sum"]]),
                ("bayes", "inferred,\none sum", [row[2] for row in one["one sum"]]),
                ("ours", "inferred,\nby cells", [row[2] for row in one["by cells"] if row[2] is not None]),
                ("ours", "+ first\nlook", one["looked"])]  # fmt: skip
        for place, (way, _, values) in enumerate(bars):
            if not values:
                axes.text(place, 60, "left out\n(quick run)", ha="center", fontsize=7, color=INK)
                continue
            axes.bar(place, np.mean(values), color=WAYS[way][0], width=0.7, alpha=0.55 if place == 3 else 1.0)
            axes.plot([place] * len(values), values, "_", color="black", markersize=10)
            axes.text(place, max(values) + 60, f"{np.mean(values):,.0f}", ha="center", fontsize=9, color=INK)
        dress(axes, f"{int(cells):,} cells", "", "answered" if axes is panels[0] else "")
        axes.set_xticks(range(len(bars)), [name for _, name, _ in bars], fontsize=8)
        axes.set_ylim(0, 3300)
    return drawn


EXHIBIT = Exhibit(
    name="p1-planner",
    paper="P1",
    title="Inference at scale (beyond the paper)",
    printed="Future work of P1: better histories, auxiliary queries, and the least budget for a set of queries.",
    why="P1 searches for representations one after the other, which ends at some dozens of cells. Least squares "
    "over all answers, a first look at a tree, and charges by cell replace it. Counts differ a little from "
    "the independent computation's: other seeds.",
    run=run,
    here=here,
    draw=draw,
    made_up=lambda found: "counts of cells, Poisson with mean 100",
    numbers=numbers,
)
