"""The judge: can what leaves a party tell two records apart better than the epsilon that was charged?

A party is a module with what `Party` lists; `PARTIES` names them. An attack plays one whole conversation of a hostile
other side against a fresh party that holds record 0 or record 1. Everything that leaves the party is the output:
reports, refusals, the words of errors, sizes, what was charged. How long it takes is not: timing is out of scope.
"""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from fractions import Fraction
from importlib import import_module
from typing import Protocol, cast

import numpy as np

PARTIES = ("hostile.device_party",)
"""Modules of this folder; whoever adds a party adds its name."""
MISTAKE = 1e-9
"""Chance that a party which keeps its promise is refuted by one judgement."""
STEPS = 60


@dataclass(frozen=True)
class Transcript:
    """One conversation: all that left the party, and the epsilon that its books show for it."""

    output: Hashable
    charged: Fraction


@dataclass(frozen=True)
class Attack:
    """A fixed way of asking. `play(0)` and `play(1)` differ in the party's record and in nothing else."""

    name: str
    play: Callable[[int], Transcript]
    plays: int = 2_000
    """On each record, at full count. More where only frequencies can tell records apart."""


@dataclass(frozen=True)
class Planted:
    """A bug on purpose, the attack that must catch it, and how many plays on each record that takes."""

    name: str
    plant: Callable[[], AbstractContextManager[object]]
    attack: str
    plays: int = 80


class Party(Protocol):
    """Holds data and obeys somebody else."""

    NAME: str
    ATTACKS: Sequence[Attack]
    PLANTED: Sequence[Planted]

    def play_random(self, chance: random.Random) -> str:
        """One conversation in which every field is drawn, on two drawn records: what told them apart, else nothing."""
        ...


def all_parties() -> list[Party]:
    return [cast(Party, import_module(name)) for name in PARTIES]


@dataclass(frozen=True)
class Verdict:
    """`lower`: but for a chance of `MISTAKE`, the outputs differ by at least this epsilon."""

    attack: str
    lower: float
    charged: Fraction
    plays: int

    @property
    def refuted(self) -> bool:
        return self.lower > float(self.charged)


def judge_attack(attack: Attack, plays: int) -> Verdict:
    """Plays so often on each record. One half of the plays chooses an event, the other one measures it."""
    first = [_play(attack, which, plays - plays // 2) for which in (0, 1)]
    second = [_play(attack, which, plays // 2) for which in (0, 1)]
    charged = max(transcript.charged for side in (*first, *second) for transcript in side)
    lower = -math.inf
    for high, low in ((0, 1), (1, 0)):
        event = _most_telling(_seen(first[high]), _seen(first[low]))
        lower = max(lower, _lower(event, _seen(second[high]), _seen(second[low])))
    return Verdict(attack.name, lower, charged, plays)


def _play(attack: Attack, which: int, plays: int) -> list[Transcript]:
    return [attack.play(which) for _ in range(plays)]


def _seen(transcripts: Sequence[Transcript]) -> Counter[Hashable]:
    """The books are public, so the charge is part of what is seen."""
    return Counter((transcript.output, transcript.charged) for transcript in transcripts)


def _most_telling(high: Counter[Hashable], low: Counter[Hashable]) -> set[Hashable]:
    """The outputs that are likeliest under `high`: as many of them as give the largest lower bound."""
    ranked = sorted(high, key=lambda output: (high[output] + 0.5) / (low[output] + 0.5), reverse=True)
    cuts = sorted({min(len(ranked), round(len(ranked) * share)) for share in np.linspace(0, 1, 33)} | {1, 2, 3, 4})
    events = [set(ranked[:cut]) for cut in cuts if cut]
    return max(events, key=lambda event: _lower(event, high, low))


def _lower(event: set[Hashable], high: Counter[Hashable], low: Counter[Hashable]) -> float:
    often = clopper_pearson(sum(high[output] for output in event), high.total(), MISTAKE / 4, upper=False)
    seldom = clopper_pearson(sum(low[output] for output in event), low.total(), MISTAKE / 4, upper=True)
    return math.log(often / seldom) if often > 0 else -math.inf


def clopper_pearson(hits: int, draws: int, chance: float, upper: bool) -> float:
    """The exact one-sided bound on a probability that fails with at most this chance."""
    if hits == (draws if upper else 0):
        return 1.0 if upper else 0.0
    counts = np.arange(0, hits + 1) if upper else np.arange(hits, draws + 1)
    ways = np.array([math.lgamma(draws + 1) - math.lgamma(k + 1) - math.lgamma(draws - k + 1) for k in counts])
    low, high = (hits / draws, 1.0) if upper else (0.0, hits / draws)
    for _ in range(STEPS):
        p = (low + high) / 2
        tail = np.exp(ways + counts * math.log(p) + (draws - counts) * math.log1p(-p)).sum() if 0 < p < 1 else 0.0
        if (tail > chance) == upper:
            low = p
        else:
            high = p
    return high if upper else low
