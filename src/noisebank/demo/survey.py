"""A synthetic survey of the same shape as the reuse paper's: 5,000 people, five columns, five queries."""

from __future__ import annotations

import csv
from pathlib import Path

from noisebank.core.entropy import workload_rng

PERSON_COUNT = 5_000
RACES = ("white", "black", "asian", "native", "other")
STATUSES = ("citizen", "naturalized", "not a citizen")

POLICY = """\
# The public facts about the table. Prices and sensitivities come from here alone.
name = "survey"
source = "survey.csv"
neighbours = "replace-one"   # one person's row may become any other row
rows = 5000                  # so the number of rows is public

[budget]
epsilon = 8
delta = 1e-4

[columns.personal_income]
type = "integer"
bounds = [-10000, 1000000]   # values beyond are clipped

[columns.family_income]
type = "integer"
bounds = [-20000, 2000000]

[columns.age]
type = "integer"
bounds = [0, 120]

[columns.race]
type = "text"
keys = ["white", "black", "asian", "native", "other"]

[columns.citizenship]
type = "text"
keys = ["citizen", "naturalized", "not a citizen"]

[queries]
personal_income = "SELECT AVG(personal_income) FROM survey"
family_income = "SELECT AVG(family_income) FROM survey"
citizens = "SELECT AVG(citizenship <> 'not a citizen') FROM survey"
white = "SELECT AVG(race = 'white') FROM survey"
over_60 = "SELECT AVG(age > 60) FROM survey"
"""


def write_survey(folder: Path, seed: int = 0) -> Path:
    """Write survey.csv and its policy into `folder`; return the policy's path."""
    random = workload_rng(seed)
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "survey.csv").open("w", newline="") as file:
        rows = csv.writer(file, lineterminator="\n")
        rows.writerow(["personal_income", "family_income", "age", "race", "citizenship"])
        for person in range(PERSON_COUNT):
            income = int(random.lognormvariate(10.3, 0.9)) if random.random() < 0.85 else 0
            others = int(random.lognormvariate(10.1, 1.0)) if random.random() < 0.6 else 0
            income, others = min(income, 700_000), min(others, 679_500)
            if person < 2:  # the extremes that the paper reports
                income, others = ((700_000, 679_500), (-5_000, 0))[person]
            age = min(95, max(16, int(random.gauss(45, 19))))
            race = random.choices(RACES, (72, 13, 6, 1, 8))[0]
            status = random.choices(STATUSES, (86, 7, 7))[0]
            rows.writerow([income, income + others, age, race, status])
    policy = folder / "survey.toml"
    policy.write_text(POLICY)
    return policy
