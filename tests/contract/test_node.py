"""The contract on anvil does what it does on the embedded machine: same returns, same events, same refusals."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from contract.node import Node, OnAnvil, node_or_skip
from contract.real import CURATOR, DEPUTY, HEIR, OWNER, STRANGER, WHOLE, Real, claim, seal
from support.internals import LedgerRefused


@pytest.fixture
def node() -> Iterator[Node]:
    with node_or_skip() as node:
        yield node


def test_node_answers_and_knows_its_chain(node: Node):
    assert node.rpc("eth_chainId") == hex(5)
    assert node.url.endswith(str(node.port))


def test_contract_on_anvil_agrees_with_the_embedded_one(node: Node):
    anvil, real = OnAnvil(node), Real()
    assert anvil.code() == real.contract.runtime
    assert anvil.address == real.address, "same deployer, same nonce"
    account = anvil.open(cubes=[8])
    assert real.open(cubes=[8]) == account
    run = (2, 6, WHOLE)
    calls: list[int | tuple[object, ...]] = [
        (CURATOR, "reserve", account, (claim(1, 3, 40, 50),), ()),
        (CURATOR, "reserve", account, (claim(2, 3, 50, 50), claim(3, 4, 5, cube=1, runs=1)), (run,)),
        (CURATOR, "reserve", account, (claim(2, 3, 60, 50),), ()),
        (STRANGER, "reserve", account, (claim(4, 3, 60, 50),), ()),
        (CURATOR, "reserve_many", account, (claim(4, 5, 5), claim(5, 6, 90), claim(6, 3, 20)), ()),
        (CURATOR, "publish", account, (seal(1),)),
        (CURATOR, "publish_many", account, (seal(1), seal(2))),
        (OWNER, "lower_budget", account, 59),
        (OWNER, "lower_budget", account, 90),
        (OWNER, "propose_raise", account, 95),
        9,
        (OWNER, "finish_raise", account),
        1,
        (OWNER, "finish_raise", account),
        (OWNER, "propose_owner", account, HEIR),
        (HEIR, "accept_owner", account),
        (HEIR, "propose_curator", account, DEPUTY),
        (DEPUTY, "accept_curator", account),
    ]
    for call in calls:
        if isinstance(call, int):
            for ledger in (anvil, real):
                ledger.at(ledger.now + call)
            continue
        assert outcome(anvil, *call) == outcome(real, *call)
        for view in ("accounts", "desk", "money", "pending_raise"):
            assert anvil.view(view, account) == real.view(view, account)
    assert anvil.now == real.now == 1_010


def test_storage_can_be_written_behind_the_contracts_back(node: Node):
    anvil = OnAnvil(node)
    account = anvil.open()
    anvil.write_money(account, measurements=2**20)
    with pytest.raises(LedgerRefused, match="too many measurements"):
        anvil.reserve(account, 1, 3, 10)


def test_killed_node_is_gone_and_forgets_everything():
    node = node_or_skip("--prune-history", timestamp=None)
    before = OnAnvil(node)
    before.open()
    node.kill()
    assert not node.alive
    with pytest.raises(OSError):
        before.open()


def test_node_without_mining_keeps_transactions_until_told():
    with node_or_skip("--no-mining", chain_id=77) as node:
        assert node.rpc("eth_chainId") == hex(77)
        sender, *_ = node.rpc("eth_accounts")
        sent = node.rpc("eth_sendTransaction", {"from": sender, "to": sender, "value": "0x1"})
        assert node.rpc("eth_getTransactionReceipt", sent) is None
        node.mine()
        assert node.rpc("eth_getTransactionReceipt", sent)["status"] == "0x1"


def outcome(ledger: Real, *call: object) -> object:
    try:
        return ledger.call(*call)  # type: ignore[arg-type]
    except LedgerRefused as refusal:
        return refusal.reason
