"""The contract with lines of its source changed: planted bugs for tests that must see them."""

from __future__ import annotations

import shutil
import warnings
from functools import cache
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from tempfile import TemporaryDirectory
from types import ModuleType

from support.internals import Contract, load_contract
from support.paths import ROOT

CONTRACTS = ROOT / "contracts"
SOURCES = [CONTRACTS / f"{name}.vy" for name in ("budget_ledger", "cell_tree", "packing")]
"""The contract and its modules."""


@cache
def compiler() -> ModuleType:
    """contracts/compile.py"""
    spec = spec_from_file_location("compile_contracts", CONTRACTS / "compile.py")
    assert spec is not None and spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@cache
def variant(*changes: tuple[str, str, str]) -> Contract:
    """The contract compiled with these changes: (file, old text, new text), each text found exactly once."""
    with TemporaryDirectory() as folder:
        for source in SOURCES:
            shutil.copy(source, folder)
        for name, old, new in changes:
            path = Path(folder) / name
            text = path.read_text()
            if text.count(old) != 1:
                raise ValueError(f"{name} has {text.count(old)} times {old!r}")
            path.write_text(text.replace(old, new))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return load_contract(compiler().compiled(Path(folder) / "budget_ledger.vy"))
