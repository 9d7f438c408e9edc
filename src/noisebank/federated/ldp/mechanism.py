"""The interface of mechanisms for one number (`Mechanism`), the base class of the samplers, and input checks."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import numpy as np

from noisebank.core.entropy import uniform_words
from noisebank.core.errors import BadRequest

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from noisebank.federated.ldp.law import Law

CHUNK_SIZE = 1 << 13
"""Values drawn at a time: what a pass over them touches stays in a core's own cache."""
ROUNDING_BITS = 16


@runtime_checkable
class Mechanism(Protocol):
    """Reports one number of [-1, 1] under eps-LDP, unbiased.

    A report is an integer code below `code_count` whose law is known exactly; its value is that integer times a public
    constant. The float reveals nothing else about the input, as a sum of floats could.
    """

    @property
    def name(self) -> str: ...

    @property
    def epsilon(self) -> float: ...

    @property
    def code_count(self) -> int:
        """Number of different outputs: codes are 0 .. code_count - 1."""
        ...

    @property
    def steps(self) -> int:
        """Inputs are rounded, at random and without bias, to multiples of 1/steps before anything else."""
        ...

    def draw_codes(self, values: ArrayLike) -> NDArray[np.int64]:
        """Returns one fresh code per value. Values outside [-1, 1] are clipped to it; NaN is refused."""
        ...

    def to_values(self, codes: ArrayLike) -> NDArray[np.float64]:
        """Returns the numbers that the codes stand for."""
        ...

    def perturb(self, values: ArrayLike) -> NDArray[np.float64]:
        """`to_values(draw_codes(values))`: an unbiased report on each value. Values outside [-1, 1] are clipped."""
        ...

    def variance(self, x: float) -> float:
        """Returns the variance of one report on x, in squared units of the number."""
        ...

    def worst_variance(self) -> float:
        """Returns the largest variance over [-1, 1]."""
        ...

    def output_law(self, x: float) -> Law:
        """Returns the exact law of the code when the input is x."""
        ...


class BaseMechanism(ABC):
    """Base class of the samplers: chunks, shapes and checks around `_draw_chunk` and `_chunk_values`."""

    @property
    @abstractmethod
    def code_count(self) -> int: ...

    @abstractmethod
    def _draw_chunk(self, values: NDArray[np.float64]) -> NDArray[np.int64]:
        """Returns codes for one chunk of clipped values."""

    @abstractmethod
    def _chunk_values(self, codes: NDArray[np.int64]) -> NDArray[np.float64]:
        """Returns the values of valid codes."""

    def draw_codes(self, values: ArrayLike) -> NDArray[np.int64]:
        """Returns one fresh code per value. Values outside [-1, 1] are clipped to it; NaN is refused."""
        clipped = clip_values(values)
        flat, codes = clipped.reshape(-1), np.empty(clipped.size, dtype=np.int64)
        for start in range(0, len(flat), CHUNK_SIZE):
            codes[start : start + CHUNK_SIZE] = self._draw_chunk(flat[start : start + CHUNK_SIZE])
        return codes.reshape(clipped.shape)

    def perturb(self, values: ArrayLike) -> NDArray[np.float64]:
        """Returns an unbiased report on each value. Values outside [-1, 1] are clipped to it; NaN is refused."""
        clipped = clip_values(values)
        flat, reports = clipped.reshape(-1), np.empty(clipped.size)
        for start in range(0, len(flat), CHUNK_SIZE):
            reports[start : start + CHUNK_SIZE] = self._chunk_values(self._draw_chunk(flat[start : start + CHUNK_SIZE]))
        return reports.reshape(clipped.shape)

    def to_values(self, codes: ArrayLike) -> NDArray[np.float64]:
        """Returns the numbers that the codes stand for."""
        return self._chunk_values(self.check_codes(codes))

    def check_codes(self, codes: ArrayLike) -> NDArray[np.int64]:
        """Returns the codes as integers; BadRequest if this mechanism has no such codes."""
        array = np.asarray(codes)
        if array.dtype.kind not in "iu" or (array.size and not (array.min() >= 0 and array.max() < self.code_count)):
            raise BadRequest("codes", "of a report", f"must be integers in 0 .. {self.code_count - 1}")
        return array.astype(np.int64)


def clip_values(values: ArrayLike) -> NDArray[np.float64]:
    """Returns floats clipped to [-1, 1] (infinities too); NaN and what is no number are refused.

    Clipping is part of the guarantee: it makes the mechanism private for any input. The caller scales numbers so that
    little is lost by it.
    """
    try:
        array = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise BadRequest("values", type(values).__name__, "must be numbers") from None
    clipped: NDArray[np.float64] = np.clip(array, -1.0, 1.0)
    # One pass: NaN is the only thing that survives clipping and spoils a sum.
    if clipped.size and np.isnan(np.sum(clipped)):
        raise BadRequest("values", "NaN", "must be numbers; leave out what is missing")
    return clipped


def to_fixed_point(x: float, steps: int) -> tuple[int, int]:
    """Returns (position, part): x lies at position + part / 2^16 on the grid of 1/steps, as the sampler sees it."""
    fixed = int(np.rint(min(1.0, max(-1.0, x)) * float(steps << ROUNDING_BITS)))
    return fixed >> ROUNDING_BITS, fixed & ((1 << ROUNDING_BITS) - 1)


def round_to_grid(
    values: NDArray[np.float64], steps: int, words_per_value: int = 1
) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
    """Returns fresh words for the (clipped) values, and the grid positions -steps .. steps they round to at random.

    The rounding is unbiased to 2^-17 of a step. It comes before the mechanism, so it cannot cost privacy: the report's
    law is a mixture of the laws at two positions.
    """
    count = len(values)
    words = uniform_words(words_per_value * count + (count + 3) // 4)
    coins = words[words_per_value * count :].view(np.uint16)[:count]
    limit = steps << ROUNDING_BITS
    fixed = np.rint(values * float(limit)).astype(np.int64)
    np.clip(fixed, -limit, limit, out=fixed)  # the last line, in integers: the laws hold for these positions only
    fixed += coins
    fixed >>= ROUNDING_BITS
    return words[: words_per_value * count], fixed
