"""The checked-in artefact is what the source compiles to, and the source says what it does."""

from __future__ import annotations

import json
import re
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import pytest

from noisebank.ledger.abi import budget_ledger

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "contracts" / "budget_ledger.vy"
ARTEFACT = ROOT / "src" / "noisebank" / "ledger" / "budget_ledger.json"
FUNCTION = re.compile(
    r"@external\ndef (?P<name>\w+)\((?P<arguments>[^)]*)\)(?P<returns> ->[^:]*(?:\([^)]*\))?)?:\n"
    r'    """(?P<documentation>.*?)"""',
    re.DOTALL,
)
FUNCTIONS = {found["name"]: found for found in FUNCTION.finditer(SOURCE.read_text())}


@pytest.fixture(scope="module")
def compiler() -> ModuleType:
    spec = spec_from_file_location("compile_contracts", ROOT / "contracts" / "compile.py")
    assert spec is not None and spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.filterwarnings("ignore")
def test_artefact_is_what_the_source_compiles_to(compiler: ModuleType):
    fresh = json.dumps(compiler.compiled(SOURCE), indent=1, sort_keys=True) + "\n"
    assert ARTEFACT.read_text() == fresh, "run contracts/compile.py"


def test_artefact_names_the_compiler_that_is_pinned():
    artefact = json.loads(ARTEFACT.read_text())
    pinned = re.search(r"vyper==([\d.]+)", (ROOT / "pyproject.toml").read_text())
    assert pinned and artefact["compiler"] == f"vyper {pinned[1]}"
    assert f"# pragma version {pinned[1]}\n" in SOURCE.read_text()
    assert f"# pragma evm-version {artefact['evm_version']}\n" in SOURCE.read_text()


def test_package_loads_every_function_and_event_of_the_artefact():
    contract = budget_ledger()
    entries = json.loads(ARTEFACT.read_text())["abi"]
    assert set(contract.functions) == {entry["name"] for entry in entries if entry["type"] == "function"}
    assert {event.name for event in contract.events.values()} == {
        entry["name"] for entry in entries if entry["type"] == "event"
    }
    assert set(re.findall(r"^event (\w+)", SOURCE.read_text(), re.MULTILINE)) == {
        event.name for event in contract.events.values()
    }


def test_every_external_function_is_documented():
    assert len(FUNCTIONS) == SOURCE.read_text().count("@external\n") > 0


@pytest.mark.parametrize("name", FUNCTIONS)
def test_documentation_has_a_notice_and_all_parameters(name: str):
    found = FUNCTIONS[name]
    documentation = found["documentation"]
    parameters = [part.split(":")[0].strip() for part in found["arguments"].split(",") if part.strip()]
    assert re.search(r"@notice \S+", documentation)
    assert re.findall(r"@param (\w+) \S+", documentation) == parameters
    assert ("@return" in documentation) == bool(found["returns"])
    assert [argument for argument, _ in budget_ledger().functions[name].inputs] == parameters


def test_every_assert_gives_a_reason():
    asserts = [line.strip() for line in SOURCE.read_text().splitlines() if line.strip().startswith("assert ")]
    assert len(asserts) >= 30
    for line in asserts:
        assert re.search(r', "ledger: [a-z][a-z ]+"$', line), line


def test_contract_makes_no_external_call_and_cannot_end_itself():
    code = re.sub(r"#[^\n]*|\"\"\".*?\"\"\"", "", SOURCE.read_text(), flags=re.DOTALL)
    for word in ("raw_call", "extcall", "staticcall", "selfdestruct", "delegatecall", "send(", "@payable", "create_"):
        assert word not in code


def test_every_function_that_spends_or_lowers_rechecks_the_invariant():
    text = SOURCE.read_text()
    for name in ("reserve", "lower_budget"):
        body = text[text.index(f"def {name}(") :].split("\n@", 1)[0]
        assert 'self.accounts[account].budget, "ledger: invariant"' in body
        assert body.index('"ledger: invariant"') < body.index("log ")
