"""Synthetic electricity meters, asked for answers of a stated accuracy, for the served demonstration."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import TypedDict

from noisebank.account.account import Account
from noisebank.core.entropy import workload_rng


class Accuracy(TypedDict, total=False):
    """How accurate an answer must be, as `Account.ask` takes it."""

    within: str
    relative: str
    floor: str
    confidence: str


METER_COUNT = 3_000
DISTRICTS = ("harbour", "hill", "mill", "station")

POLICY = """\
# The public facts about the table. Prices and sensitivities come from here alone.
name = "meters"
source = "meters.csv"
neighbours = "replace-one"
rows = 3000

[budget]
epsilon = 2
delta = 1e-5

[columns.district]
type = "text"
keys = ["harbour", "hill", "mill", "station"]

[columns.kwh_a_day]
type = "integer"
bounds = [0, 60]

[columns.solar]
type = "boolean"

[queries]
average = "SELECT AVG(kwh_a_day) FROM meters"
solar = "SELECT COUNT(*) FROM meters WHERE solar"
"""

METER_REQUESTS: tuple[tuple[str, str, Accuracy], ...] = (
    ("maria", "average", {"within": "0.8"}),
    ("noor", "solar", {"within": "60"}),
    ("noor", "average", {"within": "1.5"}),
    ("maria", "SELECT COUNT(*) FROM meters WHERE kwh_a_day > 30", {"relative": "0.2", "floor": "300"}),
    ("noor", "average", {"within": "0.5", "confidence": "0.9"}),
)
"""Analyst, question, accuracy: within a distance, or a share of the true value if that is at least a floor."""


def write_meters(folder: Path, seed: int = 0) -> Path:
    """Write meters.csv and its policy into `folder`; return the policy's path."""
    random = workload_rng(seed)
    with (folder / "meters.csv").open("w", newline="") as file:
        rows = csv.writer(file, lineterminator="\n")
        rows.writerow(["district", "kwh_a_day", "solar"])
        for _ in range(METER_COUNT):
            district = random.choice(DISTRICTS)
            solar = random.random() < (0.35 if district == "hill" else 0.12)
            kwh = min(60, max(0, int(random.lognormvariate(2.4, 0.6)) - (5 if solar else 0)))
            rows.writerow([district, kwh, str(solar).lower()])
    policy = folder / "meters.toml"
    policy.write_text(POLICY)
    return policy


def ask_meters(account: Account) -> None:
    """Ask the requests of two analysts."""
    for number, (analyst, sql, accuracy) in enumerate(METER_REQUESTS):
        account.ask(sql, analyst=analyst, key=f"demo {number}", **accuracy)
