"""`Bank`: a folder with keys, a ledger and a vault. `create_bank` makes one, `open_bank` opens it.

One process at a time, unless the ledger is on a chain and the vault on PostgreSQL: then many gateways may share it.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType

from noisebank.account.account import Account
from noisebank.account.recovery import Recovered, check_history, recover
from noisebank.bank.key_rotation import rotate_curator
from noisebank.bank.opening import (
    UNCONFIRMED,
    Confirmed,
    Moved,
    Rooms,
    known_account,
    known_accounts,
    open_account,
    open_next,
    unseen,
)
from noisebank.bank.watch import Watch
from noisebank.core.durability import sync_folder
from noisebank.core.entropy import Entropy, SystemEntropy
from noisebank.core.errors import BadBank, BadRequest, BankInUse
from noisebank.engines.engine import Inspection
from noisebank.ledger.chain import Chain
from noisebank.ledger.chain_config import Where, read_where, write_where
from noisebank.ledger.embedded import EmbeddedChain, begin_chain
from noisebank.ledger.journal import FILE as JOURNAL
from noisebank.ledger.journal import Journal
from noisebank.ledger.protocol import Head, Role
from noisebank.ledger.rpc import RpcChain
from noisebank.ledger.signing import Key
from noisebank.policy.file import read_policy
from noisebank.policy.model import Policy
from noisebank.vault.location import FILE as VAULT
from noisebank.vault.location import make_vault, on_postgres, open_vault
from noisebank.vault.postgres_vault import PostgresVault

__all__ = [
    "ACCESS",
    "JOURNAL",
    "KEYS",
    "LEDGER",
    "LOCK",
    "OUTBOX",
    "VAULT",
    "Bank",
    "create_bank",
    "lock_bank",
    "open_bank",
    "sealing_key",
]
LOCK, KEYS, LEDGER, OUTBOX = "lock", "keys", "ledger.json", "outbox.sqlite"
ACCESS = "access.sqlite"
"""Who may use the HTTP service: `service.access` writes it, backups copy it."""
OFTEN, BRIEFLY = 1.0, 1.0
"""Seconds between reads of what other gateways did, for quotes and balances, and seconds that such a read waits for a
node that is behind. Whatever spends reads first, and waits."""


class Bank:
    """An open bank. Opening it replays the journal and finishes what a crash interrupted."""

    def __init__(self, folder: Path, owner_key: Path | None = None, entropy: Entropy | None = None) -> None:
        if not (folder / JOURNAL).is_file() and not (folder / LEDGER).is_file():
            raise BadBank(f"{folder} is no bank; make one with `noisebank init {folder}`")
        self.folder = folder
        self._exit = ExitStack()
        self._shared = on_postgres(folder) and (folder / LEDGER).is_file()
        self._lock = _locked(folder / LOCK, self._shared)
        self._exit.callback(os.close, self._lock)
        try:
            ledger = _chain(folder, _keys(folder, owner_key))
            self._exit.callback(ledger.close)
            vault = open_vault(folder)
            self._exit.callback(vault.close)
            if isinstance(vault, PostgresVault):
                vault.bind(f"{ledger.chain_id} {ledger.contract}")
            self._foreign: set[tuple[bytes, bytes]] = set()
            self.rooms = Rooms(ledger, vault, entropy or SystemEntropy())
            check_history(ledger, vault)
            self._accounts = {account.name: account for account in known_accounts(self.rooms)}
            self.recovered: dict[str, Recovered] = {name: recover(account) for name, account in self._accounts.items()}
            if self._shared:
                self._exit.callback(Watch(self._join, OFTEN).stop)
        except BaseException:
            self._exit.close()
            raise

    @property
    def ledger(self) -> Chain:
        """The ledger that decides every charge."""
        return self.rooms.ledger

    def open_account(self, policy: Policy | Path | str, confirmed: Confirmed = UNCONFIRMED) -> Account:
        """Opens an account for a policy, or for the policy file at a path."""
        return self.open_and_inspect(policy, confirmed=confirmed)[0]

    def open_and_inspect(
        self,
        policy: Policy | Path | str,
        following: str | None = None,
        moved: Moved = unseen,
        confirmed: Confirmed = UNCONFIRMED,
    ) -> tuple[Account, Inspection]:
        """The same; also returns what was found in the table, for its owner. `following` names the account whose table
        has changed: its next version is opened, and what is spent stays spent. `moved` is called with the looks at the
        table done and in all. `confirmed` is for a table that looks like a mistake: see `Confirmed`."""
        checked_policy = policy if isinstance(policy, Policy) else read_policy(Path(policy))
        if following is None:
            account, inspection = open_account(self.rooms, checked_policy, moved, confirmed)
        else:
            account, inspection = open_next(self.rooms, self.account(following), checked_policy, moved, confirmed)
        self._accounts[account.name] = account
        return account, inspection

    def account(self, name: str | None = None) -> Account:
        """Returns an account by its name; without a name, the only one."""
        if self._shared and (name is None or name not in self._accounts or not _present(self._accounts[name])):
            self._join()
        if name is None and len(self._accounts) == 1:
            return next(iter(self._accounts.values()))
        if name is None:
            what = f"say which: {', '.join(sorted(self._accounts))}" if self._accounts else "this bank has none yet"
            raise BadRequest("account", "nothing", what)
        if name not in self._accounts:
            raise BadRequest("account", name, f"this bank has {', '.join(sorted(self._accounts)) or 'none yet'}")
        return self._accounts[name]

    def _join(self) -> None:
        """Reads what other gateways have done, and loads accounts, versions and cubes that they have opened."""
        self.ledger.refresh(BRIEFLY)
        ours = {account.id: account for account in tuple(self._accounts.values())}
        for state in self.ledger.books.accounts():
            if (state.account in ours and _present(ours[state.account])) or (
                state.account,
                state.data,
            ) in self._foreign:
                continue
            account = known_account(self.rooms, state)
            if account is None:  # not ours, and stays so: a vault has the row before the ledger has the version
                self._foreign.add((state.account, state.data))
            else:
                self.recovered[account.name] = recover(account)
                self._accounts[account.name] = account

    def accounts(self) -> tuple[Account, ...]:
        """Returns all accounts of this bank."""
        return tuple(self._accounts.values())

    def export(self) -> Iterator[str]:
        """Yields the canonical journal, line by line: all that a verifier needs."""
        if not isinstance(self.ledger, EmbeddedChain):
            raise BadBank("this bank's ledger is on a chain: verify it there, with --rpc and --contract")
        return self.ledger.export()

    def head(self) -> Head:
        """Returns the newest block. Keep a copy elsewhere: it proves later that the history was not rewritten."""
        return self.ledger.head()

    def rotate_curator(self) -> tuple[str, int]:
        """Gives all accounts a new curator's key; returns its address, and how many accounts have it now."""
        usual = fcntl.LOCK_SH if self._shared else fcntl.LOCK_EX
        try:
            _hold(self._lock, self.folder / LOCK, fcntl.LOCK_EX)  # other gateways here would go on with the old key
            return rotate_curator(self.folder / KEYS, self.ledger, self.rooms.entropy)
        finally:
            _hold(self._lock, self.folder / LOCK, usual)  # a refused flock drops the lock held before: take it again

    def close(self) -> None:
        """Closes the bank and releases its lock. Nothing is lost."""
        self._exit.close()

    def __enter__(self) -> Bank:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def create_bank(
    folder: Path | str,
    owner_key: Path | None = None,
    entropy: Entropy | None = None,
    where: Where | None = None,
    vault: str | None = None,
) -> Path:
    """Creates a bank: two keys, an empty vault, and a journal that begins with the contract. Returns its folder.

    The owner's key goes to `owner_key`, or into the bank, from where it can be moved away. With
    `where` the ledger is a contract on that chain, and keys may come from the environment. `vault` is
    the address of a PostgreSQL database, which may hold the vault of other gateways already.
    """
    folder = Path(folder)
    entropy = entropy or SystemEntropy()
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise BadBank(f"{folder} exists and is not an empty folder")
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    (folder / KEYS).mkdir(mode=0o700)
    curator = _made(Role.CURATOR, folder / KEYS / f"{Role.CURATOR.value}.key", entropy)
    owner = owner_key or folder / KEYS / f"{Role.OWNER.value}.key"
    _made(Role.OWNER, owner, entropy)
    make_vault(folder, vault, entropy.token().hex())
    if where is not None:
        write_where(folder / LEDGER, where)
    else:
        journal = Journal(folder / JOURNAL)
        begin_chain(journal, curator, entropy)
        EmbeddedChain(journal, {Role.CURATOR: curator}).close()
    for changed in (owner.parent, folder / KEYS, folder):
        if changed.is_dir():
            sync_folder(changed)
    return folder


