"""A chain that changes its mind: nothing is measured before it is final, and nothing that was measured is forgotten."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from chain.gateway import claim, deployed, gateway, opening, word
from contract.node import Node, node_or_skip
from noisebank import NoisebankError
from support.internals import BadLedger, BudgetExhausted, ChainConfig, ChainLedger, LedgerHalted, verify_chain
from support.internals import Node as Door
from support.patience import join_threads, wait_until

CONFIRMATIONS = 12
BUDGET = 200


def reorganise(node: Node, depth: int) -> None:
    """Replaces the newest blocks by empty ones; what was in them is gone from the chain and from the pool."""
    node.rpc("anvil_reorg", depth, [])


@pytest.mark.parametrize("depth", [1, 3, 10])
def test_a_reorganisation_during_a_stream_of_asks_by_two_gateways(depth: int, tmp_path: Path) -> None:
    with node_or_skip("--block-time", "0.05", "--slots-in-an-epoch", "1", timestamp=None) as node:
        where = deployed(node, CONFIRMATIONS)
        gateways = [gateway(where, tmp_path / name) for name in ("one", "other")]
        account = gateways[0].open_account(opening(BUDGET))
        gateways[1].follower.sync()
        measured: dict[bytes, int] = {}
        problems: list[BaseException] = []

        def ask(number: int, chain: ChainLedger) -> None:
            for id in range(number * 1000, number * 1000 + 8):
                try:
                    (found,) = chain.reserve(claim(account, id, 9))
                except BudgetExhausted:
                    continue
                except BaseException as error:
                    problems.append(error)
                    return
                # From here on a bank would look at the data: the reservation must be under enough blocks.
                on_chain = receipt_block(node, where, word(id))
                head = Door(where.url).block_number()
                assert on_chain is not None and head - on_chain + 1 >= CONFIRMATIONS, (on_chain, head)
                measured[word(id)] = found.cost.units

        def guarded(number: int, chain: ChainLedger) -> None:
            try:
                ask(number, chain)
            except BaseException as error:
                problems.append(error)

        threads = [
            threading.Thread(target=guarded, args=(2 * asker + which + 1, chain))
            for which, chain in enumerate(gateways)
            for asker in range(3)
        ]
        for thread in threads:
            thread.start()
        for _ in range(4):
            wait_for_blocks(node, CONFIRMATIONS + 2)
            reorganise(node, depth)
        join_threads(threads)
        assert not problems, problems[0]
        wait_for_blocks(node, CONFIRMATIONS + depth)
        for chain in gateways:
            chain.follower.sync()
            on_chain = {found.id: found.cost.units for found in chain.list_reservations(account)}
            assert measured.items() <= on_chain.items(), "something was measured that the chain does not know"
            union = on_chain | measured
            assert sum(union.values()) <= BUDGET
            assert chain.get_account(account).spent.units == sum(on_chain.values())
        assert sum(measured.values()) > BUDGET - 9, "the budget was there for more"
        report = verify_chain(node.url, where.contract)
        assert report.passed, report.problem
        for chain in gateways:
            chain.close()


def test_a_dropped_reservation_is_sent_again_with_its_id(tmp_path: Path) -> None:
    with node_or_skip() as node:
        where = deployed(node, 4)
        node.mine(5)
        miner = Miner(node)
        chain = gateway(where, tmp_path / "outbox")
        account = chain.open_account(opening(100))
        miner.stop()
        chain.follower.sync()
        answered: list[int] = []
        thread = threading.Thread(target=lambda: answered.append(chain.reserve(claim(account, 1, 60))[0].cost.units))
        thread.start()
        wait_until(lambda: receipt_block(node, where, word(1)) is not None, "the reservation is in a block")
        reorganise(node, 2)
        assert receipt_block(node, where, word(1)) is None and not answered, "it was not final, and is gone"
        miner = Miner(node)
        join_threads([thread])
        miner.stop()
        assert answered == [60] and chain.get_account(account).spent.units == 60
        chain.close()


def test_a_reorganisation_deeper_than_the_confirmations_halts_and_reopening_reminds_the_chain(tmp_path: Path) -> None:
    with node_or_skip() as node:
        where = deployed(node, 1)
        chain = gateway(where, tmp_path / "outbox")
        account = chain.open_account(opening(100))
        node.mine(3)
        chain.reserve(claim(account, 1, 60))
        reorganise(node, 2)
        node.mine(2)
        with pytest.raises(LedgerHalted, match="rolled back deeper"):
            chain.reserve(claim(account, 2, 30))
        with pytest.raises(LedgerHalted):
            chain.reserve(claim(account, 3, 1))
        chain.close()
        # The chain has forgotten 60 that somebody has seen. They come back before anything else is charged.
        assert receipt_block(node, where, word(1)) is None
        again = gateway(where, tmp_path / "outbox")
        assert again.get_account(account).spent.units == 60
        with pytest.raises(BudgetExhausted):
            again.reserve(claim(account, 2, 50))
        again.close()


def test_what_the_chain_forgot_and_will_not_take_back_halts_for_good(tmp_path: Path) -> None:
    with node_or_skip() as node:
        where = deployed(node, 1)
        chain = gateway(where, tmp_path / "outbox")
        account = chain.open_account(opening(100))
        node.mine(3)
        chain.reserve(claim(account, 1, 60))
        chain.close()
        reorganise(node, 2)
        other = gateway(where, tmp_path / "other")
        other.reserve(claim(account, 2, 70))  # another gateway spends what the chain believes is left
        other.close()
        with pytest.raises(LedgerHalted, match="has forgotten the spend"):
            gateway(where, tmp_path / "outbox")


def test_a_node_killed_and_restarted_empty_is_refused_with_the_reason(tmp_path: Path) -> None:
    with node_or_skip() as node:
        where = deployed(node)
        chain = gateway(where, tmp_path / "outbox")
        account = chain.open_account(opening(100))
        chain.reserve(claim(account, 1, 60))
        node.kill()
    chain._patience = 0.2  # nobody will come back: no reason to wait long
    with pytest.raises(NoisebankError, match="does not answer"):
        chain.reserve(claim(account, 2, 10))
    restarted = Node(port=node.port)
    try:
        with pytest.raises(LedgerHalted, match="no longer knows the ledger"):
            chain.reserve(claim(account, 3, 10))
        chain.close()
        with pytest.raises(BadLedger, match="there is no contract"):
            gateway(where, tmp_path / "outbox")
        # Another ledger at the same address, of a new chain: it does not know the account.
        assert deployed(restarted).contract == where.contract
        with pytest.raises(LedgerHalted, match="has forgotten the account"):
            gateway(where, tmp_path / "outbox")
    finally:
        restarted.stop()


class Miner:
    """Keeps mining, as other people's transactions would."""

    def __init__(self, node: Node) -> None:
        self._node, self._stop = node, threading.Event()
        self._thread = threading.Thread(target=self._mine, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()

    def _mine(self) -> None:
        door = Door(self._node.url)
        while not self._stop.wait(0.05):
            door.ask("anvil_mine", "0x1")


def receipt_block(node: Node, where: ChainConfig, id: bytes) -> int | None:
    """The block that logs a reservation, straight from the node."""
    door = Door(where.url)
    logs = door.ask("eth_getLogs", {"fromBlock": "0x0", "toBlock": "latest", "address": where.contract,
                                    "topics": [None, None, "0x" + id.hex()]})  # fmt: skip
    return int(logs[0]["blockNumber"], 16) if logs else None


def wait_for_blocks(node: Node, count: int) -> None:
    """Waits until the chain has grown by so many: its own clock."""
    door = Door(node.url)
    height = door.block_number() + count
    wait_until(lambda: door.block_number() >= height, f"{count} more blocks")
