"""`ChainHistory`: reads and checks a ledger on a chain, given only a node's address and the contract's.

The chain's consensus has executed the contract. Checked here: the code is this version's, the
logs add up by an independent recount, and the contract's state agrees with them.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property, partial

from noisebank.core.errors import BadLedger, Tampered
from noisebank.ledger.abi import budget_ledger
from noisebank.ledger.books import Books
from noisebank.ledger.evm import Event, Log
from noisebank.ledger.node import Node, NodeError, raw_log
from noisebank.ledger.protocol import Head
from noisebank.verifier.recount import Recount

CELLS_ASKED = 16
"""Cells per cube whose charge is compared with the contract's own."""


class OnChain:
    """The history of a contract as a node shows it, recounted."""

    def __init__(self, url: str, address: str) -> None:
        self.node, self.contract = Node(url), address.lower()
        self.chain_id = self.node.chain_id()
        self.recount = Recount()
        self.logs = 0
        self._read: list[tuple[Log, int, int]] = []
        self.head = Head(-1, b"")

    @property
    def newest(self) -> int:
        """The newest block's number when reading began."""
        return self.head.number

    def digest(self, number: int) -> bytes | None:
        """Returns a block's hash; None if there is no such block."""
        return self.node.block_hash(number) if 0 <= number <= self.newest else None

    def find(self, digest: bytes) -> int | None:
        """Returns the number of the block with this hash; None if there is none."""
        block = self.node.ask("eth_getBlockByHash", "0x" + digest.hex(), False) if len(digest) == 32 else None
        return int(block["number"], 16) if block else None

    def read(self, first: int = 0, progress: Callable[[int], None] = lambda done: None) -> None:
        """Reads and recounts all logs from block `first` on. `Tampered` where they do not add up."""
        code = self.node.code(self.contract)
        if not code:
            raise BadLedger(f"there is no contract at {self.contract} on chain {self.chain_id}")
        if code != budget_ledger().runtime:
            raise BadLedger(f"the code at {self.contract} is not this version's budget ledger")
        newest = self.node.head()
        self.head = Head(newest, self.node.block_hash(newest) or b"")
        times: dict[int, int] = {}
        for entry in self.node.logs(self.contract, first, newest):
            number, log = int(entry["blockNumber"], 16), raw_log(entry)
            stamp = entry.get("blockTimestamp")
            if stamp:
                times[number] = int(stamp, 16)
            try:
                self.recount.add(Event(*budget_ledger().decode_event(*log)), partial(self.node.time, number))
                self._read.append((log, number, times.get(number, 0)))
            except (KeyError, ValueError):
                raise Tampered("a log cannot be read", number) from None
            except Tampered as error:
                raise Tampered(error.what, number) from None
            self.logs += 1
            progress(self.logs)
        self._compare_state()

    @cached_property
    def books(self) -> Books:
        """Accounts, reservations and records. Built when first used: only receipts and openings need them."""
        books = Books(budget_ledger())
        for log, number, time in self._read:
            books.write(log, number, time)
        return books

    def _compare_state(self) -> None:
        """Compares the contract's own state with what the logs add up to; `Tampered` if they differ."""
        for account, tally in self.recount.accounts.items():
            name = account.hex()[:12]
            if self._ask("money", account) != (tally.budget, tally.spent, tally.measurements):
                raise Tampered(f"the contract's balance of {name} is not what its logs add up to")
            if self._ask("desk", account) != (tally.curator, tally.version, len(tally.cells), tally.paused):
                raise Tampered(f"curator, version, cubes or pause of {name} are not what the logs say")
            if self._ask("accounts", account)[0] != tally.owner:
                raise Tampered(f"the owner of {name} is not the one of the logs")
            for analyst, limit in tally.limits.items():
                if self._ask("view_of", account, analyst) != (limit, tally.used[analyst]):
                    raise Tampered(f"a view of {name} is not what the logs add up to")
            for cube, cells in enumerate(tally.cells, 1):
                for cell in sorted({cells * sample // CELLS_ASKED for sample in range(CELLS_ASKED)}):
                    if self._ask("cell", account, cube, cell) != (tally.cubes[cube].at(cell),):
                        raise Tampered(f"cell {cell} of cube {cube} of {name} is not what the logs add up to")

    def _ask(self, function: str, *arguments: bytes | int) -> tuple[object, ...]:
        """Returns the output of a view function at the block up to which the logs were read."""
        try:
            output = self.node.view(budget_ledger(), self.contract, function, *arguments, block=self.newest)
        except NodeError:  # the node keeps no old state: use its newest, which may be ahead of the logs
            output = self.node.view(budget_ledger(), self.contract, function, *arguments)
        return tuple(output)
