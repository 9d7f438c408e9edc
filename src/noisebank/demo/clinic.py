"""A synthetic clinic with a cube of stays by ward and age, for the served demonstration."""

from __future__ import annotations

import csv
from pathlib import Path

from noisebank.account.account import Account
from noisebank.core.entropy import workload_rng

STAY_COUNT = 4_000
WARDS = ("cardiology", "maternity", "oncology", "paediatrics", "surgery")

POLICY = """\
# The public facts about the table. Prices and sensitivities come from here alone.
name = "clinic"
source = "clinic.csv"
neighbours = "replace-one"
rows = 4000
cubes = [["ward", "age"]]

[budget]
epsilon = 3
delta = 1e-5

[columns.ward]
type = "text"
keys = ["cardiology", "maternity", "oncology", "paediatrics", "surgery"]

[columns.age]
type = "integer"
bounds = [0, 110]
bins = [10, 20, 30, 40, 50, 60, 70, 80]

[columns.days]
type = "integer"
bounds = [0, 60]

[columns.smoker]
type = "boolean"

[columns.readmitted]
type = "boolean"

[queries]
stays_by_ward = "SELECT ward, COUNT(*) FROM clinic GROUP BY ward"
smokers = "SELECT COUNT(*) FROM clinic WHERE smoker"
readmitted = "SELECT AVG(readmitted) FROM clinic"
days = "SELECT AVG(days) FROM clinic"
"""

CLINIC_REQUESTS = (
    ("maria", "smokers", "0.1"), ("noor", "days", "0.15"), ("noor", "smokers", "0.1"), ("noor", "smokers", "0.2"),
    ("maria", "stays_by_ward", "0.15"), ("maria", "SELECT COUNT(*) FROM clinic WHERE ward = 'oncology'", "0.15"),
    ("maria", "SELECT COUNT(*) FROM clinic WHERE ward = 'oncology' AND age >= 60", "0.15"),
    ("maria", "SELECT COUNT(*) FROM clinic WHERE age >= 70", "0.2"), ("maria", "readmitted", "0.1"),
    ("maria", "SELECT COUNT(*) FROM clinic WHERE ward = 'surgery' AND age < 30", "0.2"), ("noor", "days", "0.1"),
    ("maria", "stays_by_ward", "0.1"), ("maria", "SELECT age, COUNT(*) FROM clinic GROUP BY age", "0.15"),
    ("maria", "SELECT COUNT(*) FROM clinic WHERE ward = 'cardiology' AND age >= 50", "0.25"),
    ("maria", "smokers", "0.15"), ("maria", "SELECT COUNT(*) FROM clinic WHERE age BETWEEN 20 AND 59", "0.1"),
    ("maria", "SELECT COUNT(*) FROM clinic WHERE ward IN ('surgery', 'cardiology', 'oncology')", "0.1"),
    ("noor", "days", "0.2"), ("noor", "readmitted", "0.1"), ("maria", "SELECT MEDIAN(age) FROM clinic", "0.1"),
    ("maria", "SELECT COUNT(*) FROM clinic WHERE age < 20", "0.1"),
    ("maria", "SELECT ward, COUNT(*) FROM clinic WHERE age >= 60 GROUP BY ward", "0.15"),
)  # fmt: skip
"""Analyst, question, epsilon. Most of the later ones follow from earlier ones."""


def write_clinic(folder: Path, seed: int = 0) -> Path:
    """Write clinic.csv and its policy into `folder`; return the policy's path."""
    random = workload_rng(seed)
    with (folder / "clinic.csv").open("w", newline="") as file:
        rows = csv.writer(file, lineterminator="\n")
        rows.writerow(["ward", "age", "days", "smoker", "readmitted"])
        for _ in range(STAY_COUNT):
            ward = random.choices(WARDS, (24, 18, 17, 15, 26))[0]
            middle = {"maternity": 31, "paediatrics": 8}.get(ward, 62)
            age = min(99, max(0, int(random.gauss(middle, 6 if middle < 40 else 15))))
            days = min(60, 1 + int(random.expovariate(1 / (3 if ward == "maternity" else 6))))
            smoker = age >= 16 and random.random() < 0.21
            rows.writerow([ward, age, days, str(smoker).lower(), str(random.random() < 0.12).lower()])
    policy = folder / "clinic.toml"
    policy.write_text(POLICY)
    return policy


def ask_clinic(account: Account) -> None:
    """Ask the requests of two analysts."""
    for number, (analyst, sql, epsilon) in enumerate(CLINIC_REQUESTS):
        account.ask(sql, epsilon=epsilon, delta="1e-6", analyst=analyst, key=f"demo {number}")
