"""Replay: every check, block by block. All mutations of a journal: test_ledger_tampering."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ledger_history import history, replayed, word
from noisebank.core.errors import LedgerRefused, Tampered
from noisebank.ledger.abi import budget_ledger
from noisebank.ledger.block import Block, Genesis, results_digest
from noisebank.ledger.protocol import Head
from noisebank.ledger.replay import Replay
from noisebank.ledger.signing import Key, Transaction, contract_address
from support.banks import CURATOR, OWNER

GENESIS = Genesis(5, CURATOR.address, 1_000)
INITCODE = budget_ledger().initcode


NOTHING_LOGGED = results_digest([()])


def deployed() -> Replay:
    """A chain whose block 0 creates the contract."""
    state = Replay(GENESIS)
    creation = Transaction(5, 0, "", INITCODE)  # by the sealer: the seal is its signature
    state.apply_block(Block(0, GENESIS.digest, 1_000, (creation,), NOTHING_LOGGED, ()).seal_with(CURATOR))
    return state


def unsigned(state: Replay, key: Key, function: str, *arguments: object, nonce: int | None = None) -> Transaction:
    data = budget_ledger().encode_call(function, *arguments)  # type: ignore[arg-type]
    return Transaction(5, state.next_nonce(key.address) if nonce is None else nonce, state.contract, data)


def signed(state: Replay, key: Key, function: str, *arguments: object, nonce: int | None = None) -> Transaction:
    return unsigned(state, key, function, *arguments, nonce=nonce).sign_with(key)


def opening(state: Replay, nonce: int | None = None, budget: int = 100, key: Key = OWNER) -> Transaction:
    return signed(state, key, "open_account", CURATOR.address, 1, budget, word(1), word(2), 0, nonce=nonce)


def following(state: Replay, *transactions: Transaction, time: int = 1_000, key: Key = CURATOR) -> Block:
    """The honest block 1, executed on another chain just like this one."""
    twin = deployed()
    twin.begin_block(1, time)
    results = tuple(twin.execute_transaction(transaction) for transaction in transactions)
    balances = twin.read_balances(results)
    return Block(1, state.head.digest, time, transactions, results_digest(results), balances).seal_with(key)


@pytest.fixture
def state() -> Replay:
    return deployed()


def test_history_ends_in_the_same_state_every_time():
    lines = history()
    one, other = replayed(lines), replayed(lines)
    assert one.head == other.head
    assert one.block_digests == other.block_digests and len(one.block_digests) == len(lines) - 1
    assert one.books.list_accounts() == other.books.list_accounts()
    assert books_of(one) == books_of(other)
    read = [Block.from_canonical_json(line, one.genesis.chain_id, 0) for line in lines[1:]]
    assert one.transaction_count == sum(len(block.transactions) for block in read) == 35
    assert one.time == Block.from_canonical_json(lines[-1], one.genesis.chain_id, 0).time


def test_new_chain_is_before_block_0():
    state = Replay(GENESIS)
    assert state.head == Head(-1, GENESIS.digest)
    assert (state.contract, state.transaction_count, state.next_nonce(OWNER.address)) == ("", 0, 0)


def test_contract_is_where_ethereum_would_put_it(state: Replay):
    assert state.contract == contract_address(CURATOR.address, 0)
    assert state.evm.get_code(state.contract) == budget_ledger().runtime


def test_honest_block_is_applied(state: Replay):
    block = following(state, opening(state), opening(state, nonce=1, budget=7), time=1_005)
    state.apply_block(block)
    assert state.head == Head(1, block.digest)
    assert (state.time, state.transaction_count, state.next_nonce(OWNER.address)) == (1_005, 3, 2)
    assert [account.budget.units for account in state.books.list_accounts()] == [100, 7]
    assert {budget for _, budget, _ in block.balances} == {100, 7}


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"number": 2}, "numbered 2, but comes after block 0"),
        ({"number": 0}, "numbered 0"),
        ({"parent": bytes(32)}, "does not follow"),
        ({"parent": GENESIS.digest}, "does not follow"),
        ({"time": 999}, "is older"),
        ({"transactions": ()}, "is empty"),
        ({"balances": ()}, "balances"),
        ({"results": NOTHING_LOGGED}, "a result that the contract does not give"),
        ({"results": bytes(32)}, "a result that the contract does not give"),
        ({"results": b""}, "a result that the contract does not give"),
    ],
)
def test_block_that_does_not_follow_is_refused(state: Replay, change: dict[str, object], what: str):
    block = replace(following(state, opening(state)), **change).seal_with(CURATOR)
    with pytest.raises(Tampered, match=what) as refusal:
        state.apply_block(block)
    assert refusal.value.block == 1
    assert state.head.number == 0 and state.books.list_accounts() == ()


def test_other_sealers_are_refused(state: Replay):
    block = following(state, opening(state), key=OWNER)
    with pytest.raises(Tampered, match="not signed by the key that seals") as refusal:
        state.apply_block(block)
    assert refusal.value.block == 1


@pytest.mark.parametrize("nonce", [1, 2, 2**63])
def test_nonces_follow_without_gaps(state: Replay, nonce: int):
    state.begin_block(1, 1_000)
    with pytest.raises(Tampered, match=f"has nonce {nonce}, not 0"):
        state.execute_transaction(opening(state, nonce=nonce))


def test_used_nonce_is_refused(state: Replay):
    transaction = opening(state)
    state.begin_block(1, 1_000)
    state.execute_transaction(transaction)
    with pytest.raises(Tampered, match="has nonce 0, not 1"):
        state.execute_transaction(transaction)


def test_refused_transaction_has_no_place_in_a_journal(state: Replay):
    state.begin_block(1, 1_000)
    with pytest.raises(Tampered, match=r"the contract refuses.*not the owner"):
        state.execute_transaction(signed(state, CURATOR, "lower_budget", word(1), 5))


def test_refusal_of_a_fresh_transaction_changes_nothing(state: Replay):
    state.begin_block(1, 1_000)
    before = state.next_nonce(CURATOR.address)
    with pytest.raises(LedgerRefused, match="not the owner"):
        state.run_transaction(CURATOR.address, signed(state, CURATOR, "lower_budget", word(1), 5))
    assert state.next_nonce(CURATOR.address) == before


@pytest.mark.parametrize("to", ["0x" + "35" * 20, OWNER.address])
def test_transactions_go_to_the_ledger_only(state: Replay, to: str):
    state.begin_block(1, 1_000)
    with pytest.raises(Tampered, match="not to the ledger"):
        state.execute_transaction(Transaction(5, 0, to, b"").sign_with(OWNER))


def test_nothing_comes_before_the_contract():
    state = Replay(GENESIS)
    state.begin_block(0, 1_000)
    with pytest.raises(Tampered, match="not to the ledger"):
        state.execute_transaction(Transaction(5, 0, contract_address(CURATOR.address, 0), b"").sign_with(CURATOR))


@pytest.mark.parametrize("code", [b"", INITCODE[:-1], INITCODE + b"\0", b"\x60\x00"])
def test_other_contracts_are_refused(code: bytes):
    state = Replay(GENESIS)
    state.begin_block(0, 1_000)
    with pytest.raises(Tampered, match="not this version's ledger"):
        state.execute_transaction(Transaction(5, 0, "", code).sign_with(CURATOR))


def test_second_contract_is_refused(state: Replay):
    state.begin_block(1, 1_000)
    with pytest.raises(Tampered, match="not this version's ledger"):
        state.execute_transaction(Transaction(5, 1, "", INITCODE).sign_with(CURATOR))


def test_call_without_a_function_is_refused(state: Replay):
    state.begin_block(1, 1_000)
    with pytest.raises(Tampered, match="refuses"):
        state.execute_transaction(Transaction(5, 0, state.contract, b"").sign_with(OWNER))


def test_balances_are_asked_of_the_contract_and_sorted(state: Replay):
    state.begin_block(1, 1_000)
    results = [state.execute_transaction(opening(state, nonce=n, budget=9 - n)) for n in range(4)]
    balances = state.read_balances(results)
    assert balances == tuple(sorted(balances))
    assert sorted(budget for _, budget, _ in balances) == [6, 7, 8, 9]
    assert state.read_balances(results[:1]) == tuple(row for row in balances if row[1] == 9)
    assert state.read_balances([]) == state.read_balances([()]) == ()


# -- whose transaction it is ----------------------------------------------------------------------


def test_without_a_signature_a_transaction_is_the_sealers(state: Replay):
    """The seal covers it, so nobody else can have sent it: the account is the sealer's own."""
    block = following(state, unsigned(state, CURATOR, "open_account", CURATOR.address, 1, 7, word(1), word(2), 0))
    state.apply_block(block)
    (account,) = state.books.list_accounts()
    assert account.owner == CURATOR.address
    assert (state.next_nonce(CURATOR.address), state.next_nonce(OWNER.address)) == (2, 0)


