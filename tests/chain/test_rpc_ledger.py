"""The ledger on a real node: same decisions as the embedded chain, batches, refusals, bad nodes, bad input."""

from __future__ import annotations

import logging
import random
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from chain.gateway import (
    CURATOR,
    KEYS,
    OWNER,
    STRANGER,
    Cut,
    Middleman,
    claim,
    deployed,
    fund,
    gateway,
    opening,
    word,
)
from contract.node import Node, node_or_skip
from noisebank import Precision
from noisebank.ledger.protocol import Role
from support.banks import memory_rooms
from support.internals import (
    BadBank,
    BadLedger,
    BudgetExhausted,
    CellRun,
    ChainConfig,
    ChainLedger,
    Key,
    LedgerHalted,
    LedgerRefused,
    OutcomeUnknown,
    PriceMoved,
    Seal,
    ViewExhausted,
    anchors_contract,
    budget_ledger,
    deploy_contract,
    read_chain_config,
    verify_chain,
    write_chain_config,
)
from support.patience import patience, wait_until

MONEY = "0x" + budget_ledger().functions["money"].digest[:4].hex()


@pytest.fixture(scope="module")
def node() -> Iterator[Node]:
    with node_or_skip() as running:
        yield running


@pytest.fixture(scope="module")
def where(node: Node) -> ChainConfig:
    return deployed(node)


@pytest.fixture
def chain(where: ChainConfig) -> Iterator[ChainLedger]:
    made = gateway(where)
    yield made
    made.close()


# -- decisions -----------------------------------------------------------------------------------


def test_every_case_is_decided_and_published(chain: ChainLedger) -> None:
    account = chain.open_account(opening())
    wanted = [(1, 30), (2, 30), (3, 50), (4, 40)]
    decided = [chain.reserve(claim(account, id, units, query=7))[0] for id, units in wanted]
    assert [found.case.name for found in decided] == ["FIRST", "REPEAT", "REFINE", "BLUR"]
    assert [found.cost.units for found in decided] == [30, 0, 20, 0]
    assert decided[3].reused_id == word(3) and decided[1].reused_id == word(1)
    (published,) = chain.publish(account, Seal(word(1), word(5)))
    assert published.answer_digest == word(5) and published.is_finished and decided[1].is_finished
    assert chain.get_account(account).spent.units == 50


def test_a_chain_decides_what_the_embedded_one_decides(chain: ChainLedger) -> None:
    dice = random.Random(3)
    embedded = memory_rooms().ledger
    ledgers = [(chain, chain.open_account(opening(200))), (embedded, embedded.open_account(opening(200)))]
    for ledger, account in ledgers:
        ledger.add_cube(account, 8)
        ledger.set_limit(account, word(9), 60)
    for id in range(1, 40):
        cube = dice.choice([0, 0, 1])
        start = dice.randrange(8)
        runs = (CellRun(start, dice.randrange(start, 8) + 1, dice.choice([2**31, 2**32])),) if cube else ()
        values = {"query": dice.randrange(4), "analyst": dice.choice([bytes(32), word(9)]), "cube": cube, "runs": runs}
        seen = []
        for ledger, account in ledgers:
            try:
                (found,) = ledger.reserve(claim(account, id, wanted := 1 + id * 7 % 30, **values))
                seen.append((found.case, found.cost, found.spent_after, found.used_after, found.reused_id))
            except (BudgetExhausted, ViewExhausted, LedgerRefused) as refusal:
                seen.append((type(refusal), str(refusal)))
        assert seen[0] == seen[1], (id, wanted, values)
    assert ledgers[0][0].get_account(ledgers[0][1]).spent == ledgers[1][0].get_account(ledgers[1][1]).spent


def test_who_waits_together_is_sent_together_and_refusals_hurt_nobody_else(chain: ChainLedger, node: Node) -> None:
    account = chain.open_account(opening(60))
    before = int(node.rpc("eth_getTransactionCount", CURATOR.address, "latest"), 16)

    def ask(id: int) -> str:
        try:
            return chain.reserve(claim(account, id, 100 if id % 3 == 0 else 1))[0].case.name
        except BudgetExhausted:
            return "refused"

    with ThreadPoolExecutor(40) as askers:
        found = list(askers.map(ask, range(1, 61)))
    assert found == ["refused" if id % 3 == 0 else "FIRST" for id in range(1, 61)]
    assert chain.get_account(account).spent.units == 40
    sent = int(node.rpc("eth_getTransactionCount", CURATOR.address, "latest"), 16) - before
    assert sent < 30, "sixty requests went out nearly one by one"
    assert verify_chain(node.url, chain.contract).passed


