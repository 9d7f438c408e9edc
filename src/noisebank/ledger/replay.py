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
from noisebank.ledger.evm import Log, Machine
from noisebank.ledger.protocol import Head
from noisebank.ledger.signing import Transaction, contract_address


class Replay:
    """The state after some blocks. `apply_block` takes the next one, or raises `Tampered` naming it.

    After `Tampered` the state is undefined and must not be used.
    """

    def __init__(self, genesis: Genesis) -> None:
        self.genesis = genesis
        self.machine = Machine(budget_ledger(), genesis.chain_id)
        self.contract = ""
        self.head = Head(-1, genesis.digest)
        self.time = genesis.created
        self.transactions = 0
        self.digests: list[bytes] = []
        self._books = Books(self.machine.contract)
        self._unread: list[tuple[int, int, Iterable[tuple[Log, ...]]]] = []
        self._reading, self._behind = threading.Lock(), False
        self._nonces: dict[str, int] = {}

    @property
    def books(self) -> Books:
        """Accounts, reservations and records. Logs are entered when first needed: the checks do not need them."""
        if self._behind:  # also while another thread enters them: a reader must find what it has just written
            with self._reading:
                unread, self._unread = self._unread, []
                for number, time, results in unread:
                    for logs in results:
                        for log in logs:
                            self._books.write(log, number, time)
                self._behind = False
        return self._books

    def nonce(self, sender: str) -> int:
        """Returns the nonce that the sender's next transaction must have."""
        return self._nonces.get(sender, 0)

    def apply(self, block: Block) -> tuple[tuple[Log, ...], ...]:
        """Checks and executes the next block; returns the contract's logs, by transaction."""
        number = self.head.number + 1
        if block.number != number:
            raise Tampered(f"numbered {block.number}, but comes after block {number - 1}", number)
        if block.parent != self.head.digest:
            raise Tampered("does not follow from the block before it", number)
        if block.time < self.time:
            raise Tampered("is older than the block before it", number)
        if not block.transactions:
            raise Tampered("is empty", number)
        try:
            if block.sealer() != self.genesis.sealer:
                raise Tampered("is not signed by the key that seals this journal")
            self.begin(number, block.time)
            results = tuple(self.execute(transaction) for transaction in block.transactions)
            if results_digest(results) != block.results:
                raise Tampered("records a result that the contract does not give")
            if self.balances(results) != block.balances:
                raise Tampered("records balances that the contract does not give")
        except Tampered as error:
            raise Tampered(error.what, number) from None
        self.finish(block, results)
        return results

    def begin(self, number: int, time: int) -> None:
        """Sets the block in which transactions execute next."""
        self.machine.at(number, time)

    def execute(self, transaction: Transaction) -> tuple[Log, ...]:
        """Checks signature and nonce, then runs the contract; returns its logs. `Tampered` if it reverts: a journal has
        no reverted transactions."""
        sender = transaction.sender() if transaction.signature else self.genesis.sealer
        if transaction.nonce != self._nonces.get(sender, 0):
            raise Tampered(f"a transaction of {sender} has nonce {transaction.nonce}, not {self.nonce(sender)}")
        try:
            return self.accept(sender, transaction)
        except LedgerRefused as refusal:
            raise Tampered(f"the contract refuses a transaction of {sender}: {refusal.reason}") from None

    def accept(self, sender: str, transaction: Transaction) -> tuple[Log, ...]:
        """Runs a transaction whose sender is known to be right; returns its logs. A refusal changes nothing."""
        if transaction.to:
            if transaction.to != self.contract:
                raise Tampered(f"a transaction goes to {transaction.to}, not to the ledger")
            logs = self.machine.execute(sender, transaction.to, transaction.data)
        else:
            self._create(sender, transaction)
            logs = ()
        self._nonces[sender] = transaction.nonce + 1
        return logs

    def balances(self, results: Iterable[tuple[Log, ...]]) -> tuple[tuple[bytes, int, int], ...]:
        """Returns account, budget and spend, from the contract, of each account that these logs name (always the first
        topic after the event's)."""
        balances = []
        for account in sorted({topics[1] for logs in results for topics, _ in logs}):
            budget, spent, _ = self.machine.view(self.contract, "money", account)
            assert type(budget) is int and type(spent) is int
            balances.append((account, budget, spent))
        return tuple(balances)

    def finish(self, block: Block, results: Iterable[tuple[Log, ...]]) -> None:
        """Makes a checked block the head, and queues its logs for the books."""
        self.head = Head(block.number, block.digest)
        self.digests.append(self.head.digest)
        self.time = block.time
        self.transactions += len(block.transactions)
        with self._reading:
            self._unread.append((block.number, block.time, results))
            self._behind = True

    def _create(self, sender: str, transaction: Transaction) -> None:
        if self.contract or transaction.data != self.machine.contract.initcode:
            raise Tampered("creates a contract that is not this version's ledger")
        self.contract = self.machine.deploy(sender, transaction.data)
        if self.contract != contract_address(sender, transaction.nonce):
            raise Tampered("the contract is not where Ethereum would put it")
