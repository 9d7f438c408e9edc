"""A development chain for members without one (`learn host`): both contracts in an embedded EVM, one journal file.

Every transaction is signed by its sender, every block by the chain's sealer. Whoever runs the chain orders transactions
and can leave some out, as any node can, but cannot forge or change one or execute another contract: a replay checks
signatures, nonces, links, results and code. `json_rpc` serves it, `chain_reader` reads it without its keeper.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from noisebank.core.digests import digest_tagged, keccak, to_canonical_json
from noisebank.core.durability import open_database, translate_errors
from noisebank.core.entropy import Entropy
from noisebank.core.errors import BadBank, LedgerRefused, Tampered
from noisebank.ledger.abi import budget_ledger, model_registry
from noisebank.ledger.block import results_digest
from noisebank.ledger.evm import Evm, Log
from noisebank.ledger.signing import Key, Transaction, contract_address, decode_transaction, recover_address

FORMAT = "noisebank crowd journal 1"
DATABASE_FILE, SEALER_KEY_FILE = "crowd.sqlite", "sealer.key"
SCHEMA = "CREATE TABLE IF NOT EXISTS lines (number INTEGER PRIMARY KEY, line TEXT NOT NULL) STRICT"
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


class DevChainState:
    """The state after the blocks so far. `apply_line` takes the next one, or raises `Tampered` with its number."""

    def __init__(self, genesis_line: str) -> None:
        try:
            genesis = json.loads(genesis_line)
            if to_canonical_json(genesis) != genesis_line or set(genesis) != {
                "format",
                "chain_id",
                "sealer",
                "created",
            }:
                raise ValueError("other fields")
            self.chain_id, self.sealer, self.last_time = (
                int(genesis["chain_id"]),
                str(genesis["sealer"]),
                genesis["created"],
            )
        except (ValueError, TypeError, KeyError):
            raise Tampered("the first line is malformed") from None
        if genesis["format"] != FORMAT:
            raise Tampered(f"the first line does not begin a {FORMAT!r}")
        self.head_digest = digest_tagged("crowd genesis 1", genesis)
        self.block_digests: list[bytes] = []
        self.block_times: list[int] = []
        self.transactions: list[ExecutedTransaction] = []
        self.contract_names: dict[str, str] = {}
        self.evm = Evm(model_registry(), self.chain_id)
        self._nonces: dict[str, int] = {}
        self._known_code = {budget_ledger().initcode: "budget_ledger", model_registry().initcode: "model_registry"}

    def next_nonce(self, sender: str) -> int:
        """Return the nonce of the sender's next transaction."""
        return self._nonces.get(sender, 0)

    def find_own_contracts(self) -> dict[str, str]:
        """Return the addresses of the chain's own contracts by name: the first of each that its sealer deployed."""
        addresses: dict[str, str] = {}
        for executed in self.transactions:
            if executed.created_contract and executed.sender == self.sealer:
                addresses.setdefault(self.contract_names[executed.created_contract], executed.created_contract)
        return addresses

    def execute_transaction(self, transaction: Transaction, now: int) -> ExecutedTransaction:
        """Check the sender and run it. `Tampered` if it is not valid, `LedgerRefused` if the contract refuses it."""
        sender = transaction.recover_sender()
        if transaction.chain_id != self.chain_id:
            raise Tampered("a transaction is for another chain")
        if transaction.nonce != self.next_nonce(sender):
            raise Tampered(f"a transaction of {sender} has nonce {transaction.nonce}, not {self.next_nonce(sender)}")
        if transaction.value:
            raise LedgerRefused("ledger: no money on this chain")
        number = len(self.block_digests)
        self.evm.set_block(number, now)
        created, logs = "", tuple[Log, ...]()
        if transaction.to:
            if transaction.to not in self.contract_names:
                raise LedgerRefused("ledger: no contract there")
            logs = self.evm.execute(sender, transaction.to, transaction.data)
        else:
            name = self._known_code.get(transaction.data)
            if name is None:
                raise LedgerRefused("ledger: no contract of this version")
            created = self.evm.deploy(sender, transaction.data)
            if created != contract_address(sender, transaction.nonce):
                raise Tampered("a contract is not where Ethereum would put it")
            self.contract_names[created] = name
        self._nonces[sender] = transaction.nonce + 1
        return ExecutedTransaction(transaction, sender, number, created, logs)

    def format_block(self, executed: ExecutedTransaction, now: int) -> str:
        """Return the block of an executed transaction in canonical JSON, without its seal."""
        return to_canonical_json(
            {
                "number": executed.block_number,
                "parent": self.head_digest.hex(),
                "time": now,
                "transaction": executed.transaction.raw.hex(),
                "results": results_digest([executed.logs]).hex(),
            }
        )

    def append_block(self, executed: ExecutedTransaction, block_text: str, now: int) -> None:
        """Append the block of an executed transaction."""
        self.head_digest = keccak(b"noisebank crowd block 1\n", block_text.encode())
        self.block_digests.append(self.head_digest)
        self.block_times.append(now)
        self.last_time = now
        self.transactions.append(executed)

    def apply_line(self, line: str) -> None:
        """Check and execute the next line of the journal."""
        number = len(self.block_digests)
        try:
            outer = json.loads(line)
            block = outer["block"]
            text = to_canonical_json(block)
            if to_canonical_json(outer) != line or set(outer) != {"block", "seal"}:
                raise ValueError("another spelling")
            raw, seal, now = bytes.fromhex(block["transaction"]), bytes.fromhex(outer["seal"]), block["time"]
            if type(now) is not int or not self.last_time <= now < 2**63:
                raise Tampered("is older than the block before it", number)
        except (ValueError, TypeError, KeyError):
            raise Tampered("is malformed", number) from None
        try:
            if recover_address(keccak(b"noisebank crowd block 1\n", text.encode()), seal) != self.sealer:
                raise Tampered("is not signed by the key that seals this journal")
            executed = self.execute_transaction(decode_transaction(raw), now)
        except LedgerRefused as refusal:
            raise Tampered(f"the contract refuses its transaction: {refusal.reason}", number) from None
        except Tampered as error:
            raise Tampered(error.what, number) from None
        if self.format_block(executed, now) != text:
            raise Tampered("records a result that the contract does not give, or follows another block", number)
        self.append_block(executed, text, now)


