"""`ChainState`: the state of an embedded chain. Contracts in an EVM, nonces of their callers, blocks linked by digests.

The only place that executes transactions: a bank's ledger (`replay`) has one contract and books on top of this, a
development chain (`federated.blockfl.dev_chain`) two contracts and transactions of strangers.
"""

from __future__ import annotations

from noisebank.core.errors import LedgerRefused, Tampered
from noisebank.ledger.abi import Contract
from noisebank.ledger.block import Genesis
from noisebank.ledger.evm import Evm, Log
from noisebank.ledger.protocol import Head
from noisebank.ledger.signing import Transaction, contract_address


class ChainState:
    """The state after some blocks. After `Tampered` it is undefined and must not be used."""

    def __init__(self, genesis: Genesis, *contracts: Contract) -> None:
        """Only the code of these `contracts` can be deployed."""
        self.genesis = genesis
        self.evm = Evm(contracts[0], genesis.chain_id)
        self.head = Head(-1, genesis.digest)
        self.time = genesis.created_at
        self.block_digests: list[bytes] = []
        self.contracts: dict[str, Contract] = {}
        """By their addresses, oldest first."""
        self._known_code = {contract.initcode: contract for contract in contracts}
        self._nonces: dict[str, int] = {}

    def next_nonce(self, sender: str) -> int:
        """Returns the nonce that the sender's next transaction must have."""
        return self._nonces.get(sender, 0)

    def check_nonce(self, sender: str, transaction: Transaction) -> None:
        """Raises `Tampered` unless this is the sender's next transaction."""
        if transaction.nonce != self._nonces.get(sender, 0):
            raise Tampered(f"a transaction of {sender} has nonce {transaction.nonce}, not {self.next_nonce(sender)}")

    def check_link(self, number: int, parent: bytes, time: int) -> None:
        """Raises `Tampered` unless a block with these fields can come next."""
        expected = self.head.number + 1
        if number != expected:
            raise Tampered(f"numbered {number}, but comes after block {expected - 1}", expected)
        if parent != self.head.digest:
            raise Tampered("does not follow from the block before it", expected)
        if time < self.time:
            raise Tampered("is older than the block before it", expected)

    def begin_block(self, number: int, time: int) -> None:
        """Sets the block in which transactions execute next."""
        self.evm.set_block(number, time)

    def run_transaction(self, sender: str, transaction: Transaction) -> tuple[Log, ...]:
        """Runs a transaction whose sender is known to be right; returns its logs. A refusal changes nothing."""
        logs: tuple[Log, ...] = ()
        if transaction.to:
            if transaction.to not in self.contracts:
                raise LedgerRefused("ledger: no contract there")
            logs = self.evm.execute(sender, transaction.to, transaction.data)
        else:
            self._create_contract(sender, transaction)
        self._nonces[sender] = transaction.nonce + 1
        return logs

    def move_head(self, number: int, digest: bytes, time: int) -> None:
        """Makes a block that has been executed the head."""
        self.head, self.time = Head(number, digest), time
        self.block_digests.append(digest)

    def _create_contract(self, sender: str, transaction: Transaction) -> None:
        contract = self._known_code.get(transaction.data)
        if contract is None:
            raise LedgerRefused("ledger: no contract of this version")
        address = self.evm.deploy(sender, transaction.data, transaction.nonce)
        if address != contract_address(sender, transaction.nonce):
            raise Tampered("the contract is not where Ethereum would put it")
        self.contracts[address] = contract
