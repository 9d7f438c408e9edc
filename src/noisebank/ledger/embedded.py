"""`EmbeddedLedger`: the contract's real bytecode executed in this process, and a journal of signed, linked blocks.

One group of callers is one block and one fsync (`durable.GroupCommit`). `replay` executes and checks blocks.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from noisebank.core.durability import GroupCommit, Turn, end_process
from noisebank.core.entropy import Entropy
from noisebank.core.errors import BadBank, LedgerRefused
from noisebank.ledger.abi import Value
from noisebank.ledger.block import Block, Genesis, results_digest
from noisebank.ledger.books import Books
from noisebank.ledger.chain import Chain
from noisebank.ledger.encoding import explained, publish_call, reserve_call
from noisebank.ledger.evm import Event, Log, events
from noisebank.ledger.journal import Journal
from noisebank.ledger.protocol import Claim, Head, Reservation, Role, Seal
from noisebank.ledger.replay import Replay
from noisebank.ledger.signing import Key, Transaction


@dataclass(frozen=True, slots=True)
class Call:
    """A call of the contract and the key that signs it; empty `data` creates the contract."""

    key: Key
    data: bytes


def begin_chain(journal: Journal, sealer: Key, entropy: Entropy, clock: Callable[[], float] = time.time) -> None:
    """Writes the genesis of a new chain. Its random chain id makes account ids unique among banks."""
    chain_id = int.from_bytes(entropy.token(6), "big") + 1
    journal.begin(Genesis(chain_id, sealer.address, int(clock())))


class EmbeddedChain(Chain):
    """A `Ledger` in this process. Opening it replays the whole journal with every check."""

    def __init__(
        self,
        journal: Journal,
        keys: Mapping[Role, Key],
        clock: Callable[[], float] = time.time,
        die: Callable[[str], None] = end_process,
    ) -> None:
        super().__init__(keys)
        self._journal, self._clock = journal, clock
        self._closed = False
        lines = journal.lines()
        first = next(lines, None)
        if first is None:
            raise BadBank("the journal is empty")
        self._state = Replay(Genesis.read(first))
        for number, line in enumerate(lines):
            self._state.apply(Block.read(line, self._state.genesis.chain_id, number))
        self._sealer = keys.get(Role.SEALER) or self._key(Role.CURATOR)
        if self._sealer.address != self._state.genesis.sealer:
            raise BadBank("the curator's key is not the one that seals this journal, and there is no sealer's key")
        self._commit = GroupCommit(self._commit_block, die)
        if not self._state.contract:
            self._commit(Call(self._key(Role.CURATOR), b""))

    # -- Ledger --------------------------------------------------------------------------------

    def reserve(self, *group: Claim) -> tuple[Reservation, ...]:
        with self._only_once(group):
            try:
                self._send(Role.CURATOR, reserve_call(group))
            except LedgerRefused as refusal:
                raise explained(refusal, group, self.books) from None
        return tuple(self._known(claim.account, claim.id) for claim in group)

    def publish(self, account: bytes, *group: Seal) -> tuple[Reservation, ...]:
        self._send(Role.CURATOR, publish_call(account, group))
        return tuple(self._known(account, seal.id) for seal in group)

    def refresh(self, patience: float | None = None) -> None:
        """Does nothing: nobody else writes here."""

    def head(self) -> Head:
        return self._state.head

    def close(self) -> None:
        self._closed = True
        self._journal.close()

    # -- reading -------------------------------------------------------------------------------

    @property
    def books(self) -> Books:
        """Accounts, reservations, records, views and changes."""
        return self._state.books

    @property
    def genesis(self) -> Genesis:
        """The chain's genesis; its digest is the journal's name in anchors."""
        return self._state.genesis

    @property
    def sealer(self) -> Key:
        """The key that signs the blocks."""
        return self._sealer

    @property
    def contract(self) -> str:
        """The contract's address."""
        return self._state.contract

    @property
    def chain_id(self) -> int:
        """The chain's id."""
        return self._state.genesis.chain_id

    def block_digest(self, number: int) -> bytes:
        """Returns the digest of a block, for receipts."""
        return self._state.digests[number]

    def export(self) -> Iterator[str]:
        """Yields the canonical journal, line by line."""
        return self._journal.lines()

    # -- writing -------------------------------------------------------------------------------

    def _transact(self, role: Role, function: str, *arguments: Value) -> Event:
        contract = self._state.machine.contract
        (event,) = events(contract, self._send(role, contract.call(function, *arguments)))
        return event

    def _send(self, role: Role, data: bytes) -> tuple[Log, ...]:
        if self._closed:
            raise BadBank("this bank is closed")
        return self._commit(Call(self._key(role), data))

    def _commit_block(self, turns: Sequence[Turn[Call, tuple[Log, ...]]]) -> None:
        """Commits one block for all waiting calls. Refusals leave no trace; outcomes are set before the commit, but
        callers get them only after it (see `GroupCommit`)."""
        state, sealer = self._state, self._sealer
        number, now = state.head.number + 1, max(state.time, int(self._clock()))
        state.begin(number, now)
        transactions, results = [], []
        for turn in turns:
            sender = turn.item.key.address
            data = turn.item.data or state.machine.contract.initcode
            transaction = Transaction(state.genesis.chain_id, state.nonce(sender), state.contract, data)
            try:
                turn.outcome = state.accept(sender, transaction)
            except LedgerRefused as refusal:
                turn.refusal = refusal
                continue
            results.append(turn.outcome)
            # The seal is the signature of whatever the sealer itself sends.
            transactions.append(transaction if sender == sealer.address else transaction.signed(turn.item.key))
        if not transactions:
            return
        balances = state.balances(results)
        block = Block(number, state.head.digest, now, tuple(transactions), results_digest(results), balances)
        block = block.sealed(sealer)
        self._journal.append(block)  # decided, charged and recorded from here on
        state.finish(block, results)
