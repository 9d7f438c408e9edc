"""Questions over the cells of a cube, and the tables that they are asked of: for `bench reuse` and its tests."""

from __future__ import annotations

import os
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from noisebank.core.entropy import simulation_rng
from noisebank.core.errors import BadRequest
from noisebank.planning.linear import LinearQuery, Vector, query_from_weights, range_query
from noisebank.planning.strategies.axes import Axis

if TYPE_CHECKING:
    from numpy.random import Generator

NAMES = ("range", "adult", "nettrace", "searchlogs", "marginals")
WANTED = (20.0, 200.0)
"""Standard deviations that are asked for, uniformly."""
TRACE_CELLS = 4096
TRACE_TOTALS = {"nettrace": 25_714, "searchlogs": 335_889}
AGES, EDUCATIONS = (17, 90), (1, 16)


@dataclass(frozen=True)
class Workload:
    """A cube, its true counts, and requests for counts with a wanted standard deviation."""

    name: str
    source: str
    """Where the counts come from."""
    axes: tuple[Axis, ...]
    counts: Vector
    queries: tuple[LinearQuery, ...]
    wanted: tuple[float, ...]

    @property
    def cells(self) -> int:
        """Of the cube."""
        return len(self.counts)


def make_workload(name: str, cells: int = 1024, queries: int = 3000, seed: int = 0) -> Workload:
    """A repeatable workload. `cells` counts for `range` only: the others have their own cubes."""
    generator = simulation_rng(100 + seed)
    if name == "range":
        return _ranges(name, "made up: Poisson counts with mean 100", cells, queries, generator)
    if name in TRACE_TOTALS:
        counts, source = _trace(name, generator)
        return _ranges(name, source, TRACE_CELLS, queries, generator, counts)
    if name == "adult":
        return _adult(queries, generator)
    if name == "marginals":
        return _marginals((8, 8, 4, 4), queries, generator)
    raise BadRequest("workload", name, f"must be one of {', '.join(NAMES)}")


def _ranges(
    name: str, source: str, cells: int, queries: int, generator: Generator, counts: Vector | None = None
) -> Workload:
    if cells < 1:
        raise BadRequest("cells", cells, "must be at least 1")
    ends = np.sort([generator.integers(0, cells, queries) for _ in range(2)], axis=0).T.tolist()
    asked = tuple(range_query(cells, low, high + 1) for low, high in ends)
    wanted = tuple(generator.uniform(*WANTED, queries).tolist())
    if counts is None:
        counts = generator.poisson(100, cells).astype(float)
    return Workload(name, source, (Axis(cells, True),), counts, asked, wanted)


def _trace(name: str, generator: Generator) -> tuple[Vector, str]:
    """The histogram of P1's experiments, or one of the same length, total and kind."""
    folder = os.environ.get("NOISEBANK_DATA")
    path = Path(folder or ".") / f"{name}_{TRACE_CELLS}.npy"
    if folder and path.exists():
        return np.load(path).astype(float), path.name
    if name == "nettrace":  # a few large hosts, most of them silent
        weights = generator.pareto(0.8, TRACE_CELLS) * (generator.random(TRACE_CELLS) < 0.3)
    else:  # a level that drifts, with bursts
        weights = np.exp(np.cumsum(generator.normal(0, 0.05, TRACE_CELLS))) + generator.pareto(2.5, TRACE_CELLS)
    counts = generator.multinomial(TRACE_TOTALS[name], weights / weights.sum()).astype(float)
    return counts, f"made up in the shape of {name}: NOISEBANK_DATA has no {path.name}"


def _adult(queries: int, generator: Generator) -> Workload:
    """Half ranges of age and education, half counts of two given values; sex and income are the other columns."""
    shape = (AGES[1] - AGES[0] + 1, EDUCATIONS[1] - EDUCATIONS[0] + 1, 2, 2)
    counts, source = _census(shape, generator)
    asked = []
    for place in range(queries):
        chosen = np.zeros(shape, dtype=np.int64)
        if place % 2:
            spots: list[slice | int] = [slice(None)] * 4
            for axis in generator.choice(4, 2, replace=False).tolist():
                spots[axis] = int(generator.integers(shape[axis]))
        else:
            ends = [np.sort(generator.integers(0, side, 2)).tolist() for side in shape[:2]]
            spots = [*(slice(low, high + 1) for low, high in ends), slice(None), slice(None)]
        chosen[tuple(spots)] = 1
        asked.append(query_from_weights(chosen.reshape(-1))[0])
    axes = (Axis(shape[0], True), Axis(shape[1], True), Axis(2, False), Axis(2, False))
    wanted = tuple(generator.uniform(*WANTED, queries).tolist())
    return Workload("adult", source, axes, counts, tuple(asked), wanted)


def _census(shape: tuple[int, ...], generator: Generator) -> tuple[Vector, str]:
    folder = os.environ.get("NOISEBANK_DATA")
    path = Path(folder or ".") / "adult.data"
    counts = np.zeros(shape)
    if folder and path.exists():
        for line in path.read_text().splitlines():
            fields = [field.strip() for field in line.split(",")]
            if len(fields) == 15:
                age, education = int(fields[0]) - AGES[0], int(fields[4]) - EDUCATIONS[0]
                counts[age, education, int(fields[9] == "Male"), int(fields[14].startswith(">"))] += 1
        return counts.reshape(-1), path.name
    people = 32_560  # as many as Adult has; ages and schooling like the demo's survey
    ages = np.clip(generator.normal(39, 14, people).astype(int), *AGES) - AGES[0]
    schooling = np.clip(generator.normal(10, 2.6, people).astype(int), *EDUCATIONS) - EDUCATIONS[0]
    male, rich = (generator.random(people) < 0.67).astype(int), (generator.random(people) < 0.24).astype(int)
    np.add.at(counts, (ages, schooling, male, rich), 1)
    return counts.reshape(-1), "made up in the shape of Adult: NOISEBANK_DATA has no adult.data"


def _marginals(shape: tuple[int, ...], queries: int, generator: Generator) -> Workload:
    """Counts of two given values of two attributes."""
    asked = []
    for _ in range(queries):
        chosen = np.zeros(shape, dtype=np.int64)
        spots: list[slice | int] = [slice(None)] * len(shape)
        for axis in generator.choice(len(shape), 2, replace=False).tolist():
            spots[axis] = int(generator.integers(shape[axis]))
        chosen[tuple(spots)] = 1
        asked.append(query_from_weights(chosen.reshape(-1))[0])
    counts = generator.poisson(100, prod(shape)).astype(float)
    wanted = tuple(generator.uniform(*WANTED, queries).tolist())
    source = "made up: Poisson counts with mean 100"
    return Workload("marginals", source, tuple(Axis(side, False) for side in shape), counts, tuple(asked), wanted)
