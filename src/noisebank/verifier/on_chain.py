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
from noisebank.ledger.node import Node, NodeError, parse_log
from noisebank.ledger.protocol import Head
from noisebank.verifier.recount import Recount

SAMPLED_CELLS = 16
"""Cells per cube whose charge is compared with the contract's own."""


class ChainHistory:
    """The history of a contract as a node shows it, recounted."""

    def __init__(self, url: str, address: str) -> None:
        self.node, self.contract = Node(url), address.lower()
        self.chain_id = self.node.chain_id()
        self.recount = Recount()
        self.log_count = 0
        self._logs: list[tuple[Log, int, int]] = []
        self.head = Head(-1, b"")

    @property
    def newest_block(self) -> int:
        """The newest block's number when reading began."""
        return self.head.number

    def block_digest(self, number: int) -> bytes | None:
        """Returns a block's hash; None if there is no such block."""
        return self.node.block_hash(number) if 0 <= number <= self.newest_block else None

    def find_block(self, digest: bytes) -> int | None:
        """Returns the number of the block with this hash; None if there is none."""
        try:
            block = self.node.ask("eth_getBlockByHash", "0x" + digest.hex(), False) if len(digest) == 32 else None
        except NodeError as error:
            raise BadLedger(f"the node cannot look a block up by its hash: {error}") from error
        return int(block["number"], 16) if block else None

    def read_logs(self, first: int = 0, progress: Callable[[int], None] = lambda done: None) -> None:
        """Reads and recounts all logs from block `first` on. `Tampered` where they do not add up.

        `first` must not be later than the contract's deployment: an account that was opened before it would be missing.
        """
        code = self.node.get_code(self.contract)
        if not code:
            raise BadLedger(f"there is no contract at {self.contract} on chain {self.chain_id}")
        if code != budget_ledger().runtime:
            raise BadLedger(f"the code at {self.contract} is not this version's budget ledger")
        newest = self.node.block_number()
        self.head = Head(newest, self.node.block_hash(newest) or b"")
        times: dict[int, int] = {}
        for entry in self.node.read_logs(self.contract, first, newest):
            number, log = int(entry["blockNumber"], 16), parse_log(entry)
            stamp = entry.get("blockTimestamp")
            if stamp:
                times[number] = int(stamp, 16)
            try:
                self.recount.add_event(
                    Event(*budget_ledger().decode_event(*log)), partial(self.node.block_time, number)
                )
                self._logs.append((log, number, times.get(number, 0)))
            except (KeyError, ValueError):
                raise Tampered("a log cannot be read", number) from None
            except Tampered as error:
                raise Tampered(error.what, number) from None
            self.log_count += 1
            progress(self.log_count)
        self._compare_state()

    @cached_property
    def books(self) -> Books:
        """Accounts, reservations and records. Built when first used: only receipts and openings need them."""
        books = Books(budget_ledger())
        for log, number, time in self._logs:
            books.enter_log(log, number, time)
        return books

    def _compare_state(self) -> None:
        """Compares the contract's own state with what the logs add up to; `Tampered` if they differ."""
        for account, tally in self.recount.accounts.items():
            name = account.hex()[:12]
            if self._call_view("money", account) != (tally.budget, tally.spent, tally.measurements):
                raise Tampered(f"the contract's balance of {name} is not what its logs add up to")
            if self._call_view("desk", account) != (tally.curator, tally.version, len(tally.cube_sizes), tally.paused):
                raise Tampered(f"curator, version, cubes or pause of {name} are not what the logs say")
            if self._call_view("accounts", account)[0] != tally.owner:
                raise Tampered(f"the owner of {name} is not the one of the logs")
            for analyst, limit in tally.limits.items():
                if self._call_view("view_of", account, analyst) != (limit, tally.used[analyst]):
                    raise Tampered(f"a view of {name} is not what the logs add up to")
            for cube, cells in enumerate(tally.cube_sizes, 1):
                for cell in sorted({cells * sample // SAMPLED_CELLS for sample in range(SAMPLED_CELLS)}):
                    if self._call_view("cell", account, cube, cell) != (tally.cell_charges[cube].charge_at(cell),):
                        raise Tampered(f"cell {cell} of cube {cube} of {name} is not what the logs add up to")

    def _call_view(self, function: str, *arguments: bytes | int) -> tuple[object, ...]:
        """Returns the output of a view function at the block up to which the logs were read."""
        try:
            output = self.node.call_view(budget_ledger(), self.contract, function, *arguments, block=self.newest_block)
        except NodeError:  # the node keeps no old state: use its newest, which may be ahead of the logs
            output = self.node.call_view(budget_ledger(), self.contract, function, *arguments)
        return tuple(output)
