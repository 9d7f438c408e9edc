"""How long the planner thinks, and what it holds: medians after thousands of questions.

A free request is planned and answered; a paid one is planned, learned and answered. Every fourth of the timed requests
wants a little more than is known of it, so that both kinds are timed however much is known.
"""

from __future__ import annotations

import json
import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from fractions import Fraction
from math import sqrt
from typing import Any

from noisebank.core.entropy import simulation_rng
from noisebank.core.units import ZERO_PRECISION, Precision
from noisebank.planning import inference
from noisebank.planning.inference import CubePosterior, CubeStatistic, FirstLookRule, FirstLookTiming
from noisebank.privacy.calibration import budget_precision
from research.benches.cell_workloads import make_workload
from research.benches.reuse import BUDGET, Cells, look_at, wanted_precision

CASES = {"1024": (1024, "covariance"), "8192": (8192, "dual"), "8192_covariance": (8192, "covariance"),
         "131072": (131_072, "dual")}  # fmt: skip
LIMITS_MS = {"1024": (2.0, 5.0), "8192": (40.0, 150.0), "8192_covariance": (40.0, 150.0), "131072": (10.0, 10.0)}
"""Free and paid: what the project asks for."""
TIMED = 120
THREADS = "1"
"""Of the linear algebra, unless OPENBLAS_NUM_THREADS says otherwise: these products wait for memory, not for cores."""
RULE = FirstLookRule(FirstLookTiming.OPENING)
Moved = Callable[[int, int], None]


def bench_planner(quick: bool = False, moved: Moved = lambda done, total: None) -> dict[str, Any]:
    """All sizes, each in a process of its own, so that its memory can be told."""
    asked, found = (300 if quick else 3000), {}
    names = [name for name in CASES if not (quick and name == "8192_covariance")]
    for place, name in enumerate(names, 1):
        found[name] = _apart(name, asked)
        moved(place, len(names))
    return {"queries_asked": asked, "timed": TIMED, "threads": os.environ.get("OPENBLAS_NUM_THREADS", THREADS),
            "cells": found}  # fmt: skip


def time_case(name: str, asked: int, seed: int = 0) -> dict[str, Any]:
    """One size: asks `asked` random ranges under the usual budget, then times some more."""
    cells, form = CASES[name]
    inference.MAX_DENSE_CELLS = cells if form == "covariance" else cells - 1
    work, budget = make_workload("range", cells, asked + TIMED, seed), budget_precision(*BUDGET)
    generator, knowledge = simulation_rng(seed + 1), CubePosterior(CubeStatistic(work.axes), budget, RULE)
    books, free, paid, answered, began = Cells(budget, cells), list[float](), list[float](), 0, time.perf_counter()
    for place, (query, stddev) in enumerate(zip(work.queries, work.wanted, strict=True)):
        timed = place >= asked
        wanted = wanted_precision(query, stddev)
        if place == asked:
            seconds = time.perf_counter() - began
        if timed:  # a quarter shall be paid for, the others free
            known = max(knowledge.known_precision(query), Precision(10**12))
            wanted = Precision.ceil(known.exact * Fraction(11, 10)) if place % 4 == 0 else Precision(known.units // 2)
            knowledge._last_inferred = None
        start = time.perf_counter()
        plan = knowledge.plan_query(query, wanted)
        spent = time.perf_counter() - start
        if plan.first_look is not None and not timed:
            bought = books.pay(plan.first_look.charges, plan.first_look.precision)
            knowledge.add_first_look(
                look_at(plan.first_look, work, generator)
            ) if bought else knowledge.decline_first_look()
            plan = knowledge.plan_query(query, wanted)
        if plan.fresh_precision and not timed and not books.pay(plan.charges, plan.fresh_precision):
            continue
        noise = (
            float(generator.standard_normal()) * query.max_weight / sqrt(float(plan.fresh_precision))
            if plan.fresh_precision
            else 0.0
        )
        value = query.dot(work.counts) + noise
        start = time.perf_counter()
        if plan.fresh_precision:
            knowledge.add_measurement(plan, value)
        knowledge.estimate_planned(plan)
        spent += time.perf_counter() - start
        answered += not timed
        if timed:
            (paid if plan.fresh_precision != ZERO_PRECISION else free).append(1000 * spent)
    limits = LIMITS_MS[name]
    return {
        "form": form,
        "answered": answered,
        "paid_measurements": len(knowledge.measurements),
        "ms_a_query": round(1000 * seconds / asked, 3),
        "free_ms": round(statistics.median(free), 3),
        "paid_ms": round(statistics.median(paid), 3),
        "slowest_paid_ms": round(max(paid), 1),
        "memory_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024),
        "within_limits": statistics.median(free) <= limits[0] and statistics.median(paid) <= limits[1],
    }


def _apart(name: str, asked: int) -> dict[str, Any]:
    code = (
        "import json, sys; from research.benches.planner import time_case; "
        "print(json.dumps(time_case(sys.argv[1], int(sys.argv[2]))))"
    )
    command = [sys.executable, "-c", code, name, str(asked)]
    settings = {"OPENBLAS_NUM_THREADS": THREADS, **os.environ}
    ran = subprocess.run(command, capture_output=True, text=True, check=True, env=settings)
    found: dict[str, Any] = json.loads(ran.stdout)
    return found
