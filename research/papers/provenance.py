"""Where each held number comes from, where its tolerance comes from, and whether that was chosen after looking."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from research.papers.exhibit import Found

RULES = Path(__file__).parent / "texts" / "numbers.toml"


class Rule(NamedTuple):
    """What holds for numbers of an exhibit whose names match."""

    exhibit: str
    match: str
    oracle: str
    tolerance: str
    after: bool = False
    """Chosen after looking; then `note` says so."""
    note: str = ""


@lru_cache(maxsize=1)
def read_rules() -> tuple[Rule, ...]:
    """All of them, in their order."""
    return tuple(Rule(**row) for row in tomllib.loads(RULES.read_text())["rules"])


def find_rule(exhibit: str, number: str) -> Rule:
    """The first that matches."""
    for rule in read_rules():
        if re.fullmatch(rule.exhibit, exhibit) and re.fullmatch(rule.match, number):
            return rule
    raise LookupError(f"no rule in {RULES.name} says where {number} of {exhibit} comes from")


def explain_numbers(exhibit: str, numbers: list[Found]) -> list[Found]:
    """The numbers, each with its oracle and the origin of its tolerance beside it."""
    return [{**number, **_explain(find_rule(exhibit, number["name"]))} for number in numbers]


def _explain(rule: Rule) -> Mapping[str, object]:
    late = {"note": rule.note} if rule.after else {}
    return {"oracle": rule.oracle, "tolerance": rule.tolerance, "chosen after looking": rule.after, **late}
