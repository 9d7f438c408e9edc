"""How many values a second and core each one-number mechanism reports, and how that compares with plain Laplace noise.

Plain Laplace is the textbook line x - b sign(u) ln(1 - 2|u|) in floats, fed by the same operating-system words and
chunks. It is what the mechanisms are measured against, not something to use: its low bits give x away.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import numpy as np

from noisebank.core.entropy import simulation_rng, uniform_words
from noisebank.federated.ldp.catalogue import make_mechanism
from noisebank.federated.ldp.mechanism import CHUNK_SIZE
from noisebank.federated.ldp.parameters import MECHANISM_NAMES

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

VALUES, ROUNDS, TARGET = 1 << 20, 5, 5e6


def bench_local(epsilon: float = 1.0, values: int = VALUES, rounds: int = ROUNDS) -> dict[str, Any]:
    """Values per second of processor time (the best of `rounds`, taken in turn), and the ratio to plain Laplace."""
    data = simulation_rng(7).uniform(-1.0, 1.0, values)
    jobs: dict[str, Callable[[NDArray[np.float64]], object]] = {"plain laplace": lambda x: plain_laplace(x, epsilon)}
    jobs |= {name: make_mechanism(name, epsilon).perturb for name in MECHANISM_NAMES}
    best = dict.fromkeys(jobs, float("inf"))
    for job in jobs.values():
        job(data[: 2 * CHUNK_SIZE])  # tables are built, caches warm
    for _ in range(rounds):
        for name, job in jobs.items():
            start = time.process_time()
            job(data)
            best[name] = min(best[name], time.process_time() - start)
    plain = best.pop("plain laplace")
    rows = {
        name: {"values_per_second": round(values / spent), "ratio_to_plain_laplace": round(plain / spent, 3)}
        for name, spent in best.items()
    }
    return {
        "epsilon": epsilon,
        "values": values,
        "rounds": rounds,
        "clock": "processor time of one core",
        "plain_laplace_values_per_second": round(values / plain),
        "mechanisms": rows,
        "target_values_per_second": TARGET,
        "target_met": all(row["values_per_second"] >= TARGET for row in rows.values()),
    }


def plain_laplace(values: NDArray[np.float64], epsilon: float) -> NDArray[np.float64]:
    """Laplace noise of scale 2/epsilon by inversion, in floats. Not private in its low bits: a yardstick."""
    reports, scale = np.empty(len(values)), 2.0 / epsilon
    for start in range(0, len(values), CHUNK_SIZE):
        part = values[start : start + CHUNK_SIZE]
        uniform = (uniform_words(len(part)) >> np.uint64(11)) * 2.0**-53 - 0.5
        reports[start : start + CHUNK_SIZE] = part - scale * np.sign(uniform) * np.log1p(
            -2.0 * np.abs(uniform) + 2.0**-53
        )
    return reports
