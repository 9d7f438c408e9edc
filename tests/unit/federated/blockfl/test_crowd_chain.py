"""A chain of one's own: signed transactions only, every block checked again, behind the door of a node."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from noisebank.core.digests import keccak, to_canonical_json
from noisebank.core.entropy import SystemEntropy
from noisebank.core.errors import BadBank, BadLedger, LedgerRefused, Tampered
from noisebank.federated.blockfl.chain_reader import FolderNode
from noisebank.federated.blockfl.dev_chain import DATABASE_FILE, DevBlock, DevChain, DevChainState, create_dev_chain
from noisebank.federated.blockfl.json_rpc import JsonRpcServer
from noisebank.federated.blockfl.network import SMALL_SHAPE
from noisebank.federated.blockfl.registry import ModelRegistry
from noisebank.federated.blockfl.sortition import SortitionKey
from noisebank.federated.blockfl.store import FolderStore
from noisebank.federated.blockfl.task_posting import TaskRules, post_task
from noisebank.federated.blockfl.terms import TaskTerms
from noisebank.ledger.abi import budget_ledger, model_registry
from noisebank.ledger.block import DEV_FORMAT, Genesis
from noisebank.ledger.signing import Fees, Key, Transaction, contract_address, decode_transaction

ANNA, MALLORY = Key(b"\1" * 32), Key(b"\2" * 32)
PEOPLE = [Key(bytes([number]) * 32) for number in range(11, 17)]


@pytest.fixture
def chain(tmp_path: Path) -> Iterator[DevChain]:
    with closing(create_dev_chain(tmp_path / "chain", SystemEntropy())) as made:
        yield made


def posted(chain: DevChain, tmp_path: Path) -> tuple[ModelRegistry, bytes, bytes, JsonRpcServer]:
    door = JsonRpcServer(chain)
    registry = ModelRegistry(door.url)
    store = FolderStore(tmp_path / "models")
    task, secret = post_task(
        registry, store, ANNA, TaskTerms("x", SMALL_SHAPE), TaskRules(round_count=1, byzantine=1, patience_seconds=60),
        [(key.address, 5) for key in PEOPLE],
    )  # fmt: skip
    return registry, task, secret, door


def test_a_chain_lies_in_a_folder_of_its_own_that_nobody_else_reads(tmp_path: Path):
    with closing(create_dev_chain(tmp_path / "deep" / "chain", SystemEntropy())):
        pass
    assert (tmp_path / "deep" / "chain").stat().st_mode & 0o777 == 0o700
    with pytest.raises(BadBank, match="already"):
        create_dev_chain(tmp_path / "deep" / "chain", SystemEntropy())
    with pytest.raises(BadBank, match="holds no crowd's chain"):
        FolderNode(tmp_path)


def test_logs_are_filtered_by_their_topics(chain: DevChain, tmp_path: Path):
    registry, _, _, door = posted(chain, tmp_path)
    with closing(door):
        logs = registry.node.ask("eth_getLogs", {})
        assert logs and all(len(log["topics"]) < 5 for log in logs)
        for wanted in logs:
            first, *more = wanted["topics"]
            alike = [log for log in logs if log["topics"][0] == first]
            others = [log for log in logs if log["topics"][1 : len(more) + 1] == more]
            for topic_filter, expected in (
                ([first], alike), ([["0x00", first]], alike), ([None, *more], others), (["0x00"], []),
                ([None] * 4 + ["0x00"], []), ([None] * 5, logs),
            ):  # fmt: skip
                assert registry.node.ask("eth_getLogs", {"topics": topic_filter}) == expected


def test_transactions_are_read_in_their_one_spelling():
    made = Transaction(7, 3, ANNA.address, b"data" * 20, fees=Fees(1, 2, 3), value=5).sign_with(ANNA)
    assert decode_transaction(made.raw) == made and decode_transaction(made.raw).recover_sender() == ANNA.address
    for wrong in (b"", made.raw[:-1], made.raw + b"\0", b"\1" + made.raw[1:], b"\2\xc0", made.raw[:40]):
        with pytest.raises(Tampered):
            decode_transaction(wrong)


def test_a_call_is_tried_at_the_time_that_it_is_and_changes_nothing(tmp_path: Path):
    now = [1_700_000_000.0]
    with closing(create_dev_chain(tmp_path / "chain", SystemEntropy(), lambda: now[0])) as chain:
        registry, task, _, door = posted(chain, tmp_path)
        door.close()
        cancel, blocks = model_registry().encode_call("cancel", task), list(chain.state.block_digests)
        for seconds, late in ((0, False), (59, False), (60, True), (60, True)):
            now[0] = 1_700_000_000.0 + seconds
            if late:
                assert chain.simulate_call(ANNA.address, registry.contract, cancel) == b""
            else:
                with pytest.raises(LedgerRefused, match="not late yet"):
                    chain.simulate_call(ANNA.address, registry.contract, cancel)
        with pytest.raises(LedgerRefused, match="not the poster"):
            chain.simulate_call(MALLORY.address, registry.contract, cancel)
        now[0] = 0.0  # a clock that was set back: a chain's time never is
        with pytest.raises(LedgerRefused, match="not late yet"):
            chain.simulate_call(ANNA.address, registry.contract, cancel)
        assert chain.state.block_digests == blocks


def test_forged_submissions_are_refused(chain: DevChain, tmp_path: Path):
    """Signed by somebody else, changed after signing, sent twice, for another chain: none gets in."""
    registry, task, secret, door = posted(chain, tmp_path)
    try:
        for key in PEOPLE:
            registry.join_task(key, SortitionKey(key.address.encode()[:32]), task)
        registry.send_call(ANNA, "begin", task, secret)
        with pytest.raises(LedgerRefused, match="registry: not a member"):
            registry.send_call(MALLORY, "submit", task, 1, b"m" * 32, bytes(32))
        data = model_registry().encode_call("submit", task, 1, b"m" * 32, bytes(32))
        honest = Transaction(registry.chain_id, 1, registry.contract, data).sign_with(PEOPLE[0])
        changed = replace(honest, data=model_registry().encode_call("submit", task, 1, b"x" * 32, bytes(32)))
        assert changed.recover_sender() != PEOPLE[0].address
        with pytest.raises((LedgerRefused, Tampered)):
            chain.send_transaction(changed.raw)
        with pytest.raises(Tampered, match="another chain"):
            chain.send_transaction(replace(honest, chain_id=1).sign_with(PEOPLE[0]).raw)
        blocks = len(chain.state.block_digests)
        chain.send_transaction(honest.raw)
        with pytest.raises(LedgerRefused, match="nonce too low"):
            chain.send_transaction(honest.raw)
        with pytest.raises(LedgerRefused, match="submitted before"):
            registry.send_call(PEOPLE[0], "submit", task, 1, b"m" * 32, bytes(32))
        assert len(chain.state.block_digests) == blocks + 1
    finally:
        door.close()


def test_no_money_and_no_other_contract_on_this_chain(chain: DevChain):
    number = chain.state.genesis.chain_id
    with pytest.raises(LedgerRefused, match="no money"):
        chain.send_transaction(Transaction(number, 0, ANNA.address, b"", value=1).sign_with(ANNA).raw)
    with pytest.raises(LedgerRefused, match="no contract there"):
        chain.send_transaction(Transaction(number, 0, ANNA.address, b"").sign_with(ANNA).raw)
    with pytest.raises(LedgerRefused, match="no contract of this version"):
        chain.send_transaction(Transaction(number, 0, "", b"\x60\x00").sign_with(ANNA).raw)


def test_who_has_called_before_deploys_where_ethereum_would_and_the_chain_opens_again(chain: DevChain, tmp_path: Path):
    """pyrevm counts deployments, not transactions. Such a contract once landed elsewhere, and no replay agreed."""
    number, ledger = chain.state.genesis.chain_id, chain.state.find_own_contracts()["budget_ledger"]
    call = budget_ledger().encode_call("open_account", ANNA.address, 1, 60, b"1" * 32, b"2" * 32, 0)
    chain.send_transaction(Transaction(number, 0, ledger, call).sign_with(ANNA).raw)
    made = chain.send_transaction(Transaction(number, 1, "", budget_ledger().initcode).sign_with(ANNA).raw)
    assert made.created_contract == contract_address(ANNA.address, 1) not in chain.state.find_own_contracts().values()
    chain.send_transaction(Transaction(number, 2, made.created_contract, call).sign_with(ANNA).raw)
    with closing(DevChain(tmp_path / "chain")) as again:
        assert again.state.head == chain.state.head and again.state.contracts == chain.state.contracts


def test_lines_of_a_journal_keep_their_form():
    """Journals of earlier versions must be read: the text of a genesis and of a block, and their digests."""
    genesis = '{"chain_id":7,"created":1000,"format":"noisebank crowd journal 1","sealer":"0xabc"}'
    read = Genesis.from_canonical_json(genesis, DEV_FORMAT)
    assert read.to_canonical_json() == genesis and read.digest == keccak(
        b"noisebank crowd genesis 1\n", genesis.encode()
    )
    with pytest.raises(Tampered, match="does not begin a 'noisebank journal 2'"):
        Genesis.from_canonical_json(genesis)  # a bank's journal is another one
    sent = Transaction(7, 3, ANNA.address, b"data", fees=Fees(1, 2, 3)).sign_with(ANNA)
    text = f'{{"number":5,"parent":"{"01" * 32}","results":"{"02" * 32}","time":1001,"transaction":"{sent.raw.hex()}"}}'
    line = f'{{"block":{text},"seal":"{"03" * 65}"}}'
    block = DevBlock.from_canonical_json(line, 5)
    assert (block.number, block.time, block.transaction, block.to_canonical_json()) == (5, 1001, sent, line)
    assert block.digest == keccak(b"noisebank crowd block 1\n", text.encode())


def test_journal_is_checked_line_by_line(chain: DevChain, tmp_path: Path):
    posted(chain, tmp_path)[3].close()
    first, *rest = chain.read_journal()

    def replayed(lines: list[str]) -> DevChainState:
        state = DevChainState(first)
        for line in lines:
            state.apply_line(line)
        return state

    assert replayed(rest).head.digest == chain.state.head.digest
    block = json.loads(rest[-1])
    later = {**block["block"], "time": block["block"]["time"] + 1}
    mallory = MALLORY.sign(keccak(b"noisebank crowd block 1\n", to_canonical_json(later).encode())).hex()
    for lines, why in (
        ([rest[1]], "numbered 1, but comes after block -1"),
        ([*rest[:-1], to_canonical_json({"block": later, "seal": block["seal"]})], "not signed by the key"),
        ([*rest[:-1], to_canonical_json({"block": later, "seal": mallory})], "not signed by the key"),
        ([*rest[:-1], rest[-1].replace(":", ": ", 1)], "malformed"),
        ([*rest, rest[-1]], "numbered"),
        (["nonsense"], "malformed"),
    ):
        with pytest.raises(Tampered, match=why):
            replayed(lines)


def test_a_block_has_one_spelling_and_whole_numbers(chain: DevChain):
    *_, line = chain.read_journal()
    whole = json.loads(line)
    assert DevBlock.from_canonical_json(line, 7).to_canonical_json() == line
    for name, values in {
        "number": ("1", 1.0, True, None), "time": ("1", 1.5, True, None, -1, 2**63), "parent": (7, "0g", None),
        "results": (7, "0g"), "transaction": (7, "0g", "", "02"), "extra": (1,),
    }.items():  # fmt: skip
        for value in values:
            fields = {**whole, "block": {**whole["block"], name: value}}
            changed = json.dumps(fields, sort_keys=True, separators=(",", ":"))
            with pytest.raises(Tampered) as found:
                DevBlock.from_canonical_json(changed, 7)
            assert found.value.block == 7, (name, value)
    for text in ("[]", "{}", "7", "[" * 100_000, line + " ", line.replace('"seal"', '"Seal"')):
        with pytest.raises(Tampered, match="malformed"):
            DevBlock.from_canonical_json(text, 7)
    latest = to_canonical_json({**whole, "block": {**whole["block"], "time": 2**63 - 1}})
    assert DevBlock.from_canonical_json(latest, 7).time == 2**63 - 1


def test_started_again_it_goes_on_where_it_was(tmp_path: Path):
    made = create_dev_chain(tmp_path / "chain", SystemEntropy())
    _, task, _, door = posted(made, tmp_path)
    head = made.state.head.digest
    door.close()
    made.close()
    again = DevChain(tmp_path / "chain")
    assert again.state.head.digest == head
    door = JsonRpcServer(again)
    assert (
        ModelRegistry(door.url).list_tasks() == [task]
        and ModelRegistry(door.url).read_books(task).setup.round_count == 1
    )
    door.close()
    again.close()
    with pytest.raises(BadBank, match="already"):
        create_dev_chain(tmp_path / "chain", SystemEntropy())
    with pytest.raises(BadBank, match="no crowd's chain"):
        DevChain(tmp_path / "nowhere")
    assert (tmp_path / "chain" / DATABASE_FILE).stat().st_mode & 0o077 == 0


def test_read_from_its_folder_it_is_the_same_and_nothing_can_be_written(chain: DevChain, tmp_path: Path):
    registry, task, secret, door = posted(chain, tmp_path)
    try:
        node = FolderNode(tmp_path / "chain")
        read = ModelRegistry(node)
        assert (read.contract, read.chain_id, read.list_tasks()) == (registry.contract, registry.chain_id, [task])
        for key in PEOPLE:  # its keeper goes on
            registry.join_task(key, SortitionKey(key.address.encode()[:32]), task)
        assert not read.followed_books and read.follow_tasks()[task].members == registry.read_books(task).members
        assert node.chain.state.head.digest == chain.state.head.digest
        with pytest.raises(LedgerRefused, match="only read here"):
            read.send_call(ANNA, "begin", task, secret)
        assert node.block_number() == len(chain.state.block_digests) - 1
        node.chain.close()
    finally:
        door.close()
    with pytest.raises(BadBank, match="no crowd's chain"):
        FolderNode(tmp_path)


def test_door_answers_nonsense_with_an_error(chain: DevChain):
    door = JsonRpcServer(chain)
    try:
        for body in (b"", b"[]", b"{}", b'{"method":"eth_nothing"}', b'{"method":"eth_call","params":[1]}',
                     b'{"method":"eth_sendRawTransaction","params":["0x02"]}'):  # fmt: skip
            assert "error" in json.loads(door.handle_request(body))
        with pytest.raises(BadLedger):
            ModelRegistry(door.url, "0x" + "11" * 20)
    finally:
        door.close()
