"""The Haar basis of a cube, in which measurements of trees of nodes are diagonal. Used by `prefix` and `posterior`.

An axis of n cells is padded to 2^L. Measuring every node of 2^l neighbouring cells with precision s_l
adds s_l to each pair of cells of one node. Such a matrix has the Haar vectors as eigenvectors: the one that
splits a block of 2^m cells has the eigenvalue sum_{l<m} s_l 2^l, the constant one sum_l s_l 2^l. Several axes are a
Kronecker product. Proof: docs/proofs/inference.md.
"""

from __future__ import annotations

from math import prod

import numpy as np
from numpy.typing import NDArray

from noisebank.planning.linear import LinearQuery, Vector

Places = NDArray[np.int64]


def padded(cells: int) -> int:
    """Returns the least power of two that is at least `cell_count`."""
    return 1 << (cells - 1).bit_length()


def eigenvalues(shares: tuple[float, ...], size: int) -> Vector:
    """Returns one axis' eigenvalues in heap order: 0 is the constant vector, 2^d + b the split of block b at depth d.

    `shares[l]` is the precision of each node of 2^l cells; missing levels are not measured.
    """
    depth = size.bit_length() - 1
    lifted = np.cumsum([(shares[level] if level < len(shares) else 0.0) * 2.0**level for level in range(depth + 1)])
    values = np.empty(size)
    values[0] = lifted[depth]
    for high in range(depth):  # depth `high` splits blocks of size / 2^high
        values[1 << high : 2 << high] = lifted[depth - high - 1]
    return values


def forward(values: Vector, axis: int) -> Vector:
    """Returns the Haar coefficients of padded values along one axis, in heap order."""
    rest = np.moveaxis(values, axis, -1)
    coefficients = np.empty_like(rest)
    while rest.shape[-1] > 1:
        half = rest.shape[-1] // 2
        left, right = rest[..., 0::2], rest[..., 1::2]
        coefficients[..., half : 2 * half] = (left - right) * np.sqrt(0.5)
        rest = (left + right) * np.sqrt(0.5)
    coefficients[..., 0] = rest[..., 0]
    return np.moveaxis(coefficients, -1, axis)


def backward(coefficients: Vector, axis: int) -> Vector:
    """Returns the values with these coefficients: the inverse of `haar_transform`, as the basis is orthonormal."""
    moved = np.moveaxis(coefficients, axis, -1)
    rest = moved[..., :1]
    while rest.shape[-1] < moved.shape[-1]:
        half = rest.shape[-1]
        split = moved[..., half : 2 * half]
        wide = np.empty((*rest.shape[:-1], 2 * half))
        wide[..., 0::2] = (rest + split) * np.sqrt(0.5)
        wide[..., 1::2] = (rest - split) * np.sqrt(0.5)
        rest = wide
    return np.moveaxis(rest, -1, axis)


def pad(values: Vector, shape: tuple[int, ...]) -> Vector:
    """Returns cell values as an array of padded axes; the padding is zero."""
    wide = np.zeros(tuple(padded(size) for size in shape))
    wide[tuple(slice(size) for size in shape)] = values.reshape(shape)
    return wide


def crop(values: Vector, shape: tuple[int, ...]) -> Vector:
    """Returns the cell values of an array of padded axes: the inverse of `pad_cells`."""
    return np.ascontiguousarray(values[tuple(slice(size) for size in shape)]).reshape(prod(shape))


def sparse(query: LinearQuery, shape: tuple[int, ...]) -> tuple[Places, Vector]:
    """Returns the nonzero coefficients of a query: their indices in the flattened basis, and their values.

    One axis takes O(runs log cells): only blocks that an end of a run cuts are split unevenly.
    """
    if len(shape) == 1:
        return _sparse_axis(query, padded(shape[0]))
    coefficients = pad(query.dense, shape)
    for axis in range(len(shape)):
        coefficients = forward(coefficients, axis)
    flat = coefficients.reshape(-1)
    indices = np.flatnonzero(np.abs(flat) > ROUNDING * np.abs(flat).max())
    return indices, flat[indices]


ROUNDING = 2.0**-48
"""Coefficients below this share of the largest are rounded zeros."""


def _sparse_axis(query: LinearQuery, size: int) -> tuple[Places, Vector]:
    starts, stops, weights = query.columns
    edges = np.concatenate(([0], np.stack((starts, stops), 1).reshape(-1)))
    sums = np.concatenate(([0], np.cumsum(np.stack((np.zeros_like(weights), weights * (stops - starts)), 1))))
    slopes = np.concatenate(([0], np.stack((weights, np.zeros_like(weights)), 1).reshape(-1)))

    def below(place: Places) -> Places:
        """Returns the sum of the weights of all cells before this one, exactly."""
        at = np.searchsorted(edges, place, side="right") - 1
        total: Places = sums[at] + slopes[at] * (place - edges[at])
        return total

    depth = size.bit_length() - 1
    scales = np.arange(depth, dtype=np.int64)  # 2^scale blocks
    widths = size >> scales
    cut = np.unique(edges[1:])
    cut = cut[cut < size]
    nodes = np.unique((1 << scales)[:, None] + cut[None, :] // widths[:, None])
    if not depth:
        nodes = nodes[:0]
    level = np.frexp(nodes.astype(np.float64))[1].astype(np.int64) - 1
    width = size >> level
    low = (nodes - (1 << level)) * width
    uneven = 2 * below(low + width // 2) - below(low) - below(low + width)
    nonzero = uneven != 0
    values = uneven[nonzero] / np.sqrt(width[nonzero])
    total = float(sums[-1])
    if total:
        return np.concatenate(([0], nodes[nonzero])), np.concatenate(([total / np.sqrt(size)], values))
    return nodes[nonzero], values
