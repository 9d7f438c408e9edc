"""Bins that a policy could declare for a column, for messages: from its public bounds."""

from __future__ import annotations

from math import floor, log10

from noisebank.policy.model import Column


def suggest_bins(column: Column) -> str:
    """Returns the bins that a policy could declare for a numeric column, as its line of the file."""
    low, high = (float(end * column.step) for end in column.bounds)
    width = round_width((high - low) / 10)
    first = floor(low / width) + 1
    edges = [width * number for number in range(first, first + 12) if low < width * number < high]
    return f"bins = [{', '.join(f'{edge:.12g}' for edge in edges)}]"


def round_width(width: float) -> float:
    """Returns the next number of the form 1, 2 or 5 times a power of ten.

    >>> round_width(130.0), round_width(0.3), round_width(5.0)
    (200.0, 0.5, 5.0)
    """
    power = 10.0 ** floor(log10(width))
    return next(size * power for size in (1, 2, 5, 10) if size * power >= width * 0.999999)