def test_the_sealer_may_sign_its_transactions_all_the_same(state: Replay):
    state.apply_block(following(state, opening(state, key=CURATOR)))
    assert state.books.list_accounts()[0].owner == CURATOR.address


def test_the_owners_call_without_its_signature_is_nobodys(state: Replay):
    """The sealer strips the signature: then the sealer is the sender, with the wrong nonce, and not the owner."""
    state.apply_block(following(state, opening(state)))
    (account,) = state.books.list_accounts()
    for nonce, why in ((1, "refuses.*not the owner"), (0, "has nonce 0, not 1"), (2, "has nonce 2, not 1")):
        call = unsigned(state, OWNER, "lower_budget", account.account, 5, nonce=nonce)
        with pytest.raises(Tampered, match=why):
            state.execute_transaction(call)


def test_a_signature_for_something_else_is_somebody_elses(state: Replay):
    """Whatever is changed in a signed call, the sender changes with it."""
    call = opening(state)
    for other in (
        replace(call, data=call.data[:-1] + b"\x01"),
        replace(call, nonce=1),
        replace(call, chain_id=6),
        replace(call, to="0x" + "35" * 20),
    ):
        assert other.recover_sender() != OWNER.address
    stranger = replace(call, data=call.data[:-1] + b"\x01")
    state.begin_block(1, 1_000)
    state.execute_transaction(stranger)  # anybody may open an account: it is the stranger's, not the owner's
    assert state.next_nonce(OWNER.address) == 0