def open_bank(folder: Path | str, owner_key: Path | None = None) -> Bank:
    """Opens a bank made by `create_bank`. `BankInUse` if another process has it open."""
    return Bank(Path(folder), owner_key)


def lock_bank(folder: Path) -> int:
    """Locks a bank against every other process without opening it; returns a file descriptor to close.
    `BankInUse` if another process holds it."""
    return _locked(folder / LOCK, shared=False)


def sealing_key(folder: Path) -> Key:
    """Returns the key that signs for the bank itself: the sealer's if there is one, else the curator's."""
    keys = _keys(folder, None)
    return keys.get(Role.SEALER) or keys[Role.CURATOR]


def _chain(folder: Path, keys: dict[Role, Key]) -> Chain:
    if (folder / LEDGER).is_file():
        return RpcChain(read_where(folder / LEDGER), keys, folder / OUTBOX)
    journal = Journal(folder / JOURNAL)
    try:
        return EmbeddedChain(journal, keys)
    except BaseException:
        journal.close()
        raise


def _present(account: Account) -> bool:
    """Whether an account's version and cubes are those of the ledger, as far as this process has read it."""
    complete = len(account.cubes.numbers) == len(account.policy.cubes)
    return complete and account.state.version == account.secrets.version


def _variable(role: Role) -> str:
    return f"NOISEBANK_{role.value.upper()}_KEY"


