"""Bounded proofs about the compiled contract, by symbolic execution; `halmos/README.md` says the bounds.

Every property must be proven, and each must also find the bug that is planted for it: a property
that cannot fail proves nothing.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import pytest

from support.paths import ROOT

PROJECT = Path(__file__).parent / "halmos"
CHECKS = PROJECT / "BudgetLedger.t.sol"
CONTRACTS = ROOT / "contracts"
ARTEFACT = ROOT / "src" / "noisebank" / "ledger" / "budget_ledger.json"
NPM = ROOT / ".npm-parts"
HALMOS = ROOT / ".halmos-venv" / "bin" / "halmos"
PROPERTIES = re.findall(r"function check_(\w+)\(", CHECKS.read_text())
POSSIBLE = re.findall(r"function (reach_\w+)\(", CHECKS.read_text())
SOLVER = "z3"
"""Not halmos' usual one: yices 2.6.4 calls two charges in a row impossible, which they are not."""

ANSWERS_WITHIN = "1800s"
"""How long one question may take; "not in time" is no proof."""

BRANCHING = "1ms"
"""How long to ask whether a branch can be reached at all. A short time gives up early and then follows
branches that nobody can reach: sound, but it may meet the loop bound on them."""
LOOP_BOUND = 3
"""More than the search can need with MAX_RECORDS records, so that no path that exists is cut."""


@dataclass(frozen=True)
class Planted:
    """One mistake in the source, and the property that must find it."""

    mistake: str
    found_by: str
    dropped: tuple[str, ...] = ()
    """All asserts that give one of these reasons."""
    swapped: tuple[str, str] | None = None
    """A text of the source, and what stands there instead."""
    file: str = "budget_ledger.vy"

    def applied(self, text: str) -> str:
        for reason in self.dropped:
            text, count = re.subn(rf'assert [^\n]*, "ledger: {reason}"\n', "pass\n", text)
            assert count, f"{self.mistake}: no assert gives the reason {reason!r} any more"
        if self.swapped:
            assert self.swapped[0] in text, f"{self.mistake}: the source has no such text any more"
            text = text.replace(*self.swapped)
        return text


BELOW_SPENT = ("below what is spent", "invariant")
MONEY = "self._moneys[account] = packing._money_word(after)"
PLANTED = [
    Planted("lowering_forgets_the_spend", "spent_stays_within_the_budget_and_never_moves", BELOW_SPENT),
    Planted("lowering_forgets_the_spend_too", "lowering_never_goes_below_spent", BELOW_SPENT),
    Planted("raise_may_be_huge", "pending_raises_fit_their_word", ("budget too large",)),
    Planted("nobody_checks_the_owner", "only_the_owner_moves_the_budget", ("not the owner",)),
    Planted("anyone_accepts", "roles_change_only_by_consent_of_both", ("not proposed",)),
    Planted("opening_is_not_counted", "accounts_to_come_are_untouched", swapped=("= nonce + 1", "= nonce")),
    Planted("limit_below_use", "view_never_exceeds_its_limit", ("below what is used",)),
    Planted("nobody_checks_the_budget", "charge_stays_within_the_budget", ("budget exhausted", "invariant")),
    Planted("nobody_checks_the_curator", "only_the_curator_charges", ("not the curator",)),
    Planted("nobody_checks_the_curator_of_a_batch", "batch_keeps_the_budget", ("not the curator",)),
    Planted("nobody_checks_the_view", "charge_keeps_the_view_within_its_limit", ("view exhausted",)),
    Planted("stranger_may_charge", "stranger_is_refused", ("not the curator",)),
    Planted("pause_stops_nobody", "paused_account_refuses", ("paused",)),
    Planted("id_may_be_used_twice", "used_id_is_refused", ("id already used",)),
    Planted("about_may_be_anything", "senseless_claim_is_refused", ("about is one byte",)),
    Planted("quote_does_not_bind", "price_above_the_limit_is_refused", ("price above limit",)),
    Planted("budget_does_not_bind", "price_above_what_is_left_is_refused", ("budget exhausted", "invariant")),
    Planted("one_measurement_more", "measurement_beyond_the_last_is_refused", ("too many measurements",)),
    Planted("anybody_may_look", "analyst_without_a_limit_is_refused", ("analyst without a limit", "view exhausted")),
    Planted(
        "refinement_pays_all",
        "charge_is_the_growth_of_the_best_record",
        swapped=("= claim.wanted - best", "= claim.wanted"),
    ),
    Planted(
        "record_of_the_difference",
        "best_record_is_the_largest_asked_for",
        swapped=("<< 96) | claim.wanted", "<< 96) | fresh"),
    ),
    Planted(
        "other_account_pays",
        "charge_leaves_other_accounts_alone",
        swapped=(MONEY, MONEY.replace("account", "claim.query")),
    ),
    Planted("raise_is_never_too_late", "budget_rises_only_as_announced", ("raise expired",)),
    Planted(
        "charge_is_lost", "sum_of_charges_stays_within_the_budget", swapped=("spent=money.spent + cost", "spent=cost")
    ),
]