@pytest.mark.parametrize("signature", [b"\0", bytes(64), bytes(65), bytes(66), b"\xff" * 65])
def test_what_is_no_signature_is_refused(state: Replay, signature: bytes):
    state.begin_block(1, 1_000)
    with pytest.raises(Tampered, match="signature"):
        state.execute_transaction(replace(opening(state), signature=signature))


def test_results_are_returned_by_transaction(state: Replay):
    block = following(state, opening(state), opening(state, nonce=1, budget=7))
    results = state.apply_block(block)
    assert [len(logs) for logs in results] == [1, 1]
    assert results_digest(results) == block.results


@pytest.mark.parametrize("change", ["doubled", "dropped", "swapped"])
def test_transactions_of_a_block_cannot_be_doubled_dropped_or_swapped(state: Replay, change: str):
    block = following(state, opening(state), opening(state, nonce=1, budget=7))
    first, second = block.transactions
    others = {"doubled": (first, second, second), "dropped": (second,), "swapped": (second, first)}
    with pytest.raises(Tampered, match="nonce"):
        state.apply_block(replace(block, transactions=others[change]).seal_with(CURATOR))


def test_a_dropped_last_transaction_changes_results_and_balances(state: Replay):
    block = following(state, opening(state), opening(state, nonce=1, budget=7))
    with pytest.raises(Tampered, match="result"):
        state.apply_block(replace(block, transactions=block.transactions[:1]).seal_with(CURATOR))


# -- books ----------------------------------------------------------------------------------------


def books_of(state: Replay) -> object:
    """Everything that the books know."""
    books = state.books
    return (
        [
            (account, books.list_reservations(account.account), books.list_changes(account.account))
            for account in books.list_accounts()
        ],
        books._views,
        books._records,
        dict(books._spent_on),
    )


def test_books_read_while_blocks_come_are_those_read_at_the_end():
    """They are written when first asked for; asking early changes nothing."""
    first, *rest = history()
    asked = Replay(Genesis.from_canonical_json(first))
    for number, line in enumerate(rest):
        asked.apply_block(Block.from_canonical_json(line, asked.genesis.chain_id, number))
        asked.books.list_accounts()
    assert books_of(asked) == books_of(replayed(history()))
