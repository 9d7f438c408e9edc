"""Compiles the contracts into the artefacts that the package ships: `python contracts/compile.py`.

The artefacts are checked in so that users need no compiler; a test recompiles and compares them.
"""

from __future__ import annotations

import json
from pathlib import Path

from vyper.compiler import compile_from_file_input
from vyper.compiler.input_bundle import FilesystemInputBundle
from vyper.compiler.settings import Settings

HERE = Path(__file__).parent
ARTEFACTS = HERE.parent / "src" / "noisebank" / "ledger"
EVM_VERSION = "cancun"
CONTRACTS = ("anchors", "budget_ledger", "model_registry")
"""What is deployed; other files here are modules of these."""


def compiled(source: Path) -> dict[str, object]:
    """Bytecode and interface of one contract."""
    bundle = FilesystemInputBundle([source.parent])
    output = compile_from_file_input(
        bundle.load_file(source.name),
        input_bundle=bundle,
        output_formats=["bytecode", "bytecode_runtime", "abi"],
        settings=Settings(evm_version=EVM_VERSION),
    )
    return {
        "name": source.stem,
        "compiler": "vyper 0.4.3",
        "evm_version": EVM_VERSION,
        "initcode": output["bytecode"].removeprefix("0x"),
        "runtime": output["bytecode_runtime"].removeprefix("0x"),
        "abi": output["abi"],
    }


if __name__ == "__main__":
    for name in CONTRACTS:
        path = HERE / f"{name}.vy"
        target = ARTEFACTS / f"{path.stem}.json"
        target.write_text(json.dumps(compiled(path), indent=1, sort_keys=True) + "\n")
        print(target.relative_to(HERE.parent))  # noqa: T201
