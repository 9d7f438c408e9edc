"""How far does a budget go: questions answered against budget, every way, on four kinds of questions."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from math import pi, sqrt
from typing import TYPE_CHECKING, Any

import numpy as np

from noisebank.core.entropy import simulation_rng
from noisebank.core.intervals import normal_quantile
from noisebank.planning.linear import LinearQuery, Vector, query_from_weights
from noisebank.planning.strategies.axes import Axis
from noisebank.privacy.calibration import budget_precision
from research.accuracy.unsound import Asked, Settings, search
from research.benches.cell_workloads import WANTED, Workload, make_workload
from research.benches.reuse import Cells, OneSum, answer_by_inference, answer_plainly
from research.inference.laplace_system import LaplaceSystem
from research.papers.charts import WAYS, below, dress, figure, headline, plain_ticks
from research.papers.exhibit import Exhibit, Found, Moved, Number

if TYPE_CHECKING:
    from numpy.random import Generator

DELTA = Fraction(1, 10**6)
CELLS, REPEATED = 64, 20
CONFIDENCE = 0.8
"""P1 takes a distance and a confidence; a standard deviation is a distance of 1.28 of it at this one."""
AGE_EDGES, EDUCATION_EDGES = (25, 30, 35, 40, 45, 50, 60), (9, 10, 13)
"""Cuts of Adult's cube: eight ages, four educations, two sexes, two incomes."""
KINDS = {
    "repeats": "20 ranges, asked again and again",
    "ranges": "random ranges, 64 cells",
    "marginals": "two given values, 4 x 4 x 4 cells",
    "adult": "Adult: ranges and pairs, 128 cells",
}


def run(quick: bool, moved: Moved) -> Found:
    """Wanted standard deviations 20 to 200; the same questions to everybody."""
    epsilons = ("0.1", "0.4", "1.6") if quick else ("0.05", "0.1", "0.2", "0.4", "0.8", "1.6")
    asked, seeds = (200, 1) if quick else (300, 2)
    found: Found = {"epsilons": [float(epsilon) for epsilon in epsilons], "asked": asked, "seeds": seeds, "kinds": {}}
    done, total = 0, len(KINDS) * len(epsilons)
    for kind in KINDS:
        works = [workload_of(kind, asked, seed) for seed in range(seeds)]
        rows: dict[str, list[list[int]]] = {way: [] for way in ANSWERED}
        for epsilon in epsilons:
            for way, answered in ANSWERED.items():
                some = works[:1] if way == "bayes" else works
                rows[way].append([answered(work, Fraction(epsilon), seed) for seed, work in enumerate(some)])
            done += 1
            moved(done, total)
        found["kinds"][kind] = {"cells": works[0].cells, "source": works[0].source, **rows}
    return found


def _gaussian(reuse: bool) -> Callable[[Workload, Fraction, int], int]:
    return lambda work, epsilon, seed: answer_plainly(work, OneSum(budget_precision(epsilon, DELTA)), reuse).answered


def _inferred(work: Workload, epsilon: Fraction, seed: int) -> int:
    budget = budget_precision(epsilon, DELTA)
    return answer_by_inference(work, budget, Cells(budget, work.cells), True, seed + 1).answered


def _bayes(work: Workload, epsilon: Fraction, seed: int) -> int:
    """P1 as printed: Laplace noise, dynamic budgets, Bayesian inference, a budget for each cell; pure epsilon."""
    system = LaplaceSystem(work.counts, float(epsilon), CONFIDENCE, True, simulation_rng(seed))
    reach = normal_quantile(CONFIDENCE)
    pairs = zip(work.queries, work.wanted, strict=True)
    return sum(system.ask(_row(query), reach * stddev) is not None for query, stddev in pairs)


def _unsound(work: Workload, epsilon: Fraction, seed: int) -> int:
    """P3's search for the mean error that this noise would have, by looking at the true answers. NOT private."""
    users = []
    for query, stddev in zip(work.queries, work.wanted, strict=True):
        truth = max(1.0, query.dot(work.counts))
        users.append(Asked(max(0.0, 1.0 - sqrt(2.0 / pi) * stddev / truth), "Count", 1, truth))
    return search(users, Settings(min(0.1, float(epsilon)), total=float(epsilon)), simulation_rng(seed)).satisfied


ANSWERED: dict[str, Callable[[Workload, Fraction, int], int]] = {
    "naive": _gaussian(False),
    "per type": _gaussian(True),
    "bayes": _bayes,
    "unsound": _unsound,
    "ours": _inferred,
}


def _row(query: LinearQuery) -> Vector:
    row = np.zeros(query.cell_count)
    for start, stop, weight in query.runs:
        row[start:stop] = weight
    return row


def workload_of(kind: str, asked: int, seed: int) -> Workload:
    """Cubes small enough for P1's inference."""
    generator = simulation_rng(500 + seed)
    if kind == "ranges":
        return make_workload("range", CELLS, asked, seed)
    if kind == "repeats":
        few = make_workload("range", CELLS, REPEATED, seed)
        chosen = [few.queries[place] for place in generator.integers(0, REPEATED, asked).tolist()]
        return Workload(
            kind, few.source, few.axes, few.counts, tuple(chosen), tuple(generator.uniform(*WANTED, asked).tolist())
        )
    shape, counts, source, ordered = _adult() if kind == "adult" else _cube(generator)
    queries = tuple(_question(shape, ordered, place, generator) for place in range(asked))
    axes = tuple(Axis(side, place < ordered) for place, side in enumerate(shape))
    return Workload(kind, source, axes, counts, queries, tuple(generator.uniform(*WANTED, asked).tolist()))


