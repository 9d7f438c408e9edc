"""A chain's state, rebuilt by executing its blocks again with every check.

Starting the bank and verifying a journal are the same work: whoever has the journal executes the
real bytecode, checks each signature, nonce, link and result, and ends up with the same books.
"""

from __future__ import annotations

from collections.abc import Iterable

from noisebank.errors import LedgerRefused, Tampered
from noisebank.ledger.abi import budget_ledger
from noisebank.ledger.block import Block, Executed, Genesis
from noisebank.ledger.books import Books
from noisebank.ledger.machine import Event, Machine
from noisebank.ledger.protocol import Head
from noisebank.ledger.signing import Transaction, contract_address


class Replay:
    """The state after some blocks. `apply` takes the next one or raises `Tampered` naming it."""

    def __init__(self, genesis: Genesis) -> None:
        self.genesis = genesis
        self.machine = Machine(budget_ledger(), genesis.chain_id)
        self.books = Books()
        self.contract = ""
        self.head = Head(-1, genesis.digest)
        self.time = genesis.created
        self.transactions = 0
        self.digests: list[bytes] = []
        self._nonces: dict[str, int] = {}

    def nonce(self, sender: str) -> int:
        """The nonce that the sender's next transaction must have."""
        return self._nonces.get(sender, 0)

    def apply(self, block: Block) -> None:
        """Checks and executes the next block."""
        number = self.head.number + 1
        if block.number != number:
            raise Tampered(f"numbered {block.number}, but comes after block {number - 1}", number)
        if block.parent != self.head.digest:
            raise Tampered("does not follow from the block before it", number)
        if block.time < self.time:
            raise Tampered("is older than the block before it", number)
        if not block.executed:
            raise Tampered("is empty", number)
        try:
            if block.sealer() != self.genesis.sealer:
                raise Tampered("is not signed by the key that seals this journal")
            self.begin(number, block.time)
            for done in block.executed:
                if self.execute(done.transaction) != done.events:
                    raise Tampered("records a result that the contract does not give")
            if self.balances(block.executed) != block.balances:
                raise Tampered("records balances that the contract does not give")
        except Tampered as error:
            raise Tampered(error.what, number) from None
        self.finish(block)

    def begin(self, number: int, time: int) -> None:
        """Sets the block in which transactions execute next."""
        self.machine.at(number, time)

    def execute(self, transaction: Transaction) -> tuple[Event, ...]:
        """Checks signature and nonce, then runs the contract. A revert has no place in a journal."""
        sender = transaction.sender()
        if transaction.nonce != self.nonce(sender):
            raise Tampered(f"a transaction of {sender} has nonce {transaction.nonce}, not {self.nonce(sender)}")
        try:
            events = self.run(sender, transaction)
        except LedgerRefused as refusal:
            raise Tampered(f"the contract refuses a transaction of {sender}: {refusal.reason}") from None
        self._nonces[sender] = transaction.nonce + 1
        return events

    def accept(self, sender: str, transaction: Transaction) -> tuple[Event, ...]:
        """Runs a transaction that the caller has just signed; a refusal changes nothing."""
        events = self.run(sender, transaction)
        self._nonces[sender] = transaction.nonce + 1
        return events

    def run(self, sender: str, transaction: Transaction) -> tuple[Event, ...]:
        """Executes without looking at signature or nonce."""
        if transaction.to:
            if transaction.to != self.contract:
                raise Tampered(f"a transaction goes to {transaction.to}, not to the ledger")
            return self.machine.execute(sender, transaction.to, transaction.data)
        if self.contract or transaction.data != self.machine.contract.initcode:
            raise Tampered("creates a contract that is not this version's ledger")
        self.contract = self.machine.deploy(sender, transaction.data)
        if self.contract != contract_address(sender, transaction.nonce):
            raise Tampered("the contract is not where Ethereum would put it")
        return ()

    def balances(self, executed: Iterable[Executed]) -> tuple[tuple[bytes, int, int], ...]:
        """Budget and spend, asked of the contract, of each account that these transactions touched."""
        touched = {event.arguments["account"] for done in executed for event in done.events}
        found = []
        for account in sorted(account for account in touched if isinstance(account, bytes)):
            _, _, budget, spent, *_ = self.machine.view(self.contract, "accounts", account)
            assert type(budget) is int and type(spent) is int
            found.append((account, budget, spent))
        return tuple(found)

    def finish(self, block: Block) -> None:
        """Enters a checked block into the books."""
        self.head = Head(block.number, block.digest)
        self.digests.append(self.head.digest)
        self.time = block.time
        self.transactions += len(block.executed)
        for done in block.executed:
            for event in done.events:
                self.books.write(event, block.number, block.time)
