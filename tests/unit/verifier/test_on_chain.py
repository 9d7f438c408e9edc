"""A bank whose ledger is a contract on a chain, and the verifier that reads the chain: no node of others is needed.

The chain is the crowd's own, in this process. The file takes four seconds.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from noisebank import Account, read_policy
from noisebank.account.statement import make_openings
from noisebank.bank.folder import BankParts
from noisebank.bank.opening import Confirmed, open_account
from noisebank.core.entropy import SystemEntropy
from noisebank.core.errors import BadLedger, LedgerRefused, NoisebankError, Tampered, ViewExhausted
from noisebank.ledger.chain_config import ChainConfig
from noisebank.ledger.node import Node
from noisebank.ledger.protocol import Role
from noisebank.ledger.rpc import ChainLedger, deploy_contract
from noisebank.vault.sqlite_vault import SqliteVault
from noisebank.verifier.on_chain import ChainHistory
from noisebank.verifier.verification import verify_chain
from support.banks import CURATOR, OWNER, write_people
from support.crowd_played import own_chain

COUNT, COST = "SELECT COUNT(*) FROM people WHERE smoker", {"epsilon": "0.5", "delta": "1e-6"}


@dataclass
class Town:
    folder: Path
    where: ChainConfig
    account: Account
    receipt: Any


@pytest.fixture(scope="module")
def town(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Town]:
    folder = tmp_path_factory.mktemp("own")
    policy = write_people(folder)
    policy.write_text(
        policy.read_text().replace(
            'neighbours = "replace-one"', 'neighbours = "replace-one"\ncubes = [["town", "smoker"]]'
        )
    )
    with own_chain(folder) as url:
        where = deploy_contract(url, CURATOR)
        with closing(ChainLedger(where, {Role.CURATOR: CURATOR, Role.OWNER: OWNER}, folder / "outbox.sqlite")) as chain:
            parts = BankParts(chain, SqliteVault(":memory:"), SystemEntropy())
            account = open_account(parts, read_policy(policy), confirmed=Confirmed(policy=True))[0]
            first = account.ask(COUNT, **COST, key="k")
            assert account.ask(COUNT, **COST, key="k").rows == first.rows
            assert account.ask(COUNT, **COST).rows == first.rows
            account.ask("SELECT COUNT(*) FROM people WHERE age > 30", **COST)
            maria = account.analyst("maria")
            chain.set_limit(account.id, maria, account.state.spent.units)
            account.ask(COUNT, epsilon="0.3", delta="1e-6", analyst="maria")
            with pytest.raises(ViewExhausted):
                account.ask("SELECT SUM(age) FROM people", epsilon="2", delta="1e-6", analyst="maria")
            chain.pause_account(account.id)
            with pytest.raises(LedgerRefused, match="paused"):
                account.ask("SELECT SUM(age) FROM people", **COST)
            yield Town(folder, where, account, first.receipt)


def test_the_books_of_a_chain_are_recounted_from_its_logs(town: Town) -> None:
    done: list[int] = []
    report = verify_chain(
        town.where.url, town.where.contract, receipts=[town.receipt], openings=[make_openings(town.account)],
        progress=done.append,
    )  # fmt: skip
    assert report.passed and done == list(range(1, len(done) + 1)) and len(done) > 8
    (facts,) = report.to_json()["accounts"]
    assert facts["account"] == town.account.id.hex()
    assert any("receipt" in line for line in report.to_json()["compared_with"])


def test_the_history_of_a_chain_has_blocks_and_books(town: Town) -> None:
    history = ChainHistory(town.where.url, town.where.contract)
    history.read_logs(town.where.deployment_block)
    newest = history.newest_block
    digest = history.block_digest(newest)
    assert digest is not None and history.head.digest == digest
    assert history.block_digest(newest + 1) is None and history.block_digest(-1) is None
    assert history.find_block(b"short") is None
    with pytest.raises(BadLedger, match="cannot look a block up by its hash"):
        history.find_block(digest)
    (state,) = history.books.list_accounts()
    known = town.account.state
    assert (state.account, state.spent, state.budget, state.paused) == (
        town.account.id, known.spent, known.budget, True
    )  # fmt: skip
    assert (
        history.books.count_reservations(state.account)
        == 4
        == town.account.ledger.books.count_reservations(state.account)
    )
    entry = history.books.find_reservation(state.account, town.receipt.id)
    known_entry = town.account.ledger.find_reservation(state.account, town.receipt.id)
    assert entry is not None and known_entry is not None
    assert replace(entry, time=0) == replace(known_entry, time=0)  # these logs do not say when


@pytest.mark.parametrize(
    ("function", "words"),
    [
        ("money", "balance"),
        ("desk", "curator, version"),
        ("accounts", "the owner"),
        ("view_of", "a view"),
        ("cell", "cell 0 of cube 1"),
    ],
)
def test_a_state_that_the_logs_do_not_add_up_to_is_seen(
    town: Town, monkeypatch: pytest.MonkeyPatch, function: str, words: str
) -> None:
    call = Node.call_view

    def lie(self: Node, contract: Any, to: str, name: str, *arguments: Any, **options: Any) -> Any:
        told = list(call(self, contract, to, name, *arguments, **options))
        if name == function:
            told[0] = told[0] + 1 if isinstance(told[0], int) else "0x" + "12" * 20
        return tuple(told)

    monkeypatch.setattr(Node, "call_view", lie)
    with pytest.raises(Tampered, match=words):
        ChainHistory(town.where.url, town.where.contract).read_logs()
    assert not verify_chain(town.where.url, town.where.contract).passed


def test_what_is_no_ledger_is_said(town: Town, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(BadLedger, match="no contract at 0x1212"):
        ChainHistory(town.where.url, "0x" + "12" * 20).read_logs()
    monkeypatch.setattr(Node, "get_code", lambda self, address: b"\x01")
    with pytest.raises(BadLedger, match="not this version's"):
        ChainHistory(town.where.url, town.where.contract).read_logs()
    with pytest.raises(NoisebankError):
        Node("http://127.0.0.1:9").chain_id()


def test_a_ledger_opened_again_knows_what_was_said(town: Town) -> None:
    keys = {Role.CURATOR: CURATOR, Role.OWNER: OWNER}
    with closing(ChainLedger(town.where, keys, town.folder / "again.sqlite")) as again:
        ledger = town.account.ledger
        assert again.get_account(town.account.id) == ledger.get_account(town.account.id)
        assert again.list_reservations(town.account.id) == ledger.list_reservations(town.account.id)
        assert (again.chain_id, again.contract) == (ledger.chain_id, ledger.contract)
        assert again.get_view(town.account.id, town.account.analyst("maria")) == town.account.view("maria")
        assert again.block_digest(again.head().number) == again.head().digest
