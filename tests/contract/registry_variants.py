"""The model registry with a line of its source changed: planted bugs for tests that must see them."""

from __future__ import annotations

import shutil
import warnings
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from contract.variants import CONTRACTS, compiler
from support.internals import Contract, load_contract

SOURCES = [CONTRACTS / f"{name}.vy" for name in ("model_registry", "sortition", "unique_signatures")]


@cache
def registry_variant(change: tuple[str, str, str]) -> Contract:
    """Compiled with one change: (file, old text, new text), the old text found exactly once."""
    name, old, new = change
    with TemporaryDirectory() as folder:
        for source in SOURCES:
            shutil.copy(source, folder)
        path = Path(folder) / name
        text = path.read_text()
        if text.count(old) != 1:
            raise ValueError(f"{name} has {text.count(old)} times {old!r}")
        path.write_text(text.replace(old, new))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return load_contract(compiler().compiled(Path(folder) / "model_registry.vy"))
