"""A development chain for members without one (`learn host`): both contracts in an embedded EVM, one journal file.

Every transaction is signed by its sender, every block by the chain's sealer. Whoever runs the chain orders transactions
and can leave some out, as any node can, but cannot forge or change one or execute another contract: a replay checks
signatures, nonces, links, results and code. The chain is that of a bank's ledger (`ledger.chain_state`, one journal
format apart: here strangers send transactions, with fees of their own). `json_rpc` serves it, `chain_reader` reads it
without its keeper.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from noisebank.core.digests import keccak, to_canonical_json
from noisebank.core.entropy import Entropy
from noisebank.core.errors import BadBank, LedgerRefused, Tampered
from noisebank.ledger.abi import budget_ledger, model_registry
from noisebank.ledger.block import DEV_FORMAT, Genesis, results_digest
from noisebank.ledger.chain_state import ChainState
from noisebank.ledger.embedded import create_chain
from noisebank.ledger.evm import Log
from noisebank.ledger.journal import Journal
from noisebank.ledger.signing import Key, Transaction, decode_transaction, recover_address

DATABASE_FILE, SEALER_KEY_FILE = "crowd.sqlite", "sealer.key"
MAX_DATA_BYTES = 2**17


@dataclass(frozen=True)
class ExecutedTransaction:
    """An executed transaction with its block number and the contract's logs."""

    transaction: Transaction
    sender: str
    block_number: int
    created_contract: str
    """Address of the contract that it created; empty if none."""
    logs: tuple[Log, ...]


@dataclass(frozen=True)
class DevBlock:
    """A block: one transaction with everything that its sender signed, and the digest of its results."""

    number: int
    parent: bytes
    time: int
    transaction: Transaction
    results: bytes
    seal: bytes = b""

    @property
    def text(self) -> str:
        """Everything but the seal, as canonical JSON."""
        return to_canonical_json(
            {
                "number": self.number,
                "parent": self.parent.hex(),
                "time": self.time,
                "transaction": self.transaction.raw.hex(),
                "results": self.results.hex(),
            }
        )

    @property
    def digest(self) -> bytes:
        """Digest of everything but the seal; the next block's parent."""
        return keccak(b"noisebank crowd block 1\n", self.text.encode())

    def to_canonical_json(self) -> str:
        """Return the block's line in the journal, seal included."""
        return to_canonical_json({"block": json.loads(self.text), "seal": self.seal.hex()})

    @classmethod
    def from_canonical_json(cls, line: str, expected_number: int) -> DevBlock:
        """Parse a line of a journal. `Tampered`, naming block `expected_number`, unless it is in canonical form."""
        try:
            outer = json.loads(line)
            fields = outer["block"]
            number, time = fields["number"], fields["time"]
            if type(number) is not int or type(time) is not int or not 0 <= time < 2**63:
                raise ValueError("no number")
            parent, results = bytes.fromhex(fields["parent"]), bytes.fromhex(fields["results"])
            transaction = decode_transaction(bytes.fromhex(fields["transaction"]))
            block = cls(number, parent, time, transaction, results, bytes.fromhex(outer["seal"]))
            if block.to_canonical_json() != line:
                raise ValueError("another spelling")
        except (ValueError, TypeError, KeyError, RecursionError):
            raise Tampered("is malformed", expected_number) from None
        except Tampered as error:
            raise Tampered(error.what, expected_number) from None
        return block


