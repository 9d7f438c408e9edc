"""`Bank`: a folder (`bank.folder`) with the accounts of its tables. `open_bank` opens it.

One process at a time, unless the ledger is on a chain and the vault on PostgreSQL: then many gateways may share it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from difflib import get_close_matches
from pathlib import Path
from types import TracebackType

from noisebank.account.account import Account
from noisebank.account.recovery import RecoveryCounts, recover_account
from noisebank.bank.folder import KEYS, BankParts, create_bank, is_shared, lock_folder, open_parts
from noisebank.bank.key_rotation import rotate_curator
from noisebank.bank.opening import (
    UNCONFIRMED,
    Confirmed,
    Moved,
    ignore_progress,
    load_account,
    load_accounts,
    open_account,
    open_next_version,
)
from noisebank.bank.periodic_task import PeriodicTask
from noisebank.core.entropy import Entropy
from noisebank.core.errors import BadRequest
from noisebank.engines.engine import Inspection
from noisebank.ledger.chain import Ledger
from noisebank.ledger.protocol import Head
from noisebank.policy.file import read_policy
from noisebank.policy.model import Policy
from noisebank.queries.sql import list_tables

__all__ = ["Bank", "create_bank", "open_bank"]
REFRESH_SECONDS, REFRESH_PATIENCE = 1.0, 1.0
"""Seconds between reads of what other gateways did, for quotes and balances, and seconds that such a read waits for a
node that is behind. Whatever spends reads first, and waits."""


class Bank:
    """An open bank. Opening it replays the journal and finishes what a crash interrupted."""

    def __init__(self, folder: Path, owner_key: Path | None = None, entropy: Entropy | None = None) -> None:
        self.folder, self._is_shared = folder, is_shared(folder)
        self._resources = ExitStack()
        self._lock = self._resources.enter_context(lock_folder(folder))
        try:
            self.parts: BankParts = self._resources.enter_context(open_parts(folder, owner_key, entropy))
            self._foreign_versions: set[tuple[bytes, bytes]] = set()
            self._accounts = {account.name: account for account in load_accounts(self.parts)}
            self.recovered: dict[str, RecoveryCounts] = {
                name: recover_account(account) for name, account in self._accounts.items()
            }
            if self._is_shared:
                self._resources.callback(PeriodicTask(self._sync_accounts, REFRESH_SECONDS).stop)
        except BaseException:
            self._resources.close()
            raise

    def __repr__(self) -> str:
        return f"Bank({self.folder}: {', '.join(sorted(self._accounts)) or 'no account yet'})"

    @property
    def ledger(self) -> Ledger:
        """The ledger that decides every charge."""
        return self.parts.ledger

    def open_account(self, policy: Policy | Path | str, confirmed: Confirmed = UNCONFIRMED) -> Account:
        """Opens an account for a policy, or for the policy file at a path."""
        return self.open_and_inspect(policy, confirmed=confirmed)[0]

    def open_and_inspect(
        self,
        policy: Policy | Path | str,
        following: str | None = None,
        moved: Moved = ignore_progress,
        confirmed: Confirmed = UNCONFIRMED,
    ) -> tuple[Account, Inspection]:
        """The same; also returns what was found in the table, for its owner. `following` names the account whose table
        has changed: its next version is opened, and what is spent stays spent. `moved` is called with the looks at the
        table done and in all. `confirmed` is for a table that looks like a mistake: see `Confirmed`."""
        checked_policy = policy if isinstance(policy, Policy) else read_policy(Path(policy))
        if following is None:
            account, inspection = open_account(self.parts, checked_policy, moved, confirmed)
        else:
            account, inspection = open_next_version(
                self.parts, self.account(following), checked_policy, moved, confirmed
            )
        self._accounts[account.name] = account
        return account, inspection

    def account(self, name: str | None = None) -> Account:
        """Returns an account by its name; without a name, the only one."""
        if self._is_shared and (name is None or name not in self._accounts or not _is_current(self._accounts[name])):
            self._sync_accounts()
        if name is None and len(self._accounts) == 1:
            return next(iter(self._accounts.values()))
        if name is None:
            what = f"say which: {', '.join(sorted(self._accounts))}" if self._accounts else "this bank has none yet"
            raise BadRequest("account", None, what)
        if name not in self._accounts:
            close = get_close_matches(name.lower(), list(self._accounts), 1)
            meant = f"; did you mean {close[0]}?" if close else ""
            raise BadRequest("account", name, f"this bank has {', '.join(sorted(self._accounts)) or 'none yet'}{meant}")
        return self._accounts[name]

    def find_account(self, question: str, name: str | None = None) -> Account:
        """Returns the account that a question is for: the named one, the only one, or the one whose name follows FROM
        or whose policy has a query of this name."""
        if name is not None or len(self._accounts) == 1:
            return self.account(name)
        if self._is_shared:
            self._sync_accounts()
        tables = list_tables(question)
        matching = [
            account
            for account in self._accounts.values()
            if account.name.lower() in tables or question in account.context.policy.queries
        ]
        return matching[0] if len(matching) == 1 else self.account(tables[-1] if tables and not matching else None)

    def _sync_accounts(self) -> None:
        """Reads what other gateways have done, and loads accounts, versions and cubes that they have opened."""
        self.ledger.refresh(REFRESH_PATIENCE)
        ours = {account.id: account for account in tuple(self._accounts.values())}
        for state in self.ledger.books.list_accounts():
            if (state.account in ours and _is_current(ours[state.account])) or (
                state.account,
                state.data_commitment,
            ) in self._foreign_versions:
                continue
            account = load_account(self.parts, state)
            if account is None:  # not ours, and stays so: a vault has the row before the ledger has the version
                self._foreign_versions.add((state.account, state.data_commitment))
            else:
                self.recovered[account.name] = recover_account(account)
                self._accounts[account.name] = account

    def accounts(self) -> tuple[Account, ...]:
        """Returns all accounts of this bank."""
        return tuple(self._accounts.values())

    def export(self) -> Iterator[str]:
        """Yields the canonical journal, line by line: all that a verifier needs."""
        return self.ledger.export_journal()

    def head(self) -> Head:
        """Returns the newest block. Keep a copy elsewhere: it proves later that the history was not rewritten."""
        return self.ledger.head()

    def rotate_curator(self) -> tuple[str, int]:
        """Gives all accounts a new curator's key; returns its address, and how many accounts have it now."""
        with self._lock.exclude_others():  # other gateways here would go on with the old key
            return rotate_curator(self.folder / KEYS, self.ledger, self.parts.entropy)

    def close(self) -> None:
        """Closes the bank and releases its lock. Nothing is lost."""
        self._resources.close()

    def __enter__(self) -> Bank:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def open_bank(folder: Path | str, owner_key: Path | None = None) -> Bank:
    """Opens a bank made by `create_bank`. `BankInUse` if another process has it open."""
    return Bank(Path(folder), owner_key)


def _is_current(account: Account) -> bool:
    """Whether an account's version and cubes are those of the ledger, as far as this process has read it."""
    complete = len(account.cubes.cube_numbers) == len(account.context.policy.cubes)
    return complete and account.state.version == account.secrets.version
