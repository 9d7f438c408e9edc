"""Fills in drafts of policies as a person does: only what says FILL IN changes."""

from __future__ import annotations

import re

FILLINGS = {
    "unit": '"row"',
    "row_cap": "1000000",
    "epsilon": "1",
    "delta": "1e-6",
    "type": '"text"',
    "bounds": "[0, 100]",
    "step": "0.01",
    "keys": '["north"]',
    "zone": '"UTC"',
}

DATE_BOUNDS = '["1900-01-01", "2030-12-31"]'


def fill_draft(text: str, **fillings: str) -> str:
    """Returns a draft with a value in every place that says FILL IN; `fillings` are others than those above."""
    values = {**FILLINGS, **fillings}
    text = re.sub(r'(?m)^(type = "(?:date|timestamp)"\nbounds) = "FILL IN"', rf"\1 = {DATE_BOUNDS}", text)
    return re.sub(r'(?m)^(\w+) = "FILL IN"', lambda match: f"{match[1]} = {values[match[1]]}", text)
