"""Float low bits leak: every answer lies on a grid that public numbers alone decide.

The table holds x = 0, its neighbour x = 1. An output distinguishes them when it is off the grid,
or when its residue modulo the grid is more likely on one side. Residues are compared by a
chi-square that a correct bank fails with probability 1e-8; off-grid outputs have none.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from scipy.special import chdtrc

from assurance.mu_audit import PEOPLE, POLICY, question_number, rich_account
from assurance.planting import plant_bug
from assurance.report import Finding, Progress
from noisebank import Result
from support.internals import Entropy, GridValue, NormalLaw, SystemEntropy

LOW_BITS = 3
FALSE_ALARM = 1e-8
FINEST_FLOAT = Fraction(1, 2**53)
"""With float noise, "a multiple of this" tells 0 from 1."""
PER_ACCOUNT = 1_000
ENOUGH = 1_000
"""Outputs a side from which on the size of a leak is judged as well."""

Sigmas = tuple[str, ...]


# -- the public grid -------------------------------------------------------------------------------


def shift_for(variance: Fraction) -> int:
    """The coarsest grid 2^-shift on which noise of this variance has an sd of at least 2^26 steps."""
    shift = 0
    while variance * 4**shift < 2**52:
        shift += 1
    return shift


def public_shifts(answers: list[Result]) -> list[int]:
    """The grid of each answer to one count, from cases, precisions and costs alone."""
    shifts: list[int] = []
    for place, answer in enumerate(answers):
        wanted = 1 / answer.parts[0].target.exact
        if answer.cost:
            paid = [s for s, earlier in zip(shifts, answers, strict=False) if earlier.cost]
            shifts.append(max([shift_for(1 / answer.cost.exact), *paid]))
            continue
        known = sorted(1 / earlier.parts[0].target.exact for earlier in answers[:place])
        better = max(s for s in known if s < wanted)
        coarser = min((s for s in known if s > wanted), default=None)
        share = 1 if coarser is None else (coarser - wanted) / (coarser - better)
        shifts.append(shift_for((wanted - better) * share))
    return shifts


# -- asking ----------------------------------------------------------------------------------------


def answers_to(
    side: int, count: int, sigmas: tuple[str, ...], entropy: Entropy | None = None
) -> Iterator[list[Result]]:
    """`count` questions whose true answer is 0 on one side and 1 on the other, each asked at all sigmas."""
    progress = Progress(f"side {side}, {len(sigmas)} sigmas", count)
    with TemporaryDirectory() as folder:
        for number in range(count):
            progress(number)
            if number % PER_ACCOUNT == 0:
                lines = ("place,room,income", "0,0,0", "0,0,0", PEOPLE[side])
                account = rich_account(Path(folder), POLICY, lines, entropy)
            sql, _ = question_number("count", 2 * number)
            yield [account.ask(sql, sigma=sigma) for sigma in sigmas]


class Silent(SystemEntropy):
    """Draws 0 for measurements of sigma 1: the better answer is then the true value itself."""

    def discrete_gaussians(self, scale: float, count: int) -> list[int]:
        return [self.discrete_gaussian(scale) for _ in range(count)]

    def discrete_gaussian(self, scale: float) -> int:
        return 0 if scale < 2**26 * 1.01 else super().discrete_gaussian(scale)


def float_draw(law: NormalLaw, entropy: Entropy) -> GridValue:
    """The planted bug: numpy's noise, added in floating point."""
    rng = np.random.default_rng(int.from_bytes(entropy.token(16), "big"))
    value = Fraction(float(law.mean) + rng.normal() * float(law.variance) ** 0.5)
    return GridValue(value.numerator, value.denominator.bit_length() - 1)


def float_draws(parts: Sequence[tuple[Sequence[Fraction], Fraction]], entropy: Entropy) -> list[tuple[GridValue, ...]]:
    """The same for many measurements."""
    return [tuple(float_draw(NormalLaw(mean, variance), entropy) for mean in means) for means, variance in parts]


# -- judging ---------------------------------------------------------------------------------------


