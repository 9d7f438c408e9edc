"""How deep Python may recurse is this process's own business, whatever a library sets it to."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def kept_limit() -> Iterator[None]:
    """Imports inside leave the limit as it was.

    py_ecc, which web3 imports, lets Python recurse 100,000 deep: deeper than the stack, so that JSON full of brackets
    would end the process instead of being refused.
    """
    limit = sys.getrecursionlimit()
    try:
        yield
    finally:
        sys.setrecursionlimit(limit)
