"""The checked-in artefact is what the sources compile to, and the sources say what they do."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from contract.variants import CONTRACTS, SOURCES, compiler
from support.internals import budget_ledger
from support.paths import ROOT

SOURCE = CONTRACTS / "budget_ledger.vy"
ARTEFACTS = ROOT / "src" / "noisebank" / "ledger"
ARTEFACT = ARTEFACTS / "budget_ledger.json"
FUNCTION = re.compile(
    r"@external\n(?:@view\n|@pure\n)?def (?P<name>\w+)\((?P<arguments>[^)]*)\)(?P<returns> -> [^\n]+)?:\n"
    r'    """(?P<documentation>.*?)"""',
    re.DOTALL,
)
FUNCTIONS = {found["name"]: found for found in FUNCTION.finditer(SOURCE.read_text())}
CODE = {
    path.name: re.sub(r"#[^\n]*|\"\"\".*?\"\"\"", "", path.read_text(), flags=re.DOTALL).replace(" \n", "\n")
    for path in SOURCES
}


@pytest.mark.filterwarnings("ignore")
def test_artefacts_are_what_the_sources_compile_to():
    for name in compiler().CONTRACTS:
        fresh = json.dumps(compiler().compiled(CONTRACTS / f"{name}.vy"), indent=1, sort_keys=True) + "\n"
        assert (ARTEFACTS / f"{name}.json").read_text() == fresh, "run contracts/compile.py"


def test_artefact_names_the_compiler_that_is_pinned():
    artefact = json.loads(ARTEFACT.read_text())
    pinned = re.search(r"vyper==([\d.]+)", (ROOT / "pyproject.toml").read_text())
    assert pinned and artefact["compiler"] == f"vyper {pinned[1]}"
    for path in SOURCES:
        assert f"# pragma version {pinned[1]}\n" in path.read_text()
        assert f"# pragma evm-version {artefact['evm_version']}\n" in path.read_text()


def test_contract_fits_the_limit_of_every_chain():
    assert len(budget_ledger().runtime) <= 24_576


def test_contract_is_one_file_and_at_most_two_modules():
    imported = set(re.findall(r"^import (\w+)$", SOURCE.read_text(), re.MULTILINE))
    assert {path.stem for path in SOURCES} == {"budget_ledger", *imported}
    assert len(imported) <= 2
    modules = {"sortition", "unique_signatures"}  # of the model registry, see test_registry_artefact.py
    assert {path.stem for path in CONTRACTS.glob("*.vy")} == imported | modules | set(compiler().CONTRACTS)


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
    flat = re.sub(r"\[[^\]]*\]", "", found["arguments"])
    parameters = [part.split(":")[0].strip() for part in flat.split(",") if part.strip()]
    assert re.search(r"@notice \S+", documentation)
    assert re.findall(r"@param (\w+) \S+", documentation) == parameters
    assert ("@return" in documentation) == bool(found["returns"])
    assert [argument for argument, _ in budget_ledger().functions[name].inputs] == parameters


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.stem)
def test_every_file_says_what_it_is(path: Path):
    for tag in ("@title", "@license Apache-2.0", "@author noisebank", "@notice", "@dev"):
        assert re.search(rf"^{tag}\s", path.read_text(), re.MULTILINE)


def test_only_the_contract_itself_is_callable_from_outside():
    for name, code in CODE.items():
        assert (name == SOURCE.name) == ("@external" in code)
    internal = re.findall(r"@internal\n(?:@view\n|@pure\n)?def (\w+)", "".join(CODE.values()))
    assert internal and all(name.startswith("_") for name in internal)


def test_every_assert_gives_a_reason():
    asserts = [line.strip() for code in CODE.values() for line in code.splitlines() if "assert " in line]
    assert len(asserts) >= 60
    for line in asserts:
        assert re.search(r', "ledger: [a-z][a-z ]+"$', line), line


def test_contract_calls_only_itself_and_cannot_end_itself():
    code = "".join(CODE.values())
    for word in ("extcall", "staticcall", "selfdestruct", "delegate", "send(", "@payable", "create_", "raw_revert"):
        assert word not in code
    assert re.findall(r"raw_call\(\s*(\w+)", code) == ["self", "self"]
    assert code.count("raw_call") == 2


def test_every_function_that_spends_or_lowers_rechecks_the_invariant():
    code = CODE[SOURCE.name]
    assert len(re.findall(r"self\._moneys\[account\] = ", code)) == 4  # opening, charging, lowering, raising
    for name in ("_charge", "lower_budget"):
        body = code[code.index(f"def {name}(") :].split("\n@", 1)[0]
        recheck = re.search(r'assert (\w+)\.spent <= \1\.budget, "ledger: invariant"', body)
        assert recheck and recheck.start() > body.index("self._moneys[account] = ")
