"""Optional packages: `needs_extra` turns a missing one into an error that says how to install it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from noisebank.core.errors import ExtraMissing


@contextmanager
def needs_extra(extra: str, purpose: str) -> Iterator[None]:
    """Raises `ExtraMissing` if an import in the block fails because another package is not installed.

    >>> with needs_extra("bank", "this"):
    ...     import no_such_package
    Traceback (most recent call last):
    noisebank.core.errors.ExtraMissing: this needs no_such_package: pip install "noisebank[bank]"
    """
    try:
        yield
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package in ("", "noisebank"):  # a mistake of ours
            raise
        raise ExtraMissing(purpose, package, extra) from None
