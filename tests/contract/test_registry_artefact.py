"""The registry's sources say what they do, and do nothing that they should not."""

from __future__ import annotations

import re

import pytest

from contract.registry_variants import SOURCES
from support.internals import model_registry

SOURCE = SOURCES[0]
FUNCTION = re.compile(
    r"@external\n(?:@view\n|@payable\n)?def (?P<name>\w+)\((?P<arguments>[^)]*)\)(?P<returns> -> [^\n]+)?:\n"
    r'    """(?P<documentation>.*?)"""',
    re.DOTALL,
)
FUNCTIONS = {found["name"]: found for found in FUNCTION.finditer(SOURCE.read_text())}
CODE = "".join(re.sub(r"#[^\n]*|\"\"\".*?\"\"\"", "", path.read_text(), flags=re.DOTALL) for path in SOURCES)


def test_every_external_function_is_documented():
    assert len(FUNCTIONS) == SOURCE.read_text().count("@external\n") == 12


@pytest.mark.parametrize("name", FUNCTIONS)
def test_documentation_has_a_notice_and_all_parameters(name: str):
    found = FUNCTIONS[name]
    flat = re.sub(r"\[[^\]]*\]", "", found["arguments"])
    parameters = [part.split(":")[0].strip() for part in flat.split(",") if part.strip()]
    assert re.search(r"@notice \S+", found["documentation"])
    assert re.findall(r"@param (\w+) \S+", found["documentation"]) == parameters
    assert ("@return" in found["documentation"]) == bool(found["returns"])
    assert [argument for argument, _ in model_registry().functions[name].inputs] == parameters


def test_every_file_says_what_it_is_and_every_assert_gives_a_reason():
    for path in SOURCES:
        for tag in ("@title", "@license Apache-2.0", "@author noisebank", "@notice", "@dev"):
            assert re.search(rf"^{tag}\s", path.read_text(), re.MULTILINE)
    asserts = [line.strip() for line in CODE.splitlines() if "assert " in line]
    assert len(asserts) >= 40
    for line in asserts:
        assert re.search(r', "registry: [a-z][a-z ]+"$', line), line


def test_it_calls_precompiles_only_sends_once_and_cannot_end_itself():
    for word in ("extcall", "staticcall", "selfdestruct", "delegate", "create_", "raw_revert"):
        assert word not in CODE
    assert sorted(re.findall(r"raw_call\(\s*(\w+)", CODE)) == ["PAIRING", "POWER"]
    assert CODE.count("send(") == 1 and CODE.count("@payable") == 1
    assert len(model_registry().runtime) <= 24_576
