"""The embedded chain: the contract's real bytecode, and a journal of signed, linked blocks."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from noisebank.durable import GroupCommit, Turn, end_process
from noisebank.entropy import Entropy
from noisebank.errors import BadBank, BudgetExhausted, LedgerRefused, PriceMoved, Tampered
from noisebank.ledger.abi import Word
from noisebank.ledger.block import Block, Executed, Genesis
from noisebank.ledger.books import Books
from noisebank.ledger.journal import Journal
from noisebank.ledger.machine import Event
from noisebank.ledger.protocol import AccountState, Claim, Head, Opening, Reservation, Role, best_of
from noisebank.ledger.replay import Replay
from noisebank.ledger.signing import Key, Transaction
from noisebank.records import Record
from noisebank.units import NOTHING


@dataclass(frozen=True, slots=True)
class Call:
    """What somebody wants the contract to do."""

    key: Key
    data: bytes


def begin_chain(journal: Journal, sealer: Key, entropy: Entropy, clock: Callable[[], float] = time.time) -> None:
    """Writes the genesis of a new chain, with an id of its own so that account ids are unique."""
    chain_id = int.from_bytes(entropy.token(6), "big") + 1
    journal.begin(Genesis(chain_id, sealer.address, int(clock())))


class EmbeddedChain:
    """A `Ledger` in this process. Start-up replays the journal with every check."""

    def __init__(
        self,
        journal: Journal,
        keys: Mapping[Role, Key],
        clock: Callable[[], float] = time.time,
        die: Callable[[str], None] = end_process,
    ) -> None:
        self._journal, self._keys, self._clock = journal, keys, clock
        self._closed = False
        lines = journal.lines()
        first = next(lines, None)
        if first is None:
            raise BadBank("the journal is empty")
        self._state = Replay(Genesis.read(first))
        for number, line in enumerate(lines):
            self._state.apply(Block.read(line, self._state.genesis.chain_id, number))
        if self._key(Role.CURATOR).address != self._state.genesis.sealer:
            raise BadBank("the curator's key is not the one that seals this journal")
        self._commit = GroupCommit(self._commit_block, die)
        if not self._state.contract:
            self._commit(Call(self._key(Role.CURATOR), b""))

    # -- Ledger --------------------------------------------------------------------------------

    def open_account(self, opening: Opening) -> bytes:
        curator = self._key(Role.CURATOR).address
        (event,) = self._transact(
            Role.OWNER, "open_account", curator, opening.budget.units, opening.policy, opening.data, opening.raise_delay
        )
        account = event.arguments["account"]
        assert isinstance(account, bytes)
        return account

    def reserve(self, claim: Claim) -> Reservation:
        try:
            self._transact(
                Role.CURATOR, "reserve", claim.account, claim.id, claim.query, claim.analyst, claim.about,
                claim.wanted.units, claim.limit.units,
            )  # fmt: skip
        except LedgerRefused as refusal:
            raise self._explained(refusal, claim) from None
        return self._known(claim.id)

    def publish(self, account: bytes, id: bytes, answer: bytes) -> Reservation:
        self._transact(Role.CURATOR, "publish", account, id, answer)
        return self._known(id)

    def account(self, account: bytes) -> AccountState:
        state = self.books.account(account)
        if state is None:
            raise BadBank(f"the ledger has no account {account.hex()[:12]}")
        return state

    def reservation(self, id: bytes) -> Reservation | None:
        return self.books.reservation(id)

    def reservations(self, account: bytes) -> tuple[Reservation, ...]:
        return self.books.reservations(account)

    def records(self, account: bytes, query: bytes) -> tuple[Record, ...]:
        return self.books.records(account, query)

    def head(self) -> Head:
        return self._state.head

    def close(self) -> None:
        self._closed = True
        self._journal.close()

    # -- the owner's business ------------------------------------------------------------------

    def lower_budget(self, account: bytes, units: int) -> None:
        """Lowers the budget at once."""
        self._transact(Role.OWNER, "lower_budget", account, units)

    def propose_raise(self, account: bytes, units: int) -> Event:
        """Announces a raise; returns when it will be ready and when it expires."""
        (event,) = self._transact(Role.OWNER, "propose_raise", account, units)
        return event

    def finish_raise(self, account: bytes) -> None:
        """Puts an announced raise into effect."""
        self._transact(Role.OWNER, "finish_raise", account)

    # -- reading -------------------------------------------------------------------------------

    @property
    def books(self) -> Books:
        """Accounts, reservations, records and changes."""
        return self._state.books

    @property
    def contract(self) -> str:
        """The contract's address."""
        return self._state.contract

    @property
    def chain_id(self) -> int:
        """This chain's id."""
        return self._state.genesis.chain_id

    def block_digest(self, number: int) -> bytes:
        """The digest of a block, for receipts."""
        return self._state.digests[number]

    def export(self) -> Iterator[str]:
        """The canonical journal, line by line."""
        return self._journal.lines()

    # -- writing -------------------------------------------------------------------------------

    def _transact(self, role: Role, function: str, *arguments: Word) -> tuple[Event, ...]:
        if self._closed:
            raise BadBank("this bank is closed")
        return self._commit(Call(self._key(role), self._state.machine.contract.call(function, *arguments)))

    def _commit_block(self, turns: Sequence[Turn[Call, tuple[Event, ...]]]) -> None:
        """One block for all who waited. Refusals leave no trace; results leave after the commit."""
        state = self._state
        number, now = state.head.number + 1, max(state.time, int(self._clock()))
        state.begin(number, now)
        executed = []
        for turn in turns:
            try:
                done = self._execute(turn.item)
            except LedgerRefused as refusal:
                turn.refusal = refusal
                continue
            turn.outcome = done.events
            executed.append(done)
        if not executed:
            return
        block = Block(number, state.head.digest, now, tuple(executed), state.balances(executed))
        block = block.sealed(self._key(Role.CURATOR))
        self._journal.append(block)  # decided, charged and recorded from here on
        state.finish(block)

    def _execute(self, call: Call) -> Executed:
        state = self._state
        data = call.data or state.machine.contract.initcode
        sender = call.key.address
        transaction = Transaction(state.genesis.chain_id, state.nonce(sender), state.contract, data)
        return Executed(transaction.signed(call.key), state.accept(sender, transaction))

    def _key(self, role: Role) -> Key:
        if role not in self._keys:
            raise BadBank(
                f"this needs the {role.value}'s key, which is not on this machine; name it with --{role.value}-key"
            )
        return self._keys[role]

    def _known(self, id: bytes) -> Reservation:
        reservation = self.books.reservation(id)
        if reservation is None:
            raise Tampered("the ledger has lost a reservation that it has just made")
        return reservation

    def _explained(self, refusal: LedgerRefused, claim: Claim) -> Exception:
        """The contract's words with the amounts that they are about."""
        if refusal.reason == "ledger: budget exhausted":
            best = best_of(self.records(claim.account, claim.query))
            asked = claim.wanted - best if claim.wanted > best else NOTHING
            return BudgetExhausted(asked, self.account(claim.account).left)
        if refusal.reason == "ledger: price above limit":
            return PriceMoved(claim.limit)
        return refusal
