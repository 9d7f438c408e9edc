"""Tables for `reproduce fedsgd`. Those of the thesis (WISDM, IPUMS Mexico and Brazil, Vehicle) cannot be had.

Stand-ins, each named on every chart: `diamonds` (53,940 real rows, from the package pydataset or NOISEBANK_DATA) and
Adult (32,561 real rows, from NOISEBANK_DATA; without it DoctorContacts of pydataset, 20,186 real rows); and synthetic
tables of the shape of BR (90 numbers) and Vehicle (101). Where a real table is missing
too, a synthetic one of its shape takes its place.
"""

from __future__ import annotations

import csv
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from noisebank.core.entropy import simulation_rng
from noisebank.federated.fedsgd import Design
from noisebank.federated.ldp import Category, Number, Schema
from research.ldp.tables import DATA
from research.packaged import read_records

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

DIAMOND_RANGES = {
    "carat": (0.23, 2.31), "depth": (57.3, 66.5), "table": (53.0, 65.0), "x": (3.95, 8.51), "y": (3.98695, 8.49),
    "z": (2.44, 5.25),
}  # fmt: skip
"""0.5% and 99.5% of each column: in a real task such ranges are agreed on beforehand."""
MEDIAN_PRICE, PRICES = 2401.0, (0.0, 19_000.0)
ADULT_COLUMNS = (
    "age", "workclass", "fnlwgt", "education", "education_num", "marital_status", "occupation", "relationship", "race",
    "sex", "capital_gain", "capital_loss", "hours_per_week", "native_country", "income",
)  # fmt: skip
ADULT_RANGES = {
    "age": (17.0, 90.0), "education_num": (1.0, 16.0), "capital_gain": (0.0, 20_000.0), "capital_loss": (0.0, 2_500.0),
    "hours_per_week": (1.0, 99.0),
}  # fmt: skip
ADULT_KEPT = ("age", "education_num", "capital_gain", "capital_loss", "hours_per_week", "sex", "relationship")
"""Twelve numbers in all. With every column there are 101, too many for 32,561 devices at epsilon 1 or less."""
DOCTOR_RANGES = {
    "lc": (0.0, 4.62), "lpi": (0.0, 7.17), "fmde": (0.0, 8.3), "ndisease": (0.0, 59.0), "linc": (0.0, 10.4),
    "lfam": (0.0, 2.64), "educdec": (0.0, 25.0), "age": (0.0, 65.0),
}  # fmt: skip
"""Of the health insurance experiment of RAND; the class is whether somebody saw a doctor in the year."""
CENSUS = (9, 9, 9, 9, 9, 10, 10, 10, 9, 9)
"""Values of ten categories: with six numbers and the intercept, 90 numbers, as BR has."""
SYNTHETIC_ROWS = {"diamonds": 53_940, "adult": 32_561, "census": 60_000, "vehicle": 50_000}
"""BR has 4 million, Vehicle 98,528."""


@dataclass(frozen=True)
class LearningTable:
    """Rows in [-1, 1]^d with a 1 at the end; classes -1 and 1; a number in [-1, 1], with rows of its own."""

    title: str
    source: str
    real: bool
    rows: Floats
    classes: Floats
    number_rows: Floats
    numbers: Floats

    def task(self, model: str) -> tuple[Floats, Floats]:
        """What a model is trained on."""
        return (self.number_rows, self.numbers) if model == "linear" else (self.rows, self.classes)


@lru_cache(maxsize=8)
def table(name: str, quick: bool = False) -> LearningTable:
    """diamonds, adult, census or vehicle; `quick` takes a third of a synthetic table's rows."""
    if name == "diamonds":
        return _diamonds() or _synthetic("diamonds", "like diamonds", 6, (), quick)
    if name == "adult":
        return _adult() or _doctors() or _synthetic("adult", "like Adult", 5, (2, 6), quick)
    if name == "census":
        return _synthetic("census", "like BR", 6, CENSUS, quick)
    return _synthetic("vehicle", "like Vehicle", 100, (), quick)


def _diamonds() -> LearningTable | None:
    records, source = read_records("diamonds")
    if not records:
        return None
    columns = {name: [float(row[name]) for row in records] for name in (*DIAMOND_RANGES, "price")}
    ranges = tuple(Number(name, *bounds) for name, bounds in DIAMOND_RANGES.items())
    rows, numbers = Design(Schema((*ranges, Number("price", *PRICES))), "price").build_rows(columns)
    classes = np.where(np.array(columns["price"]) > MEDIAN_PRICE, 1.0, -1.0)
    return LearningTable(f"diamonds, {len(rows):,} rows", source, True, rows, classes, rows, numbers)