def _cube(generator: Generator) -> tuple[tuple[int, ...], Vector, str, int]:
    return (4, 4, 4), generator.poisson(100, 64).astype(float), "made up: Poisson counts with mean 100", 0


def _adult() -> tuple[tuple[int, ...], Vector, str, int]:
    """The cube of `bench reuse`, merged to 8 x 4 x 2 x 2 cells."""
    work = make_workload("adult", queries=2)
    counts = work.counts.reshape([axis.size for axis in work.axes])
    for axis, edges, first in ((0, AGE_EDGES, 17), (1, EDUCATION_EDGES, 1)):
        counts = np.add.reduceat(counts, [0, *(edge - first for edge in edges)], axis=axis)
    return counts.shape, counts.reshape(-1), work.source, 2


def _question(shape: tuple[int, ...], ordered: int, place: int, generator: Generator) -> LinearQuery:
    """Every other one a range of the ordered attributes, if there are any; else two given values."""
    chosen = np.zeros(shape, dtype=np.int64)
    spots: list[slice | int] = [slice(None)] * len(shape)
    if ordered and place % 2 == 0:
        for axis in range(ordered):
            low, high = np.sort(generator.integers(0, shape[axis], 2)).tolist()
            spots[axis] = slice(low, high + 1)
    else:
        for axis in generator.choice(len(shape), 2, replace=False).tolist():
            spots[axis] = int(generator.integers(shape[axis]))
    chosen[tuple(spots)] = 1
    return query_from_weights(chosen.reshape(-1))[0]


def here(found: Found) -> str:
    """In words."""
    place = found["epsilons"].index(0.4)
    words = []
    for kind, one in found["kinds"].items():
        shares = ", ".join(f"{SHORT[way]} {np.mean(one[way][place]):.0f}" for way in ANSWERED)
        words.append(f"{kind}: {shares}")
    return f"Answered of {found['asked']} at epsilon .4: {'; '.join(words)}."


SHORT = {"naive": "naive", "per type": "P0", "bayes": "P1", "unsound": "P3 (not private)", "ours": "inference"}


def numbers(found: Found) -> list[Number]:
    """No reference: but inference never answers fewer than reuse, and reuse never fewer than nothing reused."""
    made = []
    for kind, one in found["kinds"].items():
        worse = sum(np.mean(ours) < np.mean(reused) for ours, reused in zip(one["ours"], one["per type"], strict=True))
        made.append(Number(f"budgets at which inference answers fewer than reuse, {kind}", float(worse), 0, 0))
    return made


def draw(found: Found) -> Any:
    """One panel a kind of questions."""
    drawn = figure(10.6, 7.4)
    grid = drawn.subplots(2, 2, sharex=True, sharey=True)
    place = found["epsilons"].index(0.4)
    ratio = min(np.mean(one["ours"][place]) / max(1.0, np.mean(one["naive"][place])) for one in found["kinds"].values())
    headline(
        drawn,
        f"How far a budget goes: at ε = .4 inference answers at least {ratio:.0f} times as many questions as fresh "
        "noise",
        f"Answered of {found['asked']} counts, wanted standard deviation 20 to 200 people. Gaussian ways: ε at δ = "
        "1e-6; P1 and P3: pure ε. "
        "Bands: lowest to highest run.",
    )
    for axes, (kind, words) in zip(grid.flat, KINDS.items(), strict=True):
        one = found["kinds"][kind]
        dress(
            axes,
            words,
            "budget ε" if kind in ("marginals", "adult") else "",
            "share answered" if kind in ("repeats", "marginals") else "",
        )
        for way, (colour, mark, label) in WAYS.items():
            rows = np.array(one[way]) / found["asked"]
            style = "--" if way == "unsound" else "-"
            axes.plot(
                found["epsilons"],
                rows.mean(axis=1),
                color=colour,
                marker=mark,
                linestyle=style,
                linewidth=1.8,
                markersize=5,
                label=label,
            )
            axes.fill_between(
                found["epsilons"], rows.min(axis=1), rows.max(axis=1), color=colour, alpha=0.18, linewidth=0
            )
        axes.set_xscale("log")
        plain_ticks(axes.xaxis, found["epsilons"])
        axes.set_ylim(0, 1.04)
    below(drawn, grid.flat[0], 5)
    return drawn


EXHIBIT = Exhibit(
    name="budget",
    paper="beyond",
    title="How far does a budget go?",
    printed="No paper compares with the others on the same questions.",
    why="P1's and P3's budgets are pure epsilon, the Gaussian ones (epsilon, 1e-6). P3's line is not private: it "
    "is what its search would answer, at the price of the true values. P1's inference starts without a tree, "
    "as in its section 5.4. On pairs of values with a tiny budget it answers more than we do: the contract "
    "merges what a question reads into at most sixteen runs of cells, and charges the cells between.",
    run=run,
    here=here,
    draw=draw,
    made_up=lambda found: "counts of cells, Poisson with mean 100 (all but Adult)",
    numbers=numbers,
)