def test_a_group_is_all_or_nothing(chain: ChainLedger) -> None:
    account = chain.open_account(opening(100))
    with pytest.raises(BudgetExhausted) as refused:
        chain.reserve(claim(account, 1, 60), claim(account, 2, 60))
    assert refused.value.asked.units == 120
    assert chain.get_account(account).spent.units == 0
    assert [found.cost.units for found in chain.reserve(claim(account, 1, 60), claim(account, 2, 40))] == [60, 40]


def test_two_gateways_share_one_account_and_one_key(where: ChainConfig, tmp_path: Path) -> None:
    one, other = gateway(where, tmp_path / "one"), gateway(where, tmp_path / "other")
    account = one.open_account(opening(100))
    other.follower.sync()

    def ask(id: int) -> int:
        try:
            return (one if id % 2 else other).reserve(claim(account, id, 7))[0].cost.units
        except BudgetExhausted:
            return 0

    with ThreadPoolExecutor(12) as askers:
        paid = list(askers.map(ask, range(1, 31)))
    assert sum(paid) == 98 and paid.count(7) == 14
    report = verify_chain(where.url, where.contract)
    assert report.passed, report.problem
    one.close()
    other.close()


def test_a_restarted_gateway_knows_the_books(where: ChainConfig, tmp_path: Path) -> None:
    first = gateway(where, tmp_path / "outbox")
    account = first.open_account(opening(100))
    first.reserve(claim(account, 1, 60))
    first.close()
    again = gateway(where, tmp_path / "outbox")
    assert again.get_account(account).spent.units == 60
    with pytest.raises(LedgerRefused, match="id already used"):
        again.reserve(claim(account, 1, 60))
    again.close()


# -- bad nodes -----------------------------------------------------------------------------------


def test_a_cut_answer_is_charged_once(node: Node, where: ChainConfig) -> None:
    """The node takes the transaction, the answer never arrives: the gateway finds out what became of it."""
    cuts = iter([True, True, False, True])

    def twist(method: str, params: list[Any], result: Any) -> Any:
        if method == "eth_sendRawTransaction" and next(cuts, False):
            raise Cut
        return result

    with Middleman(node, twist) as middle:
        chain = gateway(where, url=middle.url)
        account = gateway(where).open_account(opening(100))
        for id in (1, 2, 3):
            chain.follower.sync()
            assert chain.reserve(claim(account, id, 10))[0].cost.units == 10
        assert chain.get_account(account).spent.units == 30
        chain.close()


def test_a_transaction_that_the_node_drops_is_sent_again(node: Node, where: ChainConfig) -> None:
    lost = iter([True])

    def twist(method: str, params: list[Any], result: Any) -> Any:
        if method == "eth_sendRawTransaction" and next(lost, False):
            node.rpc("anvil_dropAllTransactions")
        return result

    with Middleman(node, twist) as middle:
        chain = gateway(where, url=middle.url)
        account = gateway(where).open_account(opening(100))
        chain.follower.sync()
        node.rpc("evm_setAutomine", False)
        try:
            with ThreadPoolExecutor(1) as asker:
                waiting = asker.submit(chain.reserve, claim(account, 1, 10))
                sent_again = lambda: middle.asked.count("eth_sendRawTransaction") >= 2  # noqa: E731
                wait_until(lambda: waiting.done() or sent_again(), "it is sent again")
                node.mine()
                assert waiting.result(patience())[0].cost.units == 10
        finally:
            node.rpc("evm_setAutomine", True)
        assert middle.asked.count("eth_sendRawTransaction") >= 2
        chain.close()


def test_a_stale_node_is_waited_for_and_then_reported(node: Node, where: ChainConfig) -> None:
    stale: dict[str, Any] = {}

    def twist(method: str, params: list[Any], result: Any) -> Any:
        return stale.get(method, result)

    with Middleman(node, twist) as middle:
        chain = gateway(where, url=middle.url)
        account = gateway(where).open_account(opening(100))
        node.mine(5)  # so that block 2 is an old one, whatever ran before
        chain.follower.sync()
        chain._patience = 1.0
        stale["eth_blockNumber"] = hex(2)
        stale["eth_getBlockByNumber"] = None
        with pytest.raises(OutcomeUnknown):
            chain.reserve(claim(account, 1, 10))
        stale.clear()
        chain._patience = patience()
        # Whatever happened meanwhile, the same id is charged at most once.
        chain.follower.sync()
        if chain.find_reservation(account, word(1)) is None:
            chain.reserve(claim(account, 1, 10))
        assert chain.get_account(account).spent.units == 10
        chain.close()