def _doctors() -> LearningTable | None:
    """Adult's place where NOISEBANK_DATA does not have it: a real table that a package ships."""
    records, source = read_records("DoctorContacts")
    if not records:
        return None
    columns = {name: [float(row[name]) for row in records] for name in DOCTOR_RANGES}
    classes = np.where(np.array([float(row["mdu"]) for row in records]) > 0.0, 1.0, -1.0)
    ranges = tuple(Number(name, *bounds) for name, bounds in DOCTOR_RANGES.items())
    number_rows, numbers = Design(Schema(ranges), "linc").build_rows(columns)
    low, high = (np.array([bounds[end] for bounds in DOCTOR_RANGES.values()]) for end in (0, 1))
    scaled = 2.0 * (np.stack([columns[name] for name in DOCTOR_RANGES], axis=1) - low) / (high - low) - 1.0
    rows = np.concatenate([np.clip(scaled, -1.0, 1.0), np.ones((len(records), 1))], axis=1)
    return LearningTable(f"doctor contacts, {len(rows):,} rows", source, True, rows, classes, number_rows, numbers)


def _adult() -> LearningTable | None:
    folder = os.environ.get(DATA)
    path = Path(folder) / "adult.data" if folder else None
    if path is None or not path.is_file():
        return None
    with path.open(newline="") as lines:
        records = [[cell.strip() for cell in row] for row in csv.reader(lines) if len(row) == len(ADULT_COLUMNS)]
    columns: dict[str, Sequence[object]] = dict(zip(ADULT_COLUMNS, zip(*records, strict=True), strict=True))
    for name in ADULT_RANGES:
        columns[name] = [float(str(cell)) for cell in columns[name]]
    rows, classes = _designed(columns, "income").build_rows(columns)
    number_rows, numbers = _designed(columns, "age").build_rows(columns)
    return LearningTable(
        f"Adult, {len(rows):,} rows", f"adult.data in {DATA}", True, rows, classes, number_rows, numbers
    )


def _designed(columns: Mapping[str, Sequence[object]], target: str) -> Design:
    """Income from the kept columns, or age from them and income."""
    parts: list[Number | Category] = []
    for name in (*ADULT_KEPT, "income"):
        if name in ADULT_RANGES:
            parts.append(Number(name, *ADULT_RANGES[name]))
        else:
            parts.append(Category(name, tuple(sorted({str(cell) for cell in columns[name]}))))
    return Design(Schema(tuple(parts)), target)


def _synthetic(kind: str, title: str, numbers: int, categories: Sequence[int], quick: bool) -> LearningTable:
    """Numbers and categories with one hidden cause, which class and number follow with noise."""
    count = SYNTHETIC_ROWS[kind] // (3 if quick else 1)
    generator = simulation_rng(3800 + sum(kind.encode()))
    hidden = generator.normal(0.0, 1.0, count)
    pull = generator.uniform(0.1, 0.4, numbers) * generator.choice([-1.0, 1.0], numbers)
    plain = 0.3 * generator.normal(0.0, 1.0, (count, numbers)) + hidden[:, None] * pull
    blocks = [np.clip(plain, -1.0, 1.0)]
    for values in categories:
        tilt, noise = generator.normal(0.0, 0.8, values), generator.gumbel(0.0, 1.0, (count, values))
        chosen = np.argmax(hidden[:, None] * tilt + noise, axis=1)
        blocks.append(np.where(chosen[:, None] == np.arange(values - 1), 1.0, -1.0))
    rows = np.concatenate([*blocks, np.ones((count, 1))], axis=1)
    classes = np.where(hidden + 0.3 * generator.normal(0.0, 1.0, count) > 0.0, 1.0, -1.0)
    target = np.clip(0.3 * hidden + 0.1 * generator.normal(0.0, 1.0, count) - 0.2, -1.0, 1.0)
    named = f"{title} (synthetic), {count:,} rows"
    source = f"synthetic: {numbers} numbers, {len(categories)} categories"
    return LearningTable(named, source, False, rows, classes, rows, target)
