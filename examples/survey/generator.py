"""Makes the statistics office's tables: the same invented persons every time."""

from __future__ import annotations

import random

from examples.tables import Table, Value

SEED, PERSONS = 1848, 3_000
CANTONS = {
    "ZH": ("German", 1729, 30), "BE": ("German", 5959, 21), "LU": ("German", 1494, 9), "BS": ("German", 37, 5),
    "VD": ("French", 3212, 17), "GE": ("French", 282, 11), "TI": ("Italian", 2812, 7),
}  # fmt: skip
"""Language, area in km2, and how frequent."""
EDUCATION = {"primary": 0.62, "secondary": 0.9, "tertiary": 1.35, "doctorate": 1.8}
"""With the factor by which incomes differ."""
MAX_INCOME = 200_000


def make_tables(seed: int = SEED) -> tuple[Table, ...]:
    """Returns persons and cantons."""
    draw = random.Random(seed)
    persons = [make_person(draw, number) for number in range(PERSONS)]
    columns = ("person_id", "household_id", "age", "sex", "canton", "education", "status", "income", "hours", "weight")
    cantons = [(name, language, area) for name, (language, area, _) in CANTONS.items()]
    return Table("persons", columns, persons), Table("cantons", ("canton", "language", "area_km2"), cantons)


def make_person(draw: random.Random, number: int) -> tuple[Value, ...]:
    """Returns one person."""
    age = min(99, int(abs(draw.gauss(38, 24))))
    sex, canton = draw.choice("fm"), draw.choices(tuple(CANTONS), weights=[each[2] for each in CANTONS.values()])[0]
    education = draw_education(draw, age)
    status = draw_status(draw, age)
    hours = 0 if status != "employed" else min(80, max(4, round(draw.gauss(41 if sex == "m" else 34, 9))))
    income = draw_income(draw, age, status, hours, education)
    weight = round(draw.uniform(0.6, 2.4), 2)
    return number + 1, 1 + number // 2, age, sex, canton, education, status, income, hours, weight


def draw_education(draw: random.Random, age: int) -> str | None:
    """Returns a level; None if it is not known."""
    if draw.random() < 0.04:
        return None
    if age < 18:
        return "primary"
    return draw.choices(tuple(EDUCATION), weights=(14, 46, 36, 4))[0]


def draw_status(draw: random.Random, age: int) -> str:
    """Returns what somebody of that age does."""
    if age < 16:
        return "student"
    if age >= 65:
        return "retired"
    if age < 25 and draw.random() < 0.55:
        return "student"
    return draw.choices(("employed", "unemployed", "other"), weights=(84, 6, 10))[0]


def draw_income(draw: random.Random, age: int, status: str, hours: int, education: str | None) -> int:
    """Returns a yearly income in francs."""
    base = {"employed": 1_450.0 * hours, "retired": 42_000.0, "unemployed": 26_000.0, "student": 4_000.0}
    level = base.get(status, 18_000.0) * (EDUCATION[education] if education and age >= 18 else 0.9)
    experience = 1 + 0.006 * (min(age, 60) - 40)
    return min(MAX_INCOME, max(0, round(level * experience * draw.lognormvariate(0, 0.28))))
