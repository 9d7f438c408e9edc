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

from noisebank.core.digests import canonical, keccak, tagged
from noisebank.core.durability import open_database, reading
from noisebank.core.entropy import Entropy
from noisebank.core.errors import BadBank, LedgerRefused, Tampered
from noisebank.ledger.abi import budget_ledger, model_registry
from noisebank.ledger.block import results_digest
from noisebank.ledger.evm import Log, Machine
from noisebank.ledger.signing import Key, Transaction, contract_address, read_transaction, recover

FORMAT = "noisebank crowd journal 1"
FILE, KEY = "crowd.sqlite", "sealer.key"
SCHEMA = "CREATE TABLE IF NOT EXISTS lines (number INTEGER PRIMARY KEY, line TEXT NOT NULL) STRICT"
MOST_DATA = 2**17


@dataclass(frozen=True)
class Entered:
    """An executed transaction with its block number and the contract's logs."""

    transaction: Transaction
    sender: str
    block: int
    created: str
    """Address of the contract that it created; empty if none."""
    logs: tuple[Log, ...]


class HomeState:
    """The state after the blocks so far. `apply_line` takes the next one, or raises `Tampered` with its number."""

    def __init__(self, first: str) -> None:
        try:
            genesis = json.loads(first)
            if canonical(genesis) != first or set(genesis) != {"format", "chain_id", "sealer", "created"}:
                raise ValueError("other fields")
            self.chain_id, self.sealer, self.time = int(genesis["chain_id"]), str(genesis["sealer"]), genesis["created"]
        except (ValueError, TypeError, KeyError):
            raise Tampered("the first line is malformed") from None
        if genesis["format"] != FORMAT:
            raise Tampered(f"the first line does not begin a {FORMAT!r}")
        self.head = tagged("crowd genesis 1", genesis)
        self.digests: list[bytes] = []
        self.times: list[int] = []
        self.entered: list[Entered] = []
        self.contracts: dict[str, str] = {}
        self.machine = Machine(model_registry(), self.chain_id)
        self._nonces: dict[str, int] = {}
        self._code = {budget_ledger().initcode: "budget_ledger", model_registry().initcode: "model_registry"}

    def nonce(self, sender: str) -> int:
        """Return the nonce of the sender's next transaction."""
        return self._nonces.get(sender, 0)

    def own_contracts(self) -> dict[str, str]:
        """Return the addresses of the chain's own contracts by name: the first of each that its sealer deployed."""
        addresses: dict[str, str] = {}
        for executed in self.entered:
            if executed.created and executed.sender == self.sealer:
                addresses.setdefault(self.contracts[executed.created], executed.created)
        return addresses

    def execute(self, transaction: Transaction, now: int) -> Entered:
        """Check the sender and run it. `Tampered` if it is not valid, `LedgerRefused` if the contract refuses it."""
        sender = transaction.sender()
        if transaction.chain_id != self.chain_id:
            raise Tampered("a transaction is for another chain")
        if transaction.nonce != self.nonce(sender):
            raise Tampered(f"a transaction of {sender} has nonce {transaction.nonce}, not {self.nonce(sender)}")
        if transaction.value:
            raise LedgerRefused("ledger: no money on this chain")
        number = len(self.digests)
        self.machine.at(number, now)
        created, logs = "", tuple[Log, ...]()
        if transaction.to:
            if transaction.to not in self.contracts:
                raise LedgerRefused("ledger: no contract there")
            logs = self.machine.execute(sender, transaction.to, transaction.data)
        else:
            name = self._code.get(transaction.data)
            if name is None:
                raise LedgerRefused("ledger: no contract of this version")
            created = self.machine.deploy(sender, transaction.data)
            if created != contract_address(sender, transaction.nonce):
                raise Tampered("a contract is not where Ethereum would put it")
            self.contracts[created] = name
        self._nonces[sender] = transaction.nonce + 1
        return Entered(transaction, sender, number, created, logs)

    def text(self, done: Entered, now: int) -> str:
        """Return the block of an executed transaction in canonical JSON, without its seal."""
        return canonical(
            {
                "number": done.block,
                "parent": self.head.hex(),
                "time": now,
                "transaction": done.transaction.raw.hex(),
                "results": results_digest([done.logs]).hex(),
            }
        )

    def finish(self, done: Entered, text: str, now: int) -> None:
        """Append the block of an executed transaction."""
        self.head = keccak(b"noisebank crowd block 1\n", text.encode())
        self.digests.append(self.head)
        self.times.append(now)
        self.time = now
        self.entered.append(done)

    def apply(self, line: str) -> None:
        """Check and execute the next line of the journal."""
        number = len(self.digests)
        try:
            outer = json.loads(line)
            block = outer["block"]
            text = canonical(block)
            if canonical(outer) != line or set(outer) != {"block", "seal"}:
                raise ValueError("another spelling")
            raw, seal, now = bytes.fromhex(block["transaction"]), bytes.fromhex(outer["seal"]), block["time"]
            if type(now) is not int or not self.time <= now < 2**63:
                raise Tampered("is older than the block before it", number)
        except (ValueError, TypeError, KeyError):
            raise Tampered("is malformed", number) from None
        try:
            if recover(keccak(b"noisebank crowd block 1\n", text.encode()), seal) != self.sealer:
                raise Tampered("is not signed by the key that seals this journal")
            executed = self.execute(read_transaction(raw), now)
        except LedgerRefused as refusal:
            raise Tampered(f"the contract refuses its transaction: {refusal.reason}", number) from None
        except Tampered as error:
            raise Tampered(error.what, number) from None
        if self.text(executed, now) != text:
            raise Tampered("records a result that the contract does not give, or follows another block", number)
        self.finish(executed, text, now)


