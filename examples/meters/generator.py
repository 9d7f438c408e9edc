"""Makes the meter platform's tables: the same invented meters every time, with a reading every hour."""

from __future__ import annotations

import math
import random
from datetime import date, datetime, timedelta

from examples.tables import Table, Value

SEED, METERS = 50, 40
FIRST_HOUR, HOURS = datetime(2026, 10, 29), 20 * 24
"""Across the change of the month; wall-clock time of the policy's zone."""
TARIFFS = {"day": 0.4, "night": 0.35, "solar": 0.25}
ZIPS = ("3000", "4051", "6900", "8001")
FIRMWARES = ("1.8", "2.0", "2.1")


def make_tables(seed: int = SEED) -> tuple[Table, ...]:
    """Returns readings and meters."""
    draw = random.Random(seed)
    meters: list[tuple[Value, ...]] = []
    readings: list[tuple[Value, ...]] = []
    for number in range(METERS):
        meter = f"M{100 + number}"
        tariff = draw.choices(tuple(TARIFFS), weights=tuple(TARIFFS.values()))[0]
        installed = date(2012, 1, 1) + timedelta(days=draw.randrange(14 * 365))
        meters.append((meter, tariff, draw.choice(ZIPS), installed))
        firmware, size = draw.choices(FIRMWARES, weights=(2, 3, 5))[0], draw.lognormvariate(0, 0.4)
        for hour in range(HOURS):
            read_at = FIRST_HOUR + timedelta(hours=hour)
            readings.append((meter, read_at, draw_energy(draw, read_at, size), draw_voltage(draw), firmware))
    return (
        Table("readings", ("meter_id", "read_at", "kwh", "voltage", "firmware"), readings),
        Table("meters", ("meter_id", "tariff", "zip", "installed"), meters),
    )


def draw_energy(draw: random.Random, read_at: datetime, size: float) -> float:
    """Returns the energy of one hour in kWh: least in the early morning, most in the evening."""
    level = 1.1 - 0.8 * math.cos((read_at.hour - 4) * math.pi / 12)
    return round(min(20.0, size * level * draw.lognormvariate(0, 0.5)), 3)


def draw_voltage(draw: random.Random) -> float:
    """Returns a voltage; now and then one that is out of the norm's range."""
    return round(min(280.0, max(180.0, draw.gauss(230, 4) + (draw.gauss(0, 18) if draw.random() < 0.02 else 0))), 1)