def test_a_node_whose_state_contradicts_its_logs_halts_the_ledger(node: Node, where: ChainConfig) -> None:
    lying = False

    def twist(method: str, params: list[Any], result: Any) -> Any:
        if lying and method == "eth_call" and params[0]["data"].startswith(MONEY):
            return result[: 2 + 64] + f"{1:064x}" + result[2 + 128 :]
        return result

    with Middleman(node, twist) as middle:
        chain = gateway(where, url=middle.url)
        account = gateway(where).open_account(opening(100))
        chain.follower.sync()
        chain.reserve(claim(account, 1, 10))
        lying = True
        with pytest.raises(LedgerHalted, match="contradicts itself"):
            chain.reserve(claim(account, 2, 10))
        with pytest.raises(LedgerHalted):
            chain.reserve(claim(account, 3, 10))
        assert not verify_chain(middle.url, where.contract).passed
        chain.close()


def test_a_node_that_hides_a_log_is_found_out(node: Node, where: ChainConfig) -> None:
    chain = gateway(where)
    account = chain.open_account(opening(100))
    chain.reserve(claim(account, 1, 10))
    chain.reserve(claim(account, 2, 10))

    def twist(method: str, params: list[Any], result: Any) -> Any:
        hidden = "0x" + word(1).hex()
        return [log for log in result if hidden not in log["topics"][2:]] if method == "eth_getLogs" else result

    with Middleman(node, twist) as middle:
        report = verify_chain(middle.url, where.contract)
        assert not report.passed and "recounted" in report.problem
    assert verify_chain(node.url, where.contract).passed


def test_nobody_there(where: ChainConfig) -> None:
    gone = ChainConfig("http://127.0.0.1:9", where.contract, where.chain_id)
    with pytest.raises(OutcomeUnknown, match="does not answer"):
        ChainLedger(gone, KEYS, ":memory:")
    for url in ("ftp://somewhere", "nonsense", "http://"):
        with pytest.raises(BadLedger):
            ChainLedger(ChainConfig(url, where.contract, where.chain_id), KEYS, ":memory:")


# -- bad input: each a clear error, nothing spent ------------------------------------------------


def test_wrong_chain_id(where: ChainConfig) -> None:
    with pytest.raises(BadLedger, match="is on chain 5, not on chain 6"):
        ChainLedger(ChainConfig(where.url, where.contract, 6, where.deployment_block), KEYS, ":memory:")


def test_wrong_code_or_none_at_the_address(node: Node, where: ChainConfig) -> None:
    with pytest.raises(BadLedger, match="there is no contract"):
        ChainLedger(ChainConfig(where.url, "0x" + "77" * 20, where.chain_id), KEYS, ":memory:")
    node.rpc("anvil_setCode", "0x" + "78" * 20, "0x" + anchors_contract().runtime.hex())
    with pytest.raises(BadLedger, match="not this version's budget ledger"):
        ChainLedger(ChainConfig(where.url, "0x" + "78" * 20, where.chain_id), KEYS, ":memory:")
    for address in ("0x" + "77" * 20, "0x" + "78" * 20):
        with pytest.raises(BadLedger):
            verify_chain(where.url, address)


def test_an_unfunded_account(where: ChainConfig) -> None:
    with pytest.raises(BadLedger, match="has no funds"):
        deploy_contract(where.url, STRANGER)
    chain = ChainLedger(where, {Role.CURATOR: STRANGER, Role.OWNER: OWNER}, ":memory:")
    account = chain.open_account(opening())
    with pytest.raises(BadLedger, match="has no funds"):
        chain.reserve(claim(account, 1, 10))
    assert chain.get_account(account).spent.units == 0
    chain.close()


@pytest.mark.parametrize(
    ("function", "arguments", "reason"),
    [
        ("add_cube", (3,), "cells not a power of two"),
        ("add_cube", (0,), "cells not a power of two"),
        ("add_cube", (2**21,), "too many cells"),
        ("lower_budget", (10**6,), "not lower"),
        ("propose_raise", (5,), "not higher"),
        ("finish_raise", (), "no raise pending"),
        ("resume", (), "not paused"),
        ("set_limit", (bytes(32), 5), "no analyst"),
    ],
)
def test_the_owners_mistakes(chain: ChainLedger, function: str, arguments: tuple[Any, ...], reason: str) -> None:
    account = chain.open_account(opening())
    with pytest.raises(LedgerRefused, match=reason):
        chain.call_as_owner(function, account, *arguments)


def test_a_budget_of_zero(chain: ChainLedger) -> None:
    with pytest.raises(LedgerRefused, match="ledger: budget of zero"):
        chain.open_account(opening(0))


def test_a_raise_after_its_expiry(chain: ChainLedger, node: Node) -> None:
    account = chain.open_account(opening(100, delay=10))
    chain.propose_raise(account, 200)
    with pytest.raises(LedgerRefused, match="raise not ready"):
        chain.finish_raise(account)
    node.rpc("evm_increaseTime", 10 + 7 * 86400)
    node.mine()
    with pytest.raises(LedgerRefused, match="raise expired"):
        chain.finish_raise(account)
    assert chain.get_account(account).budget.units == 100