class DevChainState(ChainState):
    """The state after the blocks so far. `apply_line` takes the next one, or raises `Tampered` with its number."""

    def __init__(self, genesis_line: str) -> None:
        super().__init__(Genesis.from_canonical_json(genesis_line, DEV_FORMAT), budget_ledger(), model_registry())
        self.block_times: list[int] = []
        self.transactions: list[ExecutedTransaction] = []

    def find_own_contracts(self) -> dict[str, str]:
        """Return the addresses of the chain's own contracts by name: the first of each that its sealer deployed."""
        names = {budget_ledger().initcode: "budget_ledger", model_registry().initcode: "model_registry"}
        addresses: dict[str, str] = {}
        for executed in self.transactions:
            if executed.created_contract and executed.sender == self.genesis.sealer:
                addresses.setdefault(names[executed.transaction.data], executed.created_contract)
        return addresses

    def execute_transaction(self, transaction: Transaction, now: int) -> ExecutedTransaction:
        """Check the sender and run it. `Tampered` if it is not valid, `LedgerRefused` if the contract refuses it."""
        sender = transaction.recover_sender()
        if transaction.chain_id != self.genesis.chain_id:
            raise Tampered("a transaction is for another chain")
        self.check_nonce(sender, transaction)
        if transaction.value:
            raise LedgerRefused("ledger: no money on this chain")
        number, before = self.head.number + 1, len(self.contracts)
        self.begin_block(number, now)
        logs = self.run_transaction(sender, transaction)
        created = "" if len(self.contracts) == before else next(reversed(self.contracts))
        return ExecutedTransaction(transaction, sender, number, created, logs)

    def make_block(self, executed: ExecutedTransaction, now: int) -> DevBlock:
        """Return the block of an executed transaction, without its seal."""
        results = results_digest([executed.logs])
        return DevBlock(executed.block_number, self.head.digest, now, executed.transaction, results)

    def append_block(self, executed: ExecutedTransaction, block: DevBlock) -> None:
        """Append the block of an executed transaction."""
        self.move_head(block.number, block.digest, block.time)
        self.block_times.append(block.time)
        self.transactions.append(executed)

    def apply_line(self, line: str) -> None:
        """Check and execute the next line of the journal."""
        number = self.head.number + 1
        block = DevBlock.from_canonical_json(line, number)
        self.check_link(block.number, block.parent, block.time)
        try:
            if recover_address(block.digest, block.seal) != self.genesis.sealer:
                raise Tampered("is not signed by the key that seals this journal")
            executed = self.execute_transaction(block.transaction, block.time)
            if results_digest([executed.logs]) != block.results:
                raise Tampered("records a result that the contract does not give")
        except LedgerRefused as refusal:
            raise Tampered(f"the contract refuses its transaction: {refusal.reason}", number) from None
        except Tampered as error:
            raise Tampered(error.what, number) from None
        self.append_block(executed, block)

    def simulate_call(self, sender: str, to: str, data: bytes, now: int) -> bytes:
        """Return what a call would return in the next block; changes nothing."""
        self.begin_block(self.head.number + 1, max(self.time, now))
        return self.evm.simulate_call(sender, to, data)


class DevChain:
    """The chain with its sealer's key. One transaction per block, on disk before its sender hears of it."""

    def __init__(self, folder: Path, clock: Callable[[], float] = time.time) -> None:
        if not (folder / DATABASE_FILE).is_file():
            raise BadBank(f"{folder} holds no crowd's chain; `noisebank learn host {folder}` makes one")
        self._journal = Journal(folder / DATABASE_FILE)
        self._clock, self._lock = clock, threading.RLock()
        self._sealer = Key.load(folder / SEALER_KEY_FILE)
        lines = self.read_journal()
        self.state = DevChainState(next(lines))
        for line in lines:
            self.state.apply_line(line)
        if self._sealer.address != self.state.genesis.sealer:
            raise BadBank("the sealer's key is not the one that seals this journal")

    def send_transaction(self, raw: bytes) -> ExecutedTransaction:
        """Execute a signed transaction; durable on return. A refused one changes nothing."""
        with self._lock:
            transaction = decode_transaction(raw)
            if len(transaction.data) > MAX_DATA_BYTES:
                raise LedgerRefused("ledger: too much data")
            if transaction.nonce < self.state.next_nonce(transaction.recover_sender()):
                raise LedgerRefused("nonce too low")
            now = max(self.state.time, int(self._clock()))
            executed = self.state.execute_transaction(transaction, now)
            block = self.state.make_block(executed, now)
            self._journal.append(replace(block, seal=self._sealer.sign(block.digest)))
            self.state.append_block(executed, block)
            return executed

    def simulate_call(self, sender: str, to: str, data: bytes) -> bytes:
        """Return what a call would return now; changes nothing."""
        with self._lock:
            return self.state.simulate_call(sender, to, data, int(self._clock()))

    def read_journal(self) -> Iterator[str]:
        """Yield the journal's lines: the genesis, then one per block."""
        return self._journal.read_lines()

    def close(self) -> None:
        """Close the journal; every block is on disk already."""
        with self._lock:
            self._journal.close()


def create_dev_chain(folder: Path, entropy: Entropy, clock: Callable[[], float] = time.time) -> DevChain:
    """Create a chain in `folder`, with both contracts deployed."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if (folder / DATABASE_FILE).exists():
        raise BadBank(f"{folder} holds a crowd's chain already")
    sealer = Key(entropy.token())
    sealer.save(folder / SEALER_KEY_FILE)
    journal = Journal(folder / DATABASE_FILE)
    create_chain(journal, sealer, entropy, clock, DEV_FORMAT)
    journal.close()
    chain = DevChain(folder, clock)
    for nonce, code in enumerate((budget_ledger().initcode, model_registry().initcode)):
        chain.send_transaction(Transaction(chain.state.genesis.chain_id, nonce, "", code).sign_with(sealer).raw)
    return chain
