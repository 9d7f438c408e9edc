"""Parameters of the named mechanisms for one number: a, t and beta of the family that contains them all.

With probability beta a piecewise mechanism (window parameter t) reports, else Three-Outputs (a = P(0 | x = 0)):

    Duchi           beta = 0, a = 0
    Three-Outputs   beta = 0, a of eq. 3.4
    PM, PM-SUB      beta = 1, t = e^(eps/2), e^(eps/3)
    PM-OPT          beta = 1, t the positive root of t^4 + 2 c t^3 - 2 c t - c^2, c = e^eps
    HM              t = e^(eps/2), a = 0, beta = 1 - e^(-eps/2), 0 up to eps = 0.61
    HM-TP           t = e^(eps/3), a of eq. 3.4, beta of Lemma 10
    best            all three tuned together (`tuning`)

Sources: Y. Zhao, doctoral thesis, chapter 3 ("Local Differential Privacy based Federated Learning for Internet of
Things", IEEE IoT Journal 2020); HM and PM: Wang et al., ICDE 2019; Duchi, Jordan and Wainwright, JASA 2018.
Errors of the printed text that are corrected here: the closed form 3.29 of t cancels near eps = ln sqrt 2 (and is
typeset with a fraction outside its root), so the root is found numerically; beta of A.125 is printed with e^eps under
the square root.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from math import acos, cbrt, cos, exp, expm1, log, nextafter, pi, sqrt

from noisebank.core.errors import BadRequest
from noisebank.federated.ldp.moments import (
    MAX_EPSILON,
    MIN_EPSILON,
    ReportMoments,
    laplace_moments,
    piecewise_bound,
    piecewise_moments,
    three_outputs_bound,
    three_outputs_moments,
)

MECHANISM_NAMES = ("laplace", "duchi", "pm", "hm", "three-outputs", "pm-opt", "pm-sub", "hm-tp", "best")

HM_THRESHOLD = log((-5 + 2 * cbrt(6353 - 405 * sqrt(241)) + 2 * cbrt(6353 + 405 * sqrt(241))) / 27)
"""An epsilon, about 0.61: below it HM is Duchi's mechanism."""


@dataclass(frozen=True, slots=True)
class Parameters:
    """One mechanism of the family: with probability beta piecewise(t), else Three-Outputs(a)."""

    name: str
    epsilon: float
    a: float = 0.0
    t: float = 1.0
    beta: float = 0.0

    @property
    def atom_size(self) -> float:
        """C: Three-Outputs reports -C, 0 or C."""
        return three_outputs_bound(self.epsilon, self.a)

    @property
    def output_bound(self) -> float:
        """A: the piecewise mechanism reports within [-A, A]."""
        return piecewise_bound(self.epsilon, self.t)

    @property
    def moments(self) -> ReportMoments:
        """Second moments of the report, before any grid."""
        if self.name == "laplace":
            return laplace_moments(self.epsilon)
        atoms = three_outputs_moments(self.epsilon, self.a)
        return piecewise_moments(self.epsilon, self.t).mix_with(atoms, self.beta) if self.beta else atoms


def check_epsilon(epsilon: float | Fraction) -> float:
    """Returns epsilon as a float; BadRequest if it is none or outside the supported range."""
    try:
        value = float(epsilon)
    except (TypeError, ValueError, OverflowError):
        raise BadRequest("epsilon", str(epsilon)[:40], "must be a number of ordinary size") from None
    if not MIN_EPSILON <= value <= MAX_EPSILON:
        raise BadRequest("epsilon", epsilon, f"must lie in [{MIN_EPSILON:g}, {MAX_EPSILON:g}]")
    return value


def split_epsilon(epsilon: float, parts: int) -> float:
    """Returns epsilon / parts, rounded down if the float quotient is too large: the parts add up to at most epsilon."""
    share = epsilon / parts
    return nextafter(share, 0.0) if Fraction(share) * parts > Fraction(epsilon) else share