@dataclass(frozen=True)
class Verdict:
    """What halmos says about one property of one contract."""

    proven: bool
    refuted: bool
    seconds: float
    paths: int
    cut: int
    """Paths that met the loop bound."""


def test_every_property_has_a_planted_bug():
    assert {planted.found_by for planted in PLANTED} == set(PROPERTIES)


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project with the contract as it is."""
    need_halmos()
    return build(tmp_path_factory.mktemp("original"), [])


@pytest.fixture(scope="module")
def with_bugs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project with all planted bugs."""
    need_halmos()
    return build(tmp_path_factory.mktemp("planted"), PLANTED)


@pytest.mark.slow
@pytest.mark.timeout(7200)
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", PROPERTIES)
def test_property_is_proven(original: Path, name: str):
    assert prove(original, "Original", name).proven


@pytest.mark.slow
@pytest.mark.timeout(7200)
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", POSSIBLE)
def test_solver_does_not_call_the_possible_impossible(original: Path, name: str):
    assert prove(original, "Original", name).refuted


@pytest.mark.slow
@pytest.mark.timeout(7200)
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("bug", PLANTED, ids=lambda bug: str(bug.mistake))
def test_planted_bug_is_found_by_its_property(with_bugs: Path, bug: Planted):
    assert prove(with_bugs, contract_name(bug), bug.found_by).refuted


# -- asking halmos --------------------------------------------------------------------------------


def need_halmos() -> None:
    """Skips, visibly; fails under CI=true."""
    missing = [path for path in (NPM / "bin" / "forge", NPM / "node_modules" / "solc", HALMOS) if not path.exists()]
    if shutil.which("node") is None:
        missing.append(Path("node"))
    if not missing:
        return
    notice = f"{', '.join(path.name for path in missing)} not here: run tools/npm-parts and tools/halmos-venv"
    if os.environ.get("CI") == "true":
        pytest.fail(notice)
    pytest.skip(notice)


def prove(folder: Path, contract: str, name: str) -> Verdict:
    """The verdict on one property; the solver gets as long as it needs, up to `ANSWERS_WITHIN` a question."""
    report = folder / f"{contract}.json"
    report.unlink(missing_ok=True)
    command = [
        str(HALMOS), "--contract", contract, "--match-test", f"^(check_)?{name}\\(", "--json-output", str(report),
        "--storage-layout", "generic", "--loop", str(LOOP_BOUND), "--solver-timeout-branching", BRANCHING,
        "--solver", SOLVER, "--solver-timeout-assertion", ANSWERS_WITHIN, "--solver-threads", "2", "--no-status",
        "--early-exit", "--panic-error-codes", "0x01,0x11",  # a failed assert, and an overflow in the property itself
    ]  # fmt: skip
    environment = os.environ | {
        "NOISEBANK_NPM": str(NPM),
        "PATH": os.pathsep.join([str(NPM / "bin"), str(HALMOS.parent), os.environ.get("PATH", "")]),
    }
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert report.exists(), done.stdout[-4000:] + done.stderr[-4000:]
    (result,) = (one for some in json.loads(report.read_text())["test_results"].values() for one in some)
    paths, seconds = (result["num_paths"] or [0])[0], (result["time"] or [0.0])[0]
    # 0: proven; 1: a counterexample. All else (timeout, stuck, exception) is neither.
    code, cut = result["exitcode"], result["num_bounded_loops"] or 0
    verdict = Verdict(code == 0, code == 1, seconds, paths, cut)
    print(f"{contract} {name}: {verdict}", flush=True)
    return verdict


