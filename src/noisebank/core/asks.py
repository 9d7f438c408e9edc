"""`Ask`: a question as a caller writes it, for the bank (`Account.ask_many`) and for the SDK alike."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypedDict

from noisebank.core.units import Exact

OWNER = "owner"
"""The analyst of local use, without a service; may learn all that the budget allows."""


class AccuracyOptions(TypedDict, total=False):
    """The options that say how accurate an answer shall be; exactly one way of them is used."""

    epsilon: Exact | None
    delta: Exact | None
    sigma: Exact | None
    within: Exact | None
    relative: Exact | None
    floor: Exact | None
    confidence: Exact | None
    calibration: str | None
    spend: Exact | None
    groups: str | None


def collect_accuracy(
    epsilon: Exact | None = None,
    delta: Exact | None = None,
    within: Exact | None = None,
    relative: Exact | None = None,
    floor: Exact | None = None,
    sigma: Exact | None = None,
    confidence: Exact | None = None,
    calibration: str | None = None,
    spend: Exact | None = None,
    groups: str | None = None,
) -> AccuracyOptions:
    """Returns the options that are not None."""
    options: AccuracyOptions = {
        "epsilon": epsilon, "delta": delta, "within": within, "relative": relative, "floor": floor, "sigma": sigma,
        "confidence": confidence, "calibration": calibration, "spend": spend, "groups": groups,
    }  # fmt: skip
    for name in [name for name, value in options.items() if value is None]:
        del options[name]  # type: ignore[misc]
    return options


@dataclass(frozen=True, slots=True)
class Ask:
    """One question of `ask_many`; its fields mean what the arguments of `ask` mean. Without an accuracy it takes that
    of the batch.

    >>> Ask("SELECT count(*) FROM people", {"epsilon": "0.1", "delta": "1e-6"}).analyst
    'owner'
    """

    sql: str
    accuracy: AccuracyOptions = field(default_factory=AccuracyOptions)
    max_cost: Exact | None = None
    key: str | None = None
    analyst: str = OWNER
    best: bool = False