@lru_cache(maxsize=1024)
def find_parameters(name: str, epsilon: float, scale: float = 1.0) -> Parameters:
    """Returns the parameters of a named mechanism. `scale` = d/k tunes `three-outputs`, `hm-tp` and `best` for sampled
    values; at 1 the published parameters are used. The others do not depend on it (PM-OPT's optimum is the same)."""
    epsilon = check_epsilon(epsilon)
    if not scale >= 1.0:
        raise BadRequest("scale", scale, "must be at least 1")
    if name not in MECHANISM_NAMES:
        raise BadRequest("mechanism", name, f"must be one of {', '.join(MECHANISM_NAMES)}")
    if name in ("laplace", "duchi"):
        return Parameters(name, epsilon)
    if name in ("pm", "pm-opt", "pm-sub"):
        t = {"pm": exp(epsilon / 2), "pm-sub": exp(epsilon / 3)}.get(name) or optimal_t(epsilon)
        return Parameters(name, epsilon, t=t, beta=1.0)
    if name == "hm":
        beta = -expm1(-epsilon / 2) if epsilon > HM_THRESHOLD else 0.0
        return Parameters(name, epsilon, t=exp(epsilon / 2), beta=beta)
    if name == "best" or scale > 1.0:
        from noisebank.federated.ldp.tuning import tune_parameters  # needs numpy: only when something is tuned

        return tune_parameters(name, epsilon, scale)
    a = optimal_a(epsilon)
    if name == "three-outputs":
        return Parameters(name, epsilon, a)
    t = exp(epsilon / 3)
    return Parameters(name, epsilon, a, t, optimal_beta(epsilon, a, t))


def optimal_a(epsilon: float) -> float:
    """Returns P(0 | x = 0) of Three-Outputs with the smallest worst-case variance (eq. 3.4 to 3.7)."""
    c = exp(epsilon)
    if c < 2.0:
        return 0.0
    if c > (3.0 + sqrt(65.0)) / 2.0:
        return c / (c + 2.0)
    d0 = c**4 + 14 * c**3 + 50 * c**2 - 2 * c + 25
    d1 = -2 * c**6 - 42 * c**5 - 270 * c**4 - 404 * c**3 - 918 * c**2 + 30 * c - 250
    angle = acos(min(1.0, max(-1.0, -d1 / (2.0 * d0**1.5))))
    return min(c / (c + 2.0), max(0.0, (c * c + 4 * c + 5 - 2.0 * sqrt(d0) * cos(pi / 3 + angle / 3)) / 6.0))


def optimal_t(epsilon: float) -> float:
    """Returns the window parameter with the smallest worst-case variance: the one positive root (Descartes) of
    t^4 + 2 c t^3 - 2 c t - c^2, which lies between 1 and sqrt(c)."""
    c = exp(epsilon)
    low, high = 1.0, sqrt(c)
    for _ in range(200):
        middle = (low + high) / 2.0
        if middle in (low, high):
            break
        if middle**4 + 2 * c * middle**3 - 2 * c * middle - c * c > 0.0:
            high = middle
        else:
            low = middle
    return (low + high) / 2.0


def optimal_beta(epsilon: float, a: float, t: float) -> float:
    """Returns HM-TP's probability of the piecewise mechanism (Lemma 10, A.125).

    Zero below eps* = 0.610986, where the piecewise mechanism is worse than Three-Outputs even at x = 0.
    """
    c, rise = exp(epsilon), expm1(epsilon)
    piecewise, atoms = piecewise_moments(epsilon, t), three_outputs_moments(epsilon, a)
    if piecewise.constant >= atoms.constant and a == 0.0:
        return 0.0
    if a == 0.0:
        return rise / (c + t)
    peak = a * a * c * c * (c + 1.0) ** 4 / (4.0 * (c + t) ** 2 * (c - a) ** 4 * rise)
    w1 = (piecewise.constant - atoms.constant) / (c + t) - peak
    w2 = -((1.0 + t) ** 2) * peak
    return (-sqrt(w2 / w1) + rise) / (c + t)