# -- the project that forge builds ----------------------------------------------------------------


def build(room: Path, planted: Iterable[Planted]) -> Path:
    """A copy of the project with the interface and the bytecodes, as contracts `Original` and `Planted...`."""
    folder, sources = room / "project", room / "sources"  # apart: forge would compile Vyper that it finds
    folder.mkdir()
    for name in ("foundry.toml", "solc", CHECKS.name):
        shutil.copy(PROJECT / name, folder / name)
    artefact = json.loads(ARTEFACT.read_text())
    (folder / "Interface.sol").write_text(interface(artefact["abi"]))
    variants = {"Original": artefact["initcode"]}
    for bug in planted:
        variants[contract_name(bug)] = with_planted(bug, sources)
    contracts = "".join(
        f'contract {name} is BudgetLedgerChecks {{ constructor() BudgetLedgerChecks(hex"{initcode}") {{}} }}\n'
        for name, initcode in variants.items()
    )
    (folder / "Variants.t.sol").write_text(f'{HEAD}import {{BudgetLedgerChecks}} from "./{CHECKS.name}";\n{contracts}')
    return folder


def contract_name(bug: Planted) -> str:
    return "Planted" + "".join(part.capitalize() for part in bug.mistake.split("_"))


def with_planted(bug: Planted, folder: Path) -> str:
    """Init code of the contract with the mistake in it."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(CONTRACTS, folder)
    source = folder / bug.file
    source.write_text(bug.applied(source.read_text()))
    return str(compiler().compiled(folder / "budget_ledger.vy")["initcode"])


def compiler() -> Any:
    """contracts/compile.py as a module."""
    spec = spec_from_file_location("compile_contracts", CONTRACTS / "compile.py")
    assert spec is not None and spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


HEAD = "// SPDX-License-Identifier: Apache-2.0\npragma solidity ^0.8.24;\n"
RESERVED = {"case", "default", "in", "let", "match", "of", "reference", "switch", "type", "var"}
"""Words that a struct in Solidity cannot use as names."""


def interface(abi: list[dict[str, Any]]) -> str:
    """`IBudgetLedger` in Solidity, with every function of the ABI, and `isWriting`, which knows those that write.

    The structs of a getter are named after it (`accounts` returns `Accounts`), those of an argument after the argument.
    """
    structs: dict[str, list[str]] = {}
    functions, writing = [], []
    for entry in abi:
        if entry["type"] != "function":
            continue
        inputs = ", ".join(_kind(part, part["name"], structs) for part in entry["inputs"])
        outputs = ", ".join(_kind(part, entry["name"], structs) for part in entry["outputs"])
        reads = entry["stateMutability"] in ("view", "pure")
        if not reads:
            writing.append(entry["name"])
        line = f"    function {entry['name']}({inputs}) external{' view' if reads else ''}"
        functions.append(line + (f" returns ({outputs});" if outputs else ";"))
    declared = [f"    struct {name} {{ {' '.join(fields)} }}" for name, fields in structs.items()]
    body = "\n".join([*declared, *functions])
    any_of = " || ".join(f"selector == IBudgetLedger.{name}.selector" for name in writing)
    return (
        f"{HEAD}interface IBudgetLedger {{\n{body}\n}}\n"
        f"function isWriting(bytes4 selector) pure returns (bool) {{\n    return {any_of};\n}}\n"
    )


def _kind(part: dict[str, Any], name: str, structs: dict[str, list[str]], inside: bool = False) -> str:
    kind = part["type"]
    if kind.startswith("tuple"):
        title = "".join(word.capitalize() for word in name.split("_"))
        structs[title] = [
            f"{_kind(field, field['name'], structs, inside=True)} {_field(field['name'])};"
            for field in part["components"]
        ]
        kind = title + kind.removeprefix("tuple")
    in_memory = kind[0].isupper() or kind.endswith("]") or kind in ("bytes", "string")
    return f"{kind} memory" if in_memory and not inside else kind


def _field(name: str) -> str:
    return f"{name}_" if name in RESERVED else name
