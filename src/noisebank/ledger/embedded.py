"""`EmbeddedLedger`: the contract's real bytecode executed in this process, and a journal of signed, linked blocks.

One group of callers is one block and one fsync (`durability.GroupCommit`). `replay` executes and checks blocks.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from noisebank.core.durability import GroupCommit, PendingItem, end_process
from noisebank.core.entropy import Entropy
from noisebank.core.errors import BadBank, LedgerRefused, NoisebankError
from noisebank.ledger.abi import Value
from noisebank.ledger.block import FORMAT, Block, Genesis, results_digest
from noisebank.ledger.books import Books
from noisebank.ledger.chain import Ledger
from noisebank.ledger.encoding import encode_publish, encode_reserve
from noisebank.ledger.evm import Event, Log, decode_events
from noisebank.ledger.journal import Journal
from noisebank.ledger.protocol import Claim, Head, Role, Seal
from noisebank.ledger.replay import Replay
from noisebank.ledger.signing import Key, Transaction


@dataclass(frozen=True, slots=True)
class ContractCall:
    """A call of the contract and the key that signs it; empty `data` creates the contract."""

    key: Key
    data: bytes


def create_chain(
    journal: Journal, sealer: Key, entropy: Entropy, clock: Callable[[], float] = time.time, format: str = FORMAT
) -> None:
    """Writes the genesis of a new chain. Its random chain id makes account ids unique among banks."""
    chain_id = int.from_bytes(entropy.token(6), "big") + 1
    journal.write_genesis(Genesis(chain_id, sealer.address, int(clock()), format))


class EmbeddedLedger(Ledger):
    """A `Ledger` in this process. Opening it replays the whole journal with every check."""

    def __init__(
        self,
        journal: Journal,
        keys: Mapping[Role, Key],
        clock: Callable[[], float] = time.time,
        on_failure: Callable[[str], None] = end_process,
    ) -> None:
        super().__init__(keys)
        self._journal, self._clock = journal, clock
        self._is_closed = False
        lines = journal.read_lines()
        first = next(lines, None)
        if first is None:
            raise BadBank("the journal is empty")
        self._replay = Replay(Genesis.from_canonical_json(first))
        for number, line in enumerate(lines):
            self._replay.apply_block(Block.from_canonical_json(line, self._replay.genesis.chain_id, number))
        self._sealing_key = keys.get(Role.SEALER) or self._require_key(Role.CURATOR)
        if self._sealing_key.address != self._replay.genesis.sealer:
            raise BadBank("the curator's key is not the one that seals this journal, and there is no sealer's key")
        self._commit = GroupCommit(self._commit_block, on_failure)
        if not self._replay.contract:
            self._commit(ContractCall(self._require_key(Role.CURATOR), b""))

    # -- Ledger --------------------------------------------------------------------------------

    def refresh(self, patience: float | None = None) -> None:
        """Does nothing: nobody else writes here."""

    def head(self) -> Head:
        return self._replay.head

    def close(self) -> None:
        self._is_closed = True
        self._journal.close()

    # -- reading -------------------------------------------------------------------------------

    @property
    def books(self) -> Books:
        """Accounts, reservations, records, views and changes."""
        return self._replay.books

    @property
    def genesis(self) -> Genesis:
        """The chain's genesis; its digest is the journal's name in anchors."""
        return self._replay.genesis

    @property
    def sealing_key(self) -> Key:
        """The key that signs the blocks."""
        return self._sealing_key

    @property
    def contract(self) -> str:
        """The contract's address."""
        return self._replay.contract

    @property
    def chain_id(self) -> int:
        """The chain's id."""
        return self._replay.genesis.chain_id

    def block_digest(self, number: int) -> bytes:
        """Returns the digest of a block, for receipts."""
        return self._replay.block_digests[number]

    def export_journal(self) -> Iterator[str]:
        """Yields the canonical journal, line by line."""
        return self._journal.read_lines()

    # -- writing -------------------------------------------------------------------------------

    def _send_reserves(self, groups: Sequence[Sequence[Claim]]) -> list[NoisebankError | None]:
        return self._send_calls([encode_reserve(group) for group in groups])

    def _send_publishes(self, account: bytes, groups: Sequence[Sequence[Seal]]) -> list[NoisebankError | None]:
        return self._send_calls([encode_publish(account, group) for group in groups])

    def _send_calls(self, calls: Sequence[bytes]) -> list[NoisebankError | None]:
        """Makes the curator's calls in one block; returns the refusal of each, if any. An unknown outcome raises."""
        self._check_open()
        curator = self._require_key(Role.CURATOR)
        pending = self._commit.commit_all([ContractCall(curator, data) for data in calls])
        refusals: list[NoisebankError | None] = []
        for call in pending:
            if not isinstance(call.refusal, LedgerRefused):
                call.get_outcome()
            refusals.append(call.refusal if isinstance(call.refusal, LedgerRefused) else None)
        return refusals

    def _call_contract(self, role: Role, function: str, *arguments: Value) -> Event:
        contract = self._replay.evm.contract
        (event,) = decode_events(contract, self._send_call(role, contract.encode_call(function, *arguments)))
        return event

    def _send_call(self, role: Role, data: bytes) -> tuple[Log, ...]:
        self._check_open()
        return self._commit(ContractCall(self._require_key(role), data))

    def _check_open(self) -> None:
        if self._is_closed:
            raise BadBank("this bank is closed")

    def _commit_block(self, turns: Sequence[PendingItem[ContractCall, tuple[Log, ...]]]) -> None:
        """Commits one block for all waiting calls. Refusals leave no trace; outcomes are set before the commit, but
        callers get them only after it (see `GroupCommit`)."""
        state, sealer = self._replay, self._sealing_key
        number, now = state.head.number + 1, max(state.time, int(self._clock()))
        state.begin_block(number, now)
        transactions, results = [], []
        for turn in turns:
            sender = turn.item.key.address
            data = turn.item.data or state.evm.contract.initcode
            transaction = Transaction(state.genesis.chain_id, state.next_nonce(sender), state.contract, data)
            try:
                turn.outcome = state.run_transaction(sender, transaction)
            except LedgerRefused as refusal:
                turn.refusal = refusal
                continue
            results.append(turn.outcome)
            # The seal is the signature of whatever the sealer itself sends.
            transactions.append(transaction if sender == sealer.address else transaction.sign_with(turn.item.key))
        if not transactions:
            return
        balances = state.read_balances(results)
        block = Block(number, state.head.digest, now, tuple(transactions), results_digest(results), balances)
        block = block.seal_with(sealer)
        self._journal.append(block)  # decided, charged and recorded from here on
        state.finish_block(block, results)
