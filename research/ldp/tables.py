"""Tables for the mean-estimation figures: stand-ins of the same shape, Gaussian ones, and Adult where it can be had.

The tables of Figure 3.6 (WISDM, IPUMS Mexico and Brazil, Vehicle) cannot be had. What matters to the experiment is how
many attributes there are, how many of them are numbers, and how these are spread over [-1, 1]; the stand-ins copy the
first two and use skewed, bell-shaped and bounded columns for the third.
"""

from __future__ import annotations

import csv
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from noisebank.core.entropy import simulation_rng
from noisebank.federated.ldp.catalogue import build_sampler
from noisebank.federated.ldp.levels import QuantizedMixture
from noisebank.federated.ldp.mixture import Mixture
from noisebank.federated.ldp.vectors import VectorMechanism, choose_coordinates, make_published_vector_mechanism
from research.packaged import read_records

if TYPE_CHECKING:
    from numpy.typing import NDArray

DATA = "NOISEBANK_DATA"
ADULT_NUMBERS = (0, 2, 4, 10, 11, 12)
"""Places of age, fnlwgt, education_num, capital_gain, capital_loss and hours_per_week."""
GAUSSIAN_MEANS = (0.0, 1 / 3, 2 / 3, 1.0)


@dataclass(frozen=True, slots=True)
class Numbers:
    """The numeric attributes of a table, scaled to [-1, 1], and how many attributes the table has in all."""

    title: str
    attributes: int
    rows: NDArray[np.float64]
    made_up: bool = False


def stand_ins(rows: int) -> list[Numbers]:
    """Of the four tables of Figure 3.6: (numeric, all) attributes as there."""
    shapes = (("WISDM", 3, 5), ("MX", 5, 19), ("BR", 6, 16), ("Vehicle", 6, 7))
    return [
        Numbers(f"like {name}: {numeric} of {every} attributes", every, _columns(seed, rows, numeric), made_up=True)
        for seed, (name, numeric, every) in enumerate(shapes)
    ]


def _columns(seed: int, rows: int, count: int) -> NDArray[np.float64]:
    generator = simulation_rng(300 + seed)
    kinds = (
        lambda: generator.normal(-0.1, 0.2, rows),
        lambda: 2.0 * generator.beta(1.2, 6.0, rows) - 1.0,
        lambda: 2.0 * generator.beta(4.0, 3.0, rows) - 1.0,
    )
    return np.clip(np.stack([kinds[i % 3]() for i in range(count)], axis=1), -1.0, 1.0)


def gaussian(mean: float, rows: int, dimension: int = 16) -> Numbers:
    """Figure 3.7: N(mean, 1/4), clipped to [-1, 1]."""
    table = np.clip(simulation_rng(370).normal(mean, 0.25, (rows, dimension)), -1.0, 1.0)
    return Numbers(f"{dimension} numbers, N({mean:.2g}, ¼) clipped", dimension, table)


PACKAGED = {
    "diamonds": (("carat", "depth", "table", "price", "x", "y", "z"), 10),
    "DoctorContacts": (("mdu", "lc", "lpi", "fmde", "ndisease", "linc", "lfam", "educdec", "age"), 15),
}
"""Real tables that pydataset ships: their numeric attributes, and how many attributes they have in all."""


def packaged() -> list[Numbers]:
    """Real tables of packages, scaled by their own extremes; none where pydataset is not installed."""
    found = []
    for name, (columns, every) in PACKAGED.items():
        records, _ = read_records(name)
        if records:
            table = np.array([[float(row[column]) for column in columns] for row in records])
            low, high = table.min(axis=0), table.max(axis=0)
            title = f"{name} (real): {len(columns)} of {every} attributes"
            found.append(Numbers(title, every, 2.0 * (table - low) / (high - low) - 1.0))
    return found


def adult() -> Numbers | None:
    """The numeric columns of Adult, from the folder that NOISEBANK_DATA names; None if there is none."""
    folder = os.environ.get(DATA)
    path = Path(folder) / "adult.data" if folder else None
    if path is None or not path.is_file():
        return None
    with path.open(newline="") as lines:
        found = [[float(row[i]) for i in ADULT_NUMBERS] for row in csv.reader(lines) if len(row) > max(ADULT_NUMBERS)]
    table = np.array(found)
    low, high = table.min(axis=0), table.max(axis=0)
    return Numbers("Adult (real): 6 of 15 attributes", 15, 2.0 * (table - low) / (high - low) - 1.0)


@dataclass(frozen=True, slots=True)
class Errors:
    """Mean squared errors of a mean along epsilon: from the exact moments over the table, and as measured."""

    expected: list[float]
    measured: list[float]


def errors(
    table: Numbers, names: tuple[str, ...], epsilons: tuple[float, ...], runs: int, levels: int | None = None
) -> dict[str, Errors]:
    """For each mechanism, averaged over attributes; what is measured, over runs too.

    As in section 3.5.1: the numbers of a table get their share d_n/d of epsilon; k and parameters as published.
    """
    truth, (rows, dimension) = table.rows.mean(axis=0), table.rows.shape
    share = dimension / table.attributes
    found: dict[str, Errors] = {}
    for name in names:
        expected, measured = [], []
        for epsilon in epsilons:
            made = make_published_vector_mechanism(name, epsilon * share, dimension)
            squares = [np.square(_mean(made, table.rows, levels) - truth).mean() for _ in range(runs)]
            expected.append((average_variance(made, table.rows) + made.scale * added(made, levels)) / rows)
            measured.append(float(np.mean(squares)))
        found[name] = Errors(expected, measured)
    return found


def average_variance(made: VectorMechanism, rows: NDArray[np.float64]) -> float:
    """Of one device's coordinate, averaged over the table."""
    moments, square = made.coordinate_params.moments, float(np.square(rows).mean())
    second = moments.constant + moments.linear * float(np.abs(rows).mean()) + moments.quadratic * square
    return made.scale * second - square


def added(made: VectorMechanism, levels: int | None) -> float:
    """What rounding to levels adds to the variance of a sent number: beta A^2 / (6 m^2)."""
    return (
        0.0
        if levels is None
        else made.coordinate_params.beta * made.coordinate_params.output_bound**2 / (6.0 * levels**2)
    )


def _mean(made: VectorMechanism, rows: NDArray[np.float64], levels: int | None) -> NDArray[np.float64]:
    """The estimated means, each report rounded to 2 levels + 1 outputs if that is asked for."""
    one: Any = build_sampler(made.coordinate_params)
    if levels is None or not isinstance(one, Mixture):
        return made.estimate_mean(made.draw_reports(rows))
    indices = choose_coordinates(len(rows), made.dimension, made.sent_count)
    values = QuantizedMixture(one, levels).perturb(np.take_along_axis(rows, indices, axis=1)).reshape(-1)
    sums = np.bincount(indices.reshape(-1), weights=values, minlength=made.dimension)
    return np.asarray(made.scale * sums / len(rows))
