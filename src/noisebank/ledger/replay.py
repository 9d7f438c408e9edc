"""`Replay`: the state of an embedded chain, rebuilt by executing its blocks again with every check.

Opening a bank and verifying a journal are the same work: execute the real bytecode, check each
signature, nonce, link and result, and end up with the same books.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable

from noisebank.core.errors import LedgerRefused, Tampered
from noisebank.ledger.abi import budget_ledger
from noisebank.ledger.block import Block, Genesis, results_digest
from noisebank.ledger.books import Books
from noisebank.ledger.chain_state import ChainState
from noisebank.ledger.evm import Log
from noisebank.ledger.signing import Transaction


class Replay(ChainState):
    """The state of a bank's ledger after some blocks. `apply_block` takes the next one, or raises `Tampered` naming it.

    After `Tampered` the state is undefined and must not be used.
    """

    def __init__(self, genesis: Genesis) -> None:
        super().__init__(genesis, budget_ledger())
        self.contract = ""
        """The ledger's address, once it is deployed."""
        self.transaction_count = 0
        self._books = Books(budget_ledger())
        self._pending_logs: list[tuple[int, int, Iterable[tuple[Log, ...]]]] = []
        self._books_lock, self._has_pending_logs = threading.Lock(), False

    @property
    def books(self) -> Books:
        """Accounts, reservations and records. Logs are entered when first needed: the checks do not need them."""
        if self._has_pending_logs:  # also while another thread enters them: a reader must find what it has just written
            with self._books_lock:
                unread, self._pending_logs = self._pending_logs, []
                for number, time, results in unread:
                    for logs in results:
                        for log in logs:
                            self._books.enter_log(log, number, time)
                self._has_pending_logs = False
        return self._books

    def apply_block(self, block: Block) -> tuple[tuple[Log, ...], ...]:
        """Checks and executes the next block; returns the contract's logs, by transaction."""
        self.check_link(block.number, block.parent, block.time)
        number = block.number
        if not block.transactions:
            raise Tampered("is empty", number)
        try:
            if block.recover_sealer() != self.genesis.sealer:
                raise Tampered("is not signed by the key that seals this journal")
            self.begin_block(number, block.time)
            results = tuple(self.execute_transaction(transaction) for transaction in block.transactions)
            if results_digest(results) != block.results:
                raise Tampered("records a result that the contract does not give")
            if self.read_balances(results) != block.balances:
                raise Tampered("records balances that the contract does not give")
        except Tampered as error:
            raise Tampered(error.what, number) from None
        self.finish_block(block, results)
        return results

    def execute_transaction(self, transaction: Transaction) -> tuple[Log, ...]:
        """Checks signature and nonce, then runs the contract; returns its logs. `Tampered` if it reverts: a journal has
        no reverted transactions."""
        sender = transaction.recover_sender() if transaction.signature else self.genesis.sealer
        self.check_nonce(sender, transaction)
        try:
            return self.run_transaction(sender, transaction)
        except LedgerRefused as refusal:
            raise Tampered(f"the contract refuses a transaction of {sender}: {refusal.reason}") from None

    def run_transaction(self, sender: str, transaction: Transaction) -> tuple[Log, ...]:
        """The same, for the one contract of this chain: its creation comes first, and only once."""
        if transaction.to and transaction.to != self.contract:
            raise Tampered(f"a transaction goes to {transaction.to}, not to the ledger")
        if not transaction.to and (self.contract or transaction.data != budget_ledger().initcode):
            raise Tampered("creates a contract that is not this version's ledger")
        logs = super().run_transaction(sender, transaction)
        if not self.contract:
            (self.contract,) = self.contracts
        return logs

    def read_balances(self, results: Iterable[tuple[Log, ...]]) -> tuple[tuple[bytes, int, int], ...]:
        """Returns account, budget and spend, from the contract, of each account that these logs name (always the first
        topic after the event's)."""
        balances = []
        for account in sorted({topics[1] for logs in results for topics, _ in logs}):
            budget, spent, _ = self.evm.call_view(self.contract, "money", account)
            assert type(budget) is int and type(spent) is int
            balances.append((account, budget, spent))
        return tuple(balances)

    def finish_block(self, block: Block, results: Iterable[tuple[Log, ...]]) -> None:
        """Makes a checked block the head, and queues its logs for the books."""
        self.move_head(block.number, block.digest, block.time)
        self.transaction_count += len(block.transactions)
        with self._books_lock:
            self._pending_logs.append((block.number, block.time, results))
            self._has_pending_logs = True