class Side:
    """What the outputs of one table look like."""

    def __init__(self) -> None:
        self.outputs = self.off_grid = self.multiples = 0
        self.cases: dict[str, int] = {}
        self.residues: dict[str, np.ndarray] = {}

    def see(self, answers: list[Result], only_last: bool = False) -> None:
        kept = list(zip(answers, public_shifts(answers), strict=True))
        for answer, shift in kept[-1:] if only_last else kept:
            scaled = answer.exact * 2**shift
            self.outputs += 1
            self.cases[answer.case.name] = self.cases.get(answer.case.name, 0) + 1
            self.multiples += (answer.exact / FINEST_FLOAT).denominator == 1
            if scaled.denominator != 1:
                self.off_grid += 1
            else:
                counts = self.residues.setdefault(answer.case.name, np.zeros(2**LOW_BITS))
                counts[scaled.numerator % 2**LOW_BITS] += 1


def advantage(a: Side, b: Side) -> float:
    """How much better than guessing "is it a multiple of 2^-53?" tells the tables apart."""
    return abs(a.multiples / a.outputs - b.multiples / b.outputs)


def same_residues(a: Side, b: Side) -> float:
    """The smallest p-value, over cases, of "low bits have one law on both sides"."""
    worst = 1.0
    for case in a.residues.keys() & b.residues.keys():
        table = np.stack([a.residues[case], b.residues[case]])
        expected = table.sum(1, keepdims=True) * table.sum(0) / table.sum()
        used = expected > 0
        statistic = ((table - expected)[used] ** 2 / expected[used]).sum()
        worst = min(worst, float(chdtrc(table.shape[1] - 1, statistic)))
    return worst


def both_sides(count: int, sigmas: Sigmas, entropy: Entropy | None = None, last: bool = False) -> list[Side]:
    """The same questions to both tables."""
    sides = [Side(), Side()]
    for number, side in enumerate(sides):
        for answers in answers_to(number, count, sigmas, entropy):
            side.see(answers, last)
    return sides


def distinguished(a: Side, b: Side) -> int:
    """Outputs that tell the tables apart; residues with different laws count as one."""
    return a.off_grid + b.off_grid + (same_residues(a, b) < FALSE_ALARM) + (advantage(a, b) > 0)


def low_bits(share: float) -> Finding:
    """20,000 answers a side at full share: FIRST, REFINE and both kinds of BLUR."""
    count, planted_count = max(40, round(5_000 * share)), max(60, round(3_000 * share))
    honest = both_sides(count, ("1", "0.8", "3", "2"))
    silent = both_sides(planted_count, ("1", "3"), Silent(), last=True)

    with plant_bug("noisebank.engines.mechanism", "draw_values_many", float_draws):
        floats = both_sides(planted_count, ("1",))
    with plant_bug("noisebank.account.plain", "draw_value", float_draw):
        blurs = both_sides(planted_count, ("1", "3"), Silent(), last=True)
    return Finding(
        row="float low bits leak",
        tried=f"{honest[0].outputs:,} answers a side ({', '.join(f'{c} {n:,}' for c, n in honest[0].cases.items())}), "
        f"{silent[0].outputs:,} blurs of an exact 0 or 1; {planted_count:,} a side for each planted bug",
        figure=f"{distinguished(*honest) + distinguished(*silent)} distinguishing outputs; low bits alike "
        f"(p = {same_residues(*honest):.3f}); blur advantage {advantage(*silent):.3f}",
        violations=distinguished(*honest) + distinguished(*silent),
        planted={
            f"float noise on the statistic (advantage {advantage(*floats):.3f})": _caught(floats, 0.258),
            f"float blur (advantage {advantage(*blurs):.3f})": _caught(blurs, 0.093),
        },
        note="expected advantages .258 and .093; false alarm 1e-8",
    )


def _caught(sides: list[Side], expected: float) -> bool:
    few = sides[0].outputs < ENOUGH
    return distinguished(*sides) > 0 and (few or advantage(*sides) > expected / 2)
