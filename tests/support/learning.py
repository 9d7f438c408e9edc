"""Small tasks, records and tables for tests of LDP-FedSGD."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from support.internals import Category, Design, Number, Schema, Task, simulation_rng

DESIGN = Design(
    Schema((Number("age", 0, 100), Category("town", ("n", "s", "e")), Category("buys", ("no", "yes")))), "buys"
)
PRICED = Design(Schema((Number("age", 0, 100), Number("price", -5, 5))), "price")
RECORD = {"age": 30, "town": "s", "buys": "yes"}


def task(**other: Any) -> Task:
    given = {"name": "offers", "design": DESIGN, "epsilon": "1", "group": 5, "devices": 20}
    return Task(**{**given, **other})


def people(count: int, seed: int = 1) -> dict[str, list[object]]:
    generator = simulation_rng(seed)
    ages, towns = generator.uniform(0, 100, count), generator.integers(0, 3, count)
    buys = ages / 50 - 1 + 0.5 * (towns == 0) + generator.normal(0, 0.2, count) > 0
    return {
        "age": [float(age) for age in ages],
        "town": ["nse"[town] for town in towns],
        "buys": ["yes" if yes else "no" for yes in buys],
    }


def table(count: int, seed: int = 1) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    return DESIGN.build_rows(people(count, seed))