RUNS = {
    "unsorted": ((CellRun(4, 6), CellRun(0, 2)), "runs overlap"),
    "overlapping": ((CellRun(0, 4), CellRun(3, 6)), "runs overlap"),
    "empty": ((CellRun(3, 3),), "empty run"),
    "out of range": ((CellRun(0, 9),), "run out of range"),
    "none": ((), "no runs"),
    "weightless": ((CellRun(0, 2, 0),), "weight out of range"),
}


@pytest.mark.parametrize("kind", RUNS)
def test_bad_runs(chain: ChainLedger, kind: str) -> None:
    runs, reason = RUNS[kind]
    account = chain.open_account(opening())
    chain.add_cube(account, 8)
    with pytest.raises(LedgerRefused, match=reason):
        chain.reserve(claim(account, 1, 10, cube=1, runs=runs))
    assert chain.get_account(account).spent.units == 0


def test_other_bad_claims(chain: ChainLedger) -> None:
    account = chain.open_account(opening(100))
    for bad, kind, reason in [
        (claim(account, 1, 10, cube=1, runs=(CellRun(0, 1),)), LedgerRefused, "undeclared cube"),
        (claim(account, 1, 10, analyst=word(4)), LedgerRefused, "analyst without a limit"),
        (claim(account, 1, 101), BudgetExhausted, "costs"),
        (claim(account, 1, 10, limit=9), PriceMoved, "costs 10% of the budget and may cost 9%"),
    ]:
        with pytest.raises(kind, match=reason):
            chain.reserve(bad)
    assert chain.get_account(account).spent.units == 0 and not chain.list_reservations(account)
    chain.reserve(claim(account, 1, 10))
    with pytest.raises(LedgerRefused, match="id already used"):
        chain.reserve(claim(account, 1, 20))


def test_the_signature_of_another_key(node: Node, where: ChainConfig, chain: ChainLedger) -> None:
    account = chain.open_account(opening())
    fund(node, STRANGER)
    thief = ChainLedger(
        where, {Role.CURATOR: STRANGER, Role.OWNER: STRANGER}, ":memory:", patience=patience(), poll_seconds=0.01
    )
    with pytest.raises(LedgerRefused, match="not the curator"):
        thief.reserve(claim(account, 1, 10))
    with pytest.raises(LedgerRefused, match="not the owner"):
        thief.lower_budget(account, 1)
    assert thief.get_account(account).spent.units == 0
    thief.close()


# -- keys and files ------------------------------------------------------------------------------


def test_keys_come_from_files_or_the_environment_and_never_show(
    where: ChainConfig, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    secret = "1f" * 32
    monkeypatch.setenv("NOISEBANK_CURATOR_KEY", "0x" + secret)
    key = Key.from_environment("NOISEBANK_CURATOR_KEY")
    assert key is not None and secret not in repr(key) and Key.from_environment("NOISEBANK_NOTHING") is None
    monkeypatch.setenv("NOISEBANK_OWNER_KEY", secret[:-1] + "x")
    with pytest.raises(BadBank) as refused:
        Key.from_environment("NOISEBANK_OWNER_KEY")
    assert secret[:8] not in str(refused.value)
    path = tmp_path / "a.key"
    key.save(path)
    path.chmod(0o640)
    with pytest.raises(BadBank, match="chmod 600"):
        Key.load(path)
    with caplog.at_level(logging.DEBUG):
        chain = ChainLedger(where, {Role.CURATOR: key, Role.OWNER: OWNER}, ":memory:", patience=patience())
        with pytest.raises(BadLedger) as poor:
            chain.reserve(claim(chain.open_account(opening()), 1, 1))
        chain.close()
    assert secret not in caplog.text and secret not in str(poor.value)


def test_where_is_kept_for_the_banks_eyes_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    where = ChainConfig("http://user:secret@host/key", "0x" + "12" * 20, 5, 7, 3)
    write_chain_config(tmp_path / "ledger.json", where)
    assert (tmp_path / "ledger.json").stat().st_mode & 0o777 == 0o600
    assert read_chain_config(tmp_path / "ledger.json") == where and "secret" not in repr(where)
    monkeypatch.setenv("NOISEBANK_RPC", "http://other")
    assert read_chain_config(tmp_path / "ledger.json").url == "http://other"
    for broken in ("", "{}", '{"format":"noisebank ledger 1"}', "[]"):
        (tmp_path / "broken.json").write_text(broken)
        with pytest.raises(BadBank):
            read_chain_config(tmp_path / "broken.json")
    assert Precision(1) and where.confirmations == 3
