"""Makes the hospital's tables: the same invented patients every time."""

from __future__ import annotations

import random
from datetime import date, timedelta

from examples.tables import Table

SEED, PATIENTS = 2026, 1_200
REGIONS = {"north": 410_000, "south": 275_000, "east": 180_000, "west": 330_000}
WARDS = {"medicine": (30, 5.0), "surgery": (26, 6.0), "cardiology": (18, 4.5), "oncology": (12, 8.0),
         "maternity": (12, 3.0), "palliative": (1, 11.0)}  # fmt: skip
"""How often, and how many nights on average."""
DIAGNOSES = {
    "medicine": ("J18", "E11", "N39"),
    "surgery": ("K35", "S72", "K80"),
    "cardiology": ("I20", "I21", "I25", "I48", "I50"),
    "oncology": ("C34", "C50", "C18"),
    "maternity": ("O80", "O82"),
    "palliative": ("C34", "I50"),
}
FIRST_DAY, LAST_DAY = date(2024, 1, 1), date(2026, 11, 15)
MAX_STAYS, MAX_NIGHTS, MAX_COST = 10, 60, 50_000


def make_tables(seed: int = SEED) -> tuple[Table, ...]:
    """Returns patients, stays and regions."""
    draw = random.Random(seed)
    patients: list[tuple[str, str, int, str]] = []
    stays: list[tuple[str, date, date, str, str, int, bool]] = []
    for number in range(PATIENTS):
        patient, sex = f"P{10_000 + number}", draw.choice("fm")
        birth_year = min(2024, max(1925, round(draw.gauss(1966, 23))))
        region = draw.choices(tuple(REGIONS), weights=tuple(REGIONS.values()))[0]
        patients.append((patient, sex, birth_year, region))
        count = min(MAX_STAYS, int(draw.expovariate(0.55)))
        stays += [make_stay(draw, patient, sex, birth_year) for _ in range(count)]
    draw.shuffle(stays)
    return (
        Table("patients", ("patient_id", "sex", "birth_year", "region"), patients),
        Table(
            "stays", ("patient_id", "admitted", "discharged", "ward", "diagnosis", "cost", "readmitted"), stays
        ),
        Table("regions", ("region", "name", "population"), [
            (region, f"{region.capitalize()} region", population) for region, population in REGIONS.items()
        ]),
    )  # fmt: skip


def make_stay(
    draw: random.Random, patient: str, sex: str, birth_year: int
) -> tuple[str, date, date, str, str, int, bool]:
    """Returns one stay."""
    wards = [ward for ward in WARDS if ward != "maternity" or (sex == "f" and 1976 <= birth_year <= 2008)]
    ward = draw.choices(wards, weights=[WARDS[name][0] for name in wards])[0]
    nights = min(MAX_NIGHTS, int(draw.expovariate(1 / WARDS[ward][1])))
    admitted = FIRST_DAY + timedelta(days=draw.randrange((LAST_DAY - FIRST_DAY).days))
    cost = min(MAX_COST, round(400 + nights * draw.uniform(450, 1_100) + draw.expovariate(1 / 600)))
    readmitted = draw.random() < 0.08 + (0.06 if birth_year < 1950 else 0)
    diagnosis = draw.choice(DIAGNOSES[ward])
    return patient, admitted, admitted + timedelta(days=nights), ward, diagnosis, cost, readmitted
