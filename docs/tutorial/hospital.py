"""Makes hospital.csv for the tutorial: 2,000 invented patients, the same ones every time.

python hospital.py          # writes hospital.csv into this folder
"""

from __future__ import annotations

import csv
import random
import sys
from pathlib import Path

PATIENTS, SEED = 2_000, 2026
WARDS = {"surgery": 6.0, "medicine": 5.0, "maternity": 3.0, "paediatrics": 2.5}
"""Nights that a stay lasts on average."""
NOTES = ("letter sent on day {}", "blood pressure {} at discharge", "next visit in {} days, by phone")


def make_patients(seed: int = SEED) -> list[list[str]]:
    """Returns the header and one row per patient."""
    draw = random.Random(seed)
    rows = [["patient", "age", "ward", "smoker", "nights", "cost", "note"]]
    for number in range(PATIENTS):
        ward = draw.choices(tuple(WARDS), weights=(4, 5, 2, 2))[0]
        age = draw_age(draw, ward)
        smoker = age > 15 and draw.random() < 0.23
        nights = min(60, 1 + int(draw.expovariate(1 / WARDS[ward]) * (1.3 if smoker else 1)))
        cost = "" if draw.random() < 0.02 else f"{nights * draw.uniform(380, 900):.2f}"
        note = draw.choice(NOTES).format(draw.randint(1, 400)) if draw.random() < 0.6 else ""
        rows.append([f"H{10_000 + number}", str(age), ward, "yes" if smoker else "no", str(nights), cost, note])
    return rows


def draw_age(draw: random.Random, ward: str) -> int:
    """Returns an age that goes with the ward."""
    if ward == "paediatrics":
        return draw.randint(0, 15)
    if ward == "maternity":
        return min(48, max(17, round(draw.gauss(30, 5))))
    return min(99, max(16, round(draw.gauss(58, 18))))


def write_table(path: Path) -> None:
    """Writes the table as CSV with a header."""
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file, lineterminator="\n").writerows(make_patients())


if __name__ == "__main__":
    write_table(Path(sys.argv[1] if len(sys.argv) > 1 else "hospital.csv"))