class HomeChain:
    """The chain with its sealer's key. One transaction per block, on disk before its sender hears of it."""

    def __init__(self, folder: Path, clock: Callable[[], float] = time.time) -> None:
        if not (folder / FILE).is_file():
            raise BadBank(f"{folder} holds no crowd's chain; `noisebank learn host {folder}` makes one")
        self._database = open_database(folder / FILE, SCHEMA)
        self._clock, self._access = clock, threading.RLock()
        self._sealer = Key.load(folder / KEY)
        lines = self.lines()
        self.state = HomeState(next(lines))
        for line in lines:
            self.state.apply(line)
        if self._sealer.address != self.state.sealer:
            raise BadBank("the sealer's key is not the one that seals this journal")

    def send(self, raw: bytes) -> Entered:
        """Execute a signed transaction; durable on return. A refused one changes nothing."""
        with self._access:
            transaction = read_transaction(raw)
            if len(transaction.data) > MOST_DATA:
                raise LedgerRefused("ledger: too much data")
            if transaction.nonce < self.state.nonce(transaction.sender()):
                raise LedgerRefused("nonce too low")
            now = max(self.state.time, int(self._clock()))
            executed = self.state.execute(transaction, now)
            text = self.state.text(executed, now)
            digest = keccak(b"noisebank crowd block 1\n", text.encode())
            line = canonical({"block": json.loads(text), "seal": self._sealer.sign(digest).hex()})
            self._database.execute("INSERT INTO lines VALUES (?, ?)", (executed.block, line))
            self.state.finish(executed, text, now)
            return executed

    def peek(self, sender: str, to: str, data: bytes) -> bytes:
        """Return what a call would return now; changes nothing."""
        with self._access:
            now = max(self.state.time, int(self._clock()))
            self.state.machine.at(len(self.state.digests), now)
            return self.state.machine.peek(sender, to, data)

    def lines(self) -> Iterator[str]:
        """Yield the journal's lines: the genesis, then one per block."""
        with reading(self._database):
            for (line,) in self._database.execute("SELECT line FROM lines ORDER BY number"):
                yield str(line)

    def close(self) -> None:
        """Close the journal; every block is on disk already."""
        with self._access:
            self._database.close()


def begin_home_chain(folder: Path, entropy: Entropy, clock: Callable[[], float] = time.time) -> HomeChain:
    """Create a chain in `folder`, with both contracts deployed."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if (folder / FILE).exists():
        raise BadBank(f"{folder} holds a crowd's chain already")
    sealer = Key(entropy.token())
    sealer.save(folder / KEY)
    database = open_database(folder / FILE, SCHEMA)
    genesis = {
        "format": FORMAT,
        "chain_id": int.from_bytes(entropy.token(6), "big") + 1,
        "sealer": sealer.address,
        "created": int(clock()),
    }
    database.execute("INSERT INTO lines VALUES (?, ?)", (-1, canonical(genesis)))
    database.close()
    chain = HomeChain(folder, clock)
    for nonce, code in enumerate((budget_ledger().initcode, model_registry().initcode)):
        chain.send(Transaction(chain.state.chain_id, nonce, "", code).signed(sealer).raw)
    return chain