class DevChain:
    """The chain with its sealer's key. One transaction per block, on disk before its sender hears of it."""

    def __init__(self, folder: Path, clock: Callable[[], float] = time.time) -> None:
        if not (folder / DATABASE_FILE).is_file():
            raise BadBank(f"{folder} holds no crowd's chain; `noisebank learn host {folder}` makes one")
        self._database = open_database(folder / DATABASE_FILE, SCHEMA)
        self._clock, self._lock = clock, threading.RLock()
        self._sealer = Key.load(folder / SEALER_KEY_FILE)
        lines = self.read_journal()
        self.state = DevChainState(next(lines))
        for line in lines:
            self.state.apply_line(line)
        if self._sealer.address != self.state.sealer:
            raise BadBank("the sealer's key is not the one that seals this journal")

    def send_transaction(self, raw: bytes) -> ExecutedTransaction:
        """Execute a signed transaction; durable on return. A refused one changes nothing."""
        with self._lock:
            transaction = decode_transaction(raw)
            if len(transaction.data) > MAX_DATA_BYTES:
                raise LedgerRefused("ledger: too much data")
            if transaction.nonce < self.state.next_nonce(transaction.recover_sender()):
                raise LedgerRefused("nonce too low")
            now = max(self.state.last_time, int(self._clock()))
            executed = self.state.execute_transaction(transaction, now)
            text = self.state.format_block(executed, now)
            digest = keccak(b"noisebank crowd block 1\n", text.encode())
            line = to_canonical_json({"block": json.loads(text), "seal": self._sealer.sign(digest).hex()})
            self._database.execute("INSERT INTO lines VALUES (?, ?)", (executed.block_number, line))
            self.state.append_block(executed, text, now)
            return executed

    def simulate_call(self, sender: str, to: str, data: bytes) -> bytes:
        """Return what a call would return now; changes nothing."""
        with self._lock:
            now = max(self.state.last_time, int(self._clock()))
            self.state.evm.set_block(len(self.state.block_digests), now)
            return self.state.evm.simulate_call(sender, to, data)

    def read_journal(self) -> Iterator[str]:
        """Yield the journal's lines: the genesis, then one per block."""
        with translate_errors(self._database):
            for (line,) in self._database.execute("SELECT line FROM lines ORDER BY number"):
                yield str(line)

    def close(self) -> None:
        """Close the journal; every block is on disk already."""
        with self._lock:
            self._database.close()


def create_dev_chain(folder: Path, entropy: Entropy, clock: Callable[[], float] = time.time) -> DevChain:
    """Create a chain in `folder`, with both contracts deployed."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if (folder / DATABASE_FILE).exists():
        raise BadBank(f"{folder} holds a crowd's chain already")
    sealer = Key(entropy.token())
    sealer.save(folder / SEALER_KEY_FILE)
    database = open_database(folder / DATABASE_FILE, SCHEMA)
    genesis = {
        "format": FORMAT,
        "chain_id": int.from_bytes(entropy.token(6), "big") + 1,
        "sealer": sealer.address,
        "created": int(clock()),
    }
    database.execute("INSERT INTO lines VALUES (?, ?)", (-1, to_canonical_json(genesis)))
    database.close()
    chain = DevChain(folder, clock)
    for nonce, code in enumerate((budget_ledger().initcode, model_registry().initcode)):
        chain.send_transaction(Transaction(chain.state.chain_id, nonce, "", code).sign_with(sealer).raw)
    return chain
