"""Two more worlds: a web shop, whose orders have times in a zone, and a company's staff, with names in quotes."""

from __future__ import annotations

import random
from datetime import date, datetime, timedelta
from pathlib import Path

from examples.tables import Table
from examples.worlds import WORLDS, World

HERE = Path(__file__).parent
SEED = 77
CHANNELS, COUNTRIES = ("web", "app", "store"), ("US", "CA", "MX")
CATEGORIES = ("books", "garden", "toys & games", "o'brien", "50%_off")
DEPARTMENTS = ("sales", "research", "support", "finance")


def make_orders(seed: int = SEED) -> tuple[Table, ...]:
    """Returns the orders of a web shop: over the weekend of the autumn's clock change, and a leap day."""
    draw = random.Random(seed)
    rows = []
    for number in range(1500):
        ordered = datetime(2024, 1, 1) + timedelta(seconds=draw.randrange(3 * 365 * 86_400))
        while ordered.hour == 2 and ordered.month == 3:  # clocks skip an hour
            ordered += timedelta(hours=1)
        shipped = None if draw.random() < 0.1 else ordered.date() + timedelta(days=draw.randrange(9))
        amount = round(min(2000.0, draw.expovariate(1 / 90) + 3), 2)
        rating = draw.choice([None, None, 1, 2, 3, 4, 4, 5, 5])
        rows.append((
            f"C{draw.randrange(400)}", ordered, shipped, draw.choice(CHANNELS),
            draw.choices(COUNTRIES, (8, 3, 1))[0], draw.choice(CATEGORIES), amount, draw.randrange(1, 13),
            draw.choice([True, False, False, None]), rating, number % 3 == 0,
        ))  # fmt: skip
    names = ("customer_id", "ordered_at", "shipped", "channel", "country", "category", "amount", "items", "coupon",
             "rating", "gift")  # fmt: skip
    return (Table("orders", names, rows),)


def make_staff(seed: int = SEED) -> tuple[Table, ...]:
    """Returns the staff of a company."""
    draw = random.Random(seed)
    rows = []
    for number in range(600):
        born = date(1956, 1, 1) + timedelta(days=draw.randrange(48 * 365))
        hired = date(1999, 1, 1) + timedelta(days=draw.randrange(27 * 365))
        left = None if draw.random() < 0.7 else hired + timedelta(days=draw.randrange(3000))
        grade = draw.randrange(1, 8)
        salary = 30_000 + 9_000 * grade + draw.randrange(20_000)
        rows.append((
            f"E{number}", draw.choice(DEPARTMENTS), draw.choice(("f", "m", "x")), born, hired, left, grade, salary,
            draw.choice((0.5, 0.6, 0.8, 1.0, 1.0)), draw.random() < 0.4, draw.choice([None, *range(0, 101, 4)]),
        ))  # fmt: skip
    names = ("employee_id", "department", "gender", "born", "hired", "left_on", "grade", "salary", "fte", "remote",
             "Review Score")  # fmt: skip
    return (Table("staff", names, rows),)


TYPES = {
    "orders": {
        "customer_id": "text", "ordered_at": "timestamp", "shipped": "date", "channel": "text", "country": "text",
        "category": "text", "amount": "double", "items": "integer", "coupon": "boolean", "rating": "integer",
        "gift": "boolean",
    },
    "staff": {
        "employee_id": "text", "department": "text", "gender": "text", "born": "date", "hired": "date",
        "left_on": "date", "grade": "integer", "salary": "integer", "fte": "double", "remote": "boolean",
        "Review Score": "integer",
    },
}  # fmt: skip
ALL_WORLDS = {
    **WORLDS,
    "shop": World("shop", make_orders, ("orders",), HERE),
    "company": World("company", make_staff, ("staff",), HERE),
}
"""Those of `examples/` and the two of this file, by name."""
