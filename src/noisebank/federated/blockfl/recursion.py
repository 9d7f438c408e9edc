"""Keeps Python's recursion limit when a library changes it on import."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def kept_limit() -> Iterator[None]:
    """Restores the recursion limit after imports.

    py_ecc sets it to 100,000: deeper than the stack, so that deeply nested JSON would crash the
    process instead of being refused.
    """
    limit = sys.getrecursionlimit()
    try:
        yield
    finally:
        sys.setrecursionlimit(limit)
