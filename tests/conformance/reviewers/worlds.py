"""Three more worlds: an HR table, a clinical trial, and the events of a web site."""

from __future__ import annotations

import random
from datetime import date, datetime, timedelta
from pathlib import Path

from examples.tables import Table
from examples.worlds import WORLDS, World

HERE = Path(__file__).parent
SEED = 1123
DEPARTMENTS = ("Sales", "Engineering", "Support", "R&D", "HR")
SITES = ("AT-01", "AT-02", "CH-01", "DE-01", "DE-07")
ARMS = ("placebo", "low dose", "high dose")
PAGES = ("/", "/cart", "/checkout", "/product/1", "/product/2", "/search")


def make_employees(seed: int = SEED) -> tuple[Table, ...]:
    """Returns the employees of a company."""
    draw = random.Random(seed)
    rows = []
    for number in range(500):
        birth = date(1955, 1, 1) + timedelta(days=draw.randrange(48 * 365))
        hired = date(2006, 1, 1) + timedelta(days=draw.randrange(20 * 365))
        left = None if draw.random() < 0.6 else hired + timedelta(days=draw.choice((365, 366, draw.randrange(2000))))
        left = None if left is not None and left > date(2026, 12, 31) else left
        grade = draw.randrange(1, 11)
        salary = 25_000 + 8_000 * grade + draw.randrange(0, 40) * 500
        rows.append((
            f"E{number}", draw.choices(DEPARTMENTS, (8, 6, 4, 2, 1))[0], draw.choices(("f", "m", "x"), (10, 11, 1))[0],
            birth, hired, left, grade, salary, draw.choice((None, 0, 500, 2_500, 10_000)),
            draw.choice((0.5, 0.6, 0.8, 1.0, 1.0)), draw.random() < 0.4, draw.choice((True, False, False, None)),
        ))  # fmt: skip
    names = ("emp_id", "dept", "gender", "birth", "hired", "left_on", "grade", "salary", "bonus", "fte", "remote",
             "manager")  # fmt: skip
    return (Table("employees", names, rows),)


def make_visits(seed: int = SEED) -> tuple[Table, ...]:
    """Returns the visits of a clinical trial: up to eight of each subject."""
    draw = random.Random(seed)
    rows = []
    for number in range(120):
        site, arm, weight = draw.choice(SITES), draw.choice(ARMS), draw.gauss(82, 14)
        started = date(2025, 6, 1) + timedelta(days=draw.randrange(300))
        for visit in range(1, 1 + min(8, 2 + int(draw.expovariate(0.2)))):
            effect = ARMS.index(arm) * visit
            systolic = None if draw.random() < 0.05 else round(draw.gauss(146, 14) - effect)
            diastolic = None if draw.random() < 0.05 else round(draw.gauss(88, 9) - effect / 2)
            adverse = draw.random() < 0.15
            rows.append((
                f"S{number}", site, arm, visit, started + timedelta(days=30 * visit + draw.randrange(9)), systolic,
                diastolic, round(min(15.0, max(4.5, draw.gauss(8, 1.1) - effect / 20)), 1), adverse,
                draw.randrange(1, 6) if adverse else None, round(min(150.0, max(45.0, weight)), 1),
            ))  # fmt: skip
    names = ("subject_id", "site", "arm", "visit_no", "visit_date", "systolic", "diastolic", "hba1c", "adverse",
             "severity", "weight_kg")  # fmt: skip
    return (Table("visits", names, rows),)


def make_events(seed: int = SEED) -> tuple[Table, ...]:
    """Returns what the visitors of a web site did in a month and a half."""
    draw = random.Random(seed)
    rows = []
    for _ in range(1500):
        happened = datetime(2026, 10, 5) + timedelta(seconds=draw.randrange(44 * 86_400))
        page = draw.choice(PAGES)
        converted = page == "/checkout" and draw.random() < 0.6
        revenue = round(draw.expovariate(1 / 60) + 5, 2) if converted else 0.0
        rows.append((
            f"U{draw.randrange(300)}", happened, page, draw.choices(("desktop", "mobile", "tablet"), (5, 6, 1))[0],
            draw.choices(("DE", "FR", "US", "GB"), (6, 3, 2, 1))[0], min(500.0, revenue),
            None if draw.random() < 0.1 else draw.randrange(600_000), converted,
            draw.choice((None, None, "spring_sale", "news-letter", "Ads")),
        ))  # fmt: skip
    names = ("user_id", "happened", "page", "device", "country", "revenue", "duration_ms", "converted", "campaign")
    return (Table("events", names, rows),)


TYPES = {
    "employees": {
        "emp_id": "text", "dept": "text", "gender": "text", "birth": "date", "hired": "date", "left_on": "date",
        "grade": "integer", "salary": "integer", "bonus": "integer", "fte": "decimal", "remote": "boolean",
        "manager": "boolean",
    },
    "visits": {
        "subject_id": "text", "site": "text", "arm": "text", "visit_no": "integer", "visit_date": "date",
        "systolic": "integer", "diastolic": "integer", "hba1c": "decimal", "adverse": "boolean", "severity": "integer",
        "weight_kg": "decimal",
    },
    "events": {
        "user_id": "text", "happened": "timestamp", "page": "text", "device": "text", "country": "text",
        "revenue": "decimal", "duration_ms": "integer", "converted": "boolean", "campaign": "text",
    },
}  # fmt: skip
ALL_WORLDS = {
    "people": World("people", make_employees, ("employees",), HERE),
    "trial": World("trial", make_visits, ("visits",), HERE),
    "web": World("web", make_events, ("events",), HERE),
    **WORLDS,
}
"""The three of this file, and those of `examples/`."""
