"""The ledger on a node, while it waits: how often it looks, what it offers to pay, and what it closes in the end.

Time stands still here and moves only while the ledger sleeps: a wait without a sleep would ask the node without end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from chain.gateway import CURATOR, KEYS, Middleman, claim, deployed, gateway, opening, word
from contract.node import Node, node_or_skip
from noisebank.core.errors import LedgerHalted, OutcomeUnknown
from noisebank.core.records import CellRun
from noisebank.ledger import follower as follower_module
from noisebank.ledger import node as node_module
from noisebank.ledger import rpc as rpc_module
from noisebank.ledger.chain_config import ChainConfig
from noisebank.ledger.node import Node as RpcNode
from noisebank.ledger.node import NodeError
from noisebank.ledger.protocol import Seal
from noisebank.ledger.rpc import ChainLedger
from noisebank.ledger.signing import Transaction
from noisebank.verifier.verification import verify_chain

POLL = 0.01
MOST_LOOKS = 600


@pytest.fixture(scope="module")
def node() -> Iterator[Node]:
    with node_or_skip() as running:
        yield running


@pytest.fixture(scope="module")
def where(node: Node) -> ChainConfig:
    return deployed(node)


class Clock:
    """Moves by what is slept, and does something meanwhile."""

    def __init__(self, meanwhile: Callable[[], object] = lambda: None) -> None:
        self.now, self.looks, self.meanwhile = 1_000.0, 0, meanwhile
        self.sleeps: list[float] = []

    def monotonic(self) -> float:
        self.looks += 1
        assert self.looks < MOST_LOOKS, "it looks again and again without a sleep"
        return self.now

    def sleep(self, seconds: float) -> None:
        self.sleeps.append(seconds)
        self.now += seconds
        self.meanwhile()


@pytest.fixture
def unmined(node: Node) -> Iterator[Node]:
    """A node that makes blocks only when it is told to."""
    node.rpc("evm_setAutomine", False)
    yield node
    node.mine()
    node.rpc("evm_setAutomine", True)


# -- how often it looks ----------------------------------------------------------------------------


def test_a_batch_is_waited_for_by_sleeping_and_only_as_long_as_it_should(
    node: Node, where: ChainConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    chain = gateway(where, seconds=1.0)
    account = chain.open_account(opening())
    clock = Clock()
    node.rpc("evm_setAutomine", False)
    try:
        monkeypatch.setattr(rpc_module, "time", clock)
        with pytest.raises(OutcomeUnknown, match="has not become final in 1 s"):
            chain.reserve(claim(account, 1, 5))
    finally:
        node.rpc("evm_setAutomine", True)
        node.mine()
        chain.close()
    assert set(clock.sleeps) == {POLL} and len(clock.sleeps) in (100, 101)  # sums of hundredths


class QuickClock(Clock):
    """Moves a tenth of a second at each sleep, however short."""

    def sleep(self, seconds: float) -> None:
        super().sleep(0.1)


def test_what_is_on_its_way_is_sent_again_once_a_second(
    node: Node, where: ChainConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    chain = gateway(where, seconds=2.5)
    account = chain.open_account(opening())
    clock, sent = QuickClock(), list[float]()
    send = RpcNode.send_transaction

    def note_and_send(there: RpcNode, transaction: Transaction) -> None:
        sent.append(round(clock.now - 1_000.0, 1))
        send(there, transaction)

    node.rpc("evm_setAutomine", False)
    try:
        monkeypatch.setattr(rpc_module, "time", clock)
        monkeypatch.setattr(RpcNode, "send_transaction", note_and_send)
        with pytest.raises(OutcomeUnknown):
            chain.reserve(claim(account, 1, 5))
    finally:
        node.rpc("evm_setAutomine", True)
        node.mine()
        chain.close()
    assert len(sent) == 3 and sent[0] == 0 and all(1.0 <= after - before <= 1.1 for before, after in pairwise(sent))


def test_a_batch_is_seen_as_soon_as_it_is_in_a_block(
    unmined: Node, where: ChainConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock(unmined.mine)
    monkeypatch.setattr(node_module, "time", clock)
    chain = gateway(where)
    account = chain.open_account(opening())
    assert clock.sleeps == [0.05]  # sent, not there, slept, there
    clock = Clock(unmined.mine)
    monkeypatch.setattr(rpc_module, "time", clock)
    chain.reserve(claim(account, 1, 5))
    chain.publish(account, Seal(word(1), word(7)))
    assert clock.sleeps == [POLL, POLL]
    chain.close()


def test_the_owners_call_waits_until_its_block_is_final(
    node: Node, where: ChainConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    deep = ChainConfig(where.url, where.contract, where.chain_id, where.deployment_block, confirmations=4)
    chain = gateway(deep)
    clock = Clock(node.mine)
    monkeypatch.setattr(rpc_module, "time", clock)
    chain.open_account(opening())
    assert clock.sleeps == [POLL] * 3
    chain.close()


def test_the_owners_call_gives_up_when_nothing_becomes_final(
    node: Node, where: ChainConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    chain = gateway(
        ChainConfig(where.url, where.contract, where.chain_id, where.deployment_block, confirmations=4), seconds=1.0
    )
    clock = Clock()
    monkeypatch.setattr(rpc_module, "time", clock)
    with pytest.raises(OutcomeUnknown, match="has not become final in 1 s"):
        chain.open_account(opening())
    assert set(clock.sleeps) == {POLL} and len(clock.sleeps) in (100, 101, 102)
    chain.close()


def test_a_node_that_lags_is_asked_ten_times_a_second(
    node: Node, where: ChainConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    behind = 0

    def twist(method: str, params: list[Any], result: Any) -> Any:
        if behind and method == "eth_blockNumber":
            return hex(int(result, 16) - behind)
        if behind and method == "eth_getBlockByNumber" and params[0] == hex(chain.head().number):
            return None
        return result

    with Middleman(node, twist) as middleman:
        chain = gateway(where, url=middleman.url)
        behind = 1
        clock = Clock()
        monkeypatch.setattr(follower_module, "time", clock)
        with pytest.raises(OutcomeUnknown, match="lags behind"):
            chain.refresh(patience=1.0)
        assert set(clock.sleeps) == {0.1} and len(clock.sleeps) in (10, 11)
        chain.close()


def test_a_question_that_is_cut_is_asked_again_more_and_more_slowly(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    monkeypatch.setattr(node_module, "time", clock)
    there = RpcNode("http://127.0.0.1:9")
    with pytest.raises(OutcomeUnknown, match="does not answer"):
        there.chain_id()
    assert clock.sleeps == [0.5, 1.0, 2.0]


# -- what it offers to pay -------------------------------------------------------------------------


class Scripted(RpcNode):
    """Answers from a table."""

    def __init__(self, base: str | None, tip: int | None) -> None:
        super().__init__("http://127.0.0.1:9")
        self.base, self.tip = base, tip

    def ask(self, method: str, *params: Any) -> Any:
        if method == "eth_getBlockByNumber":
            return {} if self.base is None else {"baseFeePerGas": self.base}
        assert method == "eth_maxPriorityFeePerGas"
        if self.tip is None:
            raise NodeError("the method does not exist")
        return hex(self.tip)


@pytest.mark.parametrize(
    ("base", "tip", "offered", "cap"),
    [("0x7", 3, 3, 17), ("0x0", 3, 3, 3), (None, 3, 3, 3), ("0x7", None, 10**9, 14 + 10**9), ("0x7", 0, 0, 14)],
)
def test_the_fee_is_capped_at_twice_the_base_fee_and_the_tip(base: str, tip: int, offered: int, cap: int) -> None:
    fees = Scripted(base, tip).offer_fees(21_000)
    assert (fees.tip, fees.max_fee, fees.gas) == (offered, cap, 21_000)


def read_newest(node: Node) -> dict[str, Any]:
    """The newest transaction of the chain."""
    (transaction,) = node.rpc("eth_getBlockByNumber", "latest", True)["transactions"]
    return dict(transaction)


def test_gas_grows_with_the_batch_and_never_beyond_what_a_block_takes(node: Node, where: ChainConfig) -> None:
    """Ethereum takes no transaction above 2^24 gas; each part is paid for, or the batch would run out in the middle."""
    chain = gateway(where)
    account = chain.open_account(opening(10**6))
    chain.add_cube(account, 64)
    limits = []
    for id, count in ((1, 1), (2, 2), (3, 16)):
        runs = tuple(CellRun(2 * start, 2 * start + 1, 2**31) for start in range(count))
        chain.reserve(claim(account, id, 1 + id, cube=1, runs=runs))
        newest = read_newest(node)
        assert newest["from"] == CURATOR.address.lower()
        limits.append(int(newest["gas"], 16))
    chain.reserve(*(claim(account, 10 + id, 1) for id in range(3)))
    three = int(read_newest(node)["gas"], 16)
    chain.publish(account, *(Seal(word(10 + id), word(7 + id)) for id in range(3)))
    published = int(read_newest(node)["gas"], 16)
    chain.close()
    assert limits == [1_210_000, 2_110_000, 14_710_000] and max(limits) < 2**24
    assert three == 200_000 + 3 * 110_000 and published == 200_000 + 3 * 45_000


def test_a_group_that_could_take_more_than_a_block_is_sent_with_the_most_that_one_takes(
    node: Node, where: ChainConfig
) -> None:
    chain = gateway(where)
    account = chain.open_account(opening(10**6))
    chain.add_cube(account, 64)
    runs = tuple(CellRun(2 * start, 2 * start + 1, 2**31) for start in range(16))
    chain.reserve(claim(account, 1, 2, cube=1, runs=runs), *(claim(account, 2 + id, 1) for id in range(7)))
    assert int(read_newest(node)["gas"], 16) == 15_200_000
    chain.close()


# -- what it closes --------------------------------------------------------------------------------


def list_open_files(folder: Path) -> list[str]:
    """Files below the folder that this process has open."""
    targets = []
    for link in Path("/proc/self/fd").iterdir():
        try:
            targets.append(link.readlink())
        except OSError:
            continue  # the one that lists them
    return sorted(target.name for target in targets if target.is_relative_to(folder))


def test_a_closed_gateway_has_closed_its_outbox(node: Node, where: ChainConfig, tmp_path: Path) -> None:
    chain = gateway(where, tmp_path / "outbox")
    assert "outbox" in list_open_files(tmp_path)
    chain.close()
    assert list_open_files(tmp_path) == []


def test_a_gateway_that_cannot_start_has_closed_its_outbox(node: Node, where: ChainConfig, tmp_path: Path) -> None:
    snapshot = node.rpc("evm_snapshot")
    chain = gateway(where, tmp_path / "outbox")
    account = chain.open_account(opening())
    chain.reserve(claim(account, 1, 5))
    chain.close()
    node.rpc("evm_revert", snapshot)
    with pytest.raises(LedgerHalted, match="forgotten the account") as refusal:
        ChainLedger(where, KEYS, tmp_path / "outbox", patience=20.0, poll_seconds=POLL)
    assert refusal.tb and list_open_files(tmp_path) == []  # while somebody still holds the error and its frames


# -- what is said of it ----------------------------------------------------------------------------


def test_a_report_counts_all_blocks_of_the_chain_and_the_contracts_logs(node: Node, where: ChainConfig) -> None:
    chain = gateway(where)
    account = chain.open_account(opening())
    chain.reserve(claim(account, 1, 5))
    chain.close()
    report = verify_chain(where.url, where.contract)
    newest = node.rpc("eth_getBlockByNumber", "latest", False)
    logs = node.rpc("eth_getLogs", {"fromBlock": "0x0", "toBlock": "latest", "address": where.contract})
    assert report.passed and report.blocks == int(newest["number"], 16) + 1  # from block 0 on
    assert "0x" + report.head == newest["hash"] and report.transactions == len(logs)
