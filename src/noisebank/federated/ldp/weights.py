"""Integer weights, out of 2^64, of a mixture of a piecewise mechanism and Three-Outputs.

Inputs are positions X = -N .. N (x = X/N). One uniform 64-bit word decides everything:

    piecewise   2N + W outputs in a row. The W of them around X have weight `inner` each, the other 2N `outer`.
                eps-LDP is inner <= e^eps outer. The mean of the output's offset from the middle is exactly
                X W (inner - outer) / (2N outer + W inner), so one public factor makes the report unbiased.
                t = 2N / W, so N and W follow from t.
    atoms       sign(X)C has weight level + up |X|, -sign(X)C level - down |X|, 0 the rest: linear in |X|, so unbiased
                by one public factor. eps-LDP is (level + up N) <= e^eps (level - down N), and for 0
                zero <= e^eps (zero - (up - down) N).

All weights are rounded so that these inequalities hold in integers: the ratio is at most e^eps, without a tolerance.
What rounding costs is a little accuracy (relatively 2^-40), which shows in the variance, not in the privacy.
Words beyond the last weight are drawn again.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from noisebank.federated.ldp.alias import WORDS
from noisebank.federated.ldp.law import Law, exp_lower_bound
from noisebank.federated.ldp.moments import ReportMoments
from noisebank.federated.ldp.parameters import Parameters

SHARED_WORDS = WORDS - (1 << 44)
"""Words that are assigned; a word above them (one in a million) is drawn again. The margin absorbs rounding up."""
MIN_WINDOW = 1 << 12
"""The window is at least this many outputs wide, and less than twice it. The variance then differs from the continuous
one by 1/W^2, relatively: W is chosen so that 2N/W meets t to that accuracy too."""
ATOM_STEPS = 1 << 12
"""N if there is no piecewise part."""


@dataclass(frozen=True, slots=True)
class MixtureWeights:
    """The integers of one mechanism, as the module says. A part that is absent has weights 0."""

    steps: int
    window: int
    inner: int
    outer: int
    level: int
    up: int
    down: int
    zero: int

    @property
    def output_count(self) -> int:
        """Number of outputs of the piecewise part."""
        return 2 * self.steps + self.window if self.outer else 0

    @property
    def piecewise_weight(self) -> int:
        """Weight of the whole piecewise part."""
        return 2 * self.steps * self.outer + self.window * self.inner

    @property
    def atom_weight(self) -> int:
        """Weight of -C, 0 and C together, the same for every input."""
        return 2 * self.level + self.zero

    @property
    def total_weight(self) -> int:
        """Words, out of 2^64, that have an output; the rest is drawn again."""
        return self.piecewise_weight + self.atom_weight

    @property
    def step_size(self) -> Fraction:
        """Value of one step of the piecewise output: makes its mean x."""
        return Fraction(self.piecewise_weight, self.window * (self.inner - self.outer) * self.steps)

    @property
    def atom_size(self) -> Fraction:
        """C: makes the mean of the atoms x."""
        return Fraction(self.atom_weight, (self.up + self.down) * self.steps)

    @property
    def moments(self) -> ReportMoments:
        """E[y^2 | x] of the reports as they are drawn, but for the rounding of x (at most 1/(4 N^2))."""
        constant = linear = quadratic = Fraction(0)
        if self.outer:
            square, n, w = self.step_size**2, self.output_count, self.window
            spread = Fraction(self.outer * n * (n * n - 1) + (self.inner - self.outer) * w * (w * w - 1), 12)
            constant += square * spread
            quadratic += square * (self.inner - self.outer) * w * self.steps**2
        if self.atom_weight:
            square = self.atom_size**2
            constant += square * 2 * self.level
            linear += square * (self.up - self.down) * self.steps
        return ReportMoments(*(float(part / self.total_weight) for part in (constant, linear, quadratic)))

    def law_at(self, position: int) -> Law:
        """Returns the law of the code for an input at this position: codes 0 .. output_count - 1 are the piecewise
        outputs from left to right, then -C, 0, C."""
        starts, weights = [], []
        if self.outer:
            first = position + self.steps
            for start, weight in ((0, self.outer), (first, self.inner), (first + self.window, self.outer)):
                if start < self.output_count:
                    starts.append(start)
                    weights.append(weight)
            if first == 0:
                del starts[0], weights[0]
        if self.atom_weight:
            size = abs(position)
            same, opposite = self.level + self.up * size, self.level - self.down * size
            left, right = (opposite, same) if position >= 0 else (same, opposite)
            starts += [self.output_count + i for i in range(3)]
            weights += [left, self.atom_weight - same - opposite, right]
        return Law(tuple(starts), tuple(weights), self.output_count + (3 if self.atom_weight else 0))


def compute_weights(params: Parameters) -> MixtureWeights:
    """Returns the weights closest to these parameters that keep eps-LDP exactly.

    Guarantees: inner <= e^eps outer; level + up N <= e^eps (level - down N); zero <= e^eps zero at |X| = N; all of
    them positive where their part exists. Proof: each line below that says "down" or "up" rounds towards it.
    """
    c = exp_lower_bound(params.epsilon)
    beta = Fraction(params.beta)
    steps, window = _choose_grid(params.t) if beta else (ATOM_STEPS, 0)
    inner = outer = level = up = down = zero = 0
    if beta:
        outer = int(beta * SHARED_WORDS / (2 * steps + window * c))
        inner = int(outer * c)  # down
    if beta < 1:
        share = (1 - beta) * SHARED_WORDS
        a = Fraction(params.a)
        least = int(share * (c - a) / (c * (c + 1)))  # weight of -sign(x)C at |x| = 1
        if not a:
            up = down = int(least * (c - 1) / (2 * steps))  # down
        else:
            down = max(0, int((share * (1 - a) / 2 - least) / steps))
            up = int((least * c - least - down * steps) / steps)  # down: level + up N <= c least
            if up < down:  # a is too small to differ from 0
                up = down = (up + down) // 2
        level = least + down * steps
        if up > down:
            fall = (up - down) * steps
            zero = fall - (-fall // (c - 1))  # up: zero - fall >= fall / (c - 1)
    result = MixtureWeights(steps, window, inner, outer, level, up, down, zero)
    if not result.total_weight <= WORDS or (beta and inner <= outer) or (beta < 1 and up + down == 0):
        raise ArithmeticError(f"no whole-number weights for {params}")
    return result


def _choose_grid(t: float) -> tuple[int, int]:
    """Returns N and W with 2N/W close to t."""
    ratio = (Fraction(t) / 2).limit_denominator(MIN_WINDOW)
    times = -(-MIN_WINDOW // ratio.denominator)
    return ratio.numerator * times, ratio.denominator * times
