"""Anchors: what from the journal alone cannot be seen is seen against a chain that remembers."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from chain.gateway import CURATOR, STRANGER, fund
from contract.node import Node, node_or_skip
from ledger_history import Fixed, claim, opening
from noisebank import verify
from support.banks import memory_rooms
from support.internals import BadLedger, EmbeddedLedger, Head, deploy_anchors, find_anchors, send_anchor
from support.internals import Node as Door


@pytest.fixture(scope="module")
def node() -> Iterator[Node]:
    with node_or_skip() as running:
        fund(running, CURATOR)
        yield running


@pytest.fixture(scope="module")
def contract(node: Node) -> str:
    return deploy_anchors(Door(node.url), CURATOR)


def history(salt: int, wanted: tuple[int, ...]) -> EmbeddedLedger:
    """A journal of CURATOR's with one reservation a block; the same salt begins the same journal."""
    chain = memory_rooms(Fixed(salt)).ledger
    assert isinstance(chain, EmbeddedLedger)
    account = chain.open_account(opening(budget=1000))
    for id, units in enumerate(wanted, 1):
        chain.reserve(claim(account, id, units, query=id))
    return chain


def pin(node: Node, contract: str, chain: EmbeddedLedger, head: Head | None = None) -> None:
    send_anchor(Door(node.url), CURATOR, contract, chain.genesis.digest, head or chain.head())


def test_an_honest_journal_agrees_with_its_anchors(node: Node, contract: str) -> None:
    chain = history(1, (5, 6, 7))
    pin(node, contract, chain)
    lines = list(chain.export_journal())
    for where in (contract, None):
        report = verify(lines, anchors=node.url, anchor_contract=where)
        assert report.passed, report.problem
        assert any("anchors on chain 5, the newest of block 4" in line for line in report.compared_with)
        assert any("after block 4" in line for line in report.cannot_see)


def test_a_cut_tail_and_an_old_copy_are_seen(node: Node, contract: str) -> None:
    chain = history(2, (5, 6, 7))
    pin(node, contract, chain)
    for kept in (2, 3, 4):
        lines = list(chain.export_journal())[: kept + 1]
        assert verify(lines).passed, "from the journal alone it cannot be seen"
        report = verify(lines, anchors=node.url)
        assert not report.passed and "block 4 was anchored" in report.problem


def test_a_history_that_the_sealer_has_rewritten_is_seen(node: Node, contract: str) -> None:
    pin(node, contract, history(3, (5, 6, 7)))
    rewritten = list(history(3, (5, 1, 7, 9)).export_journal())
    assert verify(rewritten).passed
    report = verify(rewritten, anchors=node.url, anchor_contract=contract)
    assert not report.passed and "not in this history" in report.problem


def test_an_anchor_that_nobody_mentions_is_found_too(node: Node, contract: str) -> None:
    chain = history(4, (5, 6, 7))
    pin(node, contract, chain)
    other = deploy_anchors(Door(node.url), CURATOR)
    pin(node, other, chain, Head(3, b"\x07" * 32))
    assert verify(list(chain.export_journal()), anchors=node.url, anchor_contract=contract).passed
    assert not verify(list(chain.export_journal()), anchors=node.url).passed, (
        "all contracts are searched unless one is named"
    )


def test_only_the_sealers_own_anchors_count(node: Node, contract: str) -> None:
    chain = history(5, (5, 6))
    fund(node, STRANGER)
    send_anchor(Door(node.url), STRANGER, contract, chain.genesis.digest, Head(2, b"\x07" * 32))
    assert find_anchors(Door(node.url), chain.genesis.digest, CURATOR.address) == []
    report = verify(list(chain.export_journal()), anchors=node.url)
    assert not report.passed and "holds no anchor" in report.problem
    pin(node, contract, chain)
    assert verify(list(chain.export_journal()), anchors=node.url).passed


def test_a_wrong_contract_or_an_empty_purse_is_said(node: Node, contract: str) -> None:
    chain = history(6, (5,))
    with pytest.raises(BadLedger, match="no anchors contract"):
        send_anchor(Door(node.url), CURATOR, "0x" + "55" * 20, chain.genesis.digest, chain.head())
    poor = type(CURATOR)(b"\x0b" * 32)
    with pytest.raises(BadLedger, match="has no funds"):
        send_anchor(Door(node.url), poor, contract, chain.genesis.digest, chain.head())


def test_the_verifier_alone_loads_nothing_that_sees_data(tmp_path: Path) -> None:
    journal = tmp_path / "journal.jsonl"
    journal.write_text("\n".join(history(7, (5, 6)).export_journal()) + "\n")
    seen = (
        "import runpy, sys\n"
        f"sys.argv = ['audit', {str(journal)!r}, '--json']\n"
        "try:\n    runpy.run_module('noisebank.verifier', run_name='__main__')\n"
        "except SystemExit as end:\n    assert end.code == 0, end.code\n"
        "print([name for name in sys.modules if name.startswith(('noisebank.vault', 'noisebank.engines', "
        "'noisebank.service', 'noisebank.bank.bank', 'noisebank.account.account', 'duckdb'))])"
    )
    done = subprocess.run([sys.executable, "-c", seen], capture_output=True, text=True, check=True)
    assert '"passed": true' in done.stdout and done.stdout.strip().endswith("[]")