def _made(role: Role, path: Path, entropy: Entropy) -> Key:
    """Returns the key from the environment, which is not written anywhere, or a new one saved to a file."""
    from_environment = Key.from_environment(_variable(role))
    if from_environment is not None:
        return from_environment
    key = Key(entropy.token())
    key.save(path)
    return key


def _keys(folder: Path, owner_key: Path | None) -> dict[Role, Key]:
    keys = {}
    for role in Role:
        path = owner_key if role is Role.OWNER and owner_key else folder / KEYS / f"{role.value}.key"
        from_environment = Key.from_environment(_variable(role))
        if from_environment is not None:
            keys[role] = from_environment
        elif role is Role.CURATOR or path.exists() or path == owner_key:
            keys[role] = Key.load(path)
    return keys


def _locked(path: Path, shared: bool) -> int:
    """Takes the lock of a bank's folder; returns its file descriptor. `shared` admits other processes that share the
    vault and the ledger."""
    try:
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise BadBank(f"{path} cannot be opened: {error.strerror}") from None
    try:
        _hold(handle, path, fcntl.LOCK_SH if shared else fcntl.LOCK_EX)
    except BankInUse:
        os.close(handle)
        raise
    return handle


def _hold(handle: int, path: Path, how: int) -> None:
    try:
        fcntl.flock(handle, how | fcntl.LOCK_NB)
    except OSError:
        raise BankInUse(f"another process uses the bank {path.parent}; wait for it, or talk to it") from None
