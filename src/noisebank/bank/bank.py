"""A bank: a folder with keys, a ledger and a vault. One process at a time, unless both can be shared."""

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
"""Who may come in over HTTP: `service.access` keeps it, backups copy it."""
OFTEN, BRIEFLY = 1.0, 1.0
"""Seconds after which what other gateways did is read again, for quotes and balances, and how long a node that is
behind is waited for then. What spends always reads it, and waits."""


class Bank:
    """Opens its parts, replays the journal, finishes what a crash interrupted, then serves."""

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
        """The chain that decides."""
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
        """The same, with what was found in the table: for its owner. `following` names the account whose table
        has changed: its next version is opened, and what is spent stays spent. `confirmed` is for a table that is
        probably not meant: see `Confirmed`."""
        found = policy if isinstance(policy, Policy) else read_policy(Path(policy))
        if following is None:
            account, inspection = open_account(self.rooms, found, moved, confirmed)
        else:
            account, inspection = open_next(self.rooms, self.account(following), found, moved, confirmed)
        self._accounts[account.name] = account
        return account, inspection

    def account(self, name: str | None = None) -> Account:
        """An account by its name; the only one if no name is given."""
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
        """Takes in what other gateways have done, and accounts, versions and cubes that they have opened."""
        self.ledger.refresh(BRIEFLY)
        ours = {account.id: account for account in tuple(self._accounts.values())}
        for state in self.ledger.books.accounts():
            if (state.account in ours and _present(ours[state.account])) or (
                state.account,
                state.data,
            ) in self._foreign:
                continue
            account = known_account(self.rooms, state)
            if account is None:  # nor in this version: the vault has the row before the ledger has the account
                self._foreign.add((state.account, state.data))
            else:
                self.recovered[account.name] = recover(account)
                self._accounts[account.name] = account

    def accounts(self) -> tuple[Account, ...]:
        """All accounts of this bank."""
        return tuple(self._accounts.values())

    def export(self) -> Iterator[str]:
        """The canonical journal, line by line: all that a verifier needs."""
        if not isinstance(self.ledger, EmbeddedChain):
            raise BadBank("this bank's ledger is on a chain: verify it there, with --rpc and --contract")
        return self.ledger.export()

    def head(self) -> Head:
        """The newest block. Pin it somewhere else."""
        return self.ledger.head()

    def rotate_curator(self) -> tuple[str, int]:
        """A new curator's key for all accounts; its address, and how many accounts it has now."""
        usual = fcntl.LOCK_SH if self._shared else fcntl.LOCK_EX
        try:
            _hold(self._lock, self.folder / LOCK, fcntl.LOCK_EX)  # other gateways here would go on with the old one
            return rotate_curator(self.folder / KEYS, self.ledger, self.rooms.entropy)
        finally:
            _hold(self._lock, self.folder / LOCK, usual)  # whoever is refused another lock has lost the one it had

    def close(self) -> None:
        """Lets go of the bank. Nothing is lost."""
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
    """Makes a bank: two keys, an empty vault, and a journal that begins with the contract.

    The owner's key goes to `owner_key`, or into the bank from where it can be moved away. With
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
    for written in (owner.parent, folder / KEYS, folder):
        if written.is_dir():
            sync_folder(written)
    return folder


def open_bank(folder: Path | str, owner_key: Path | None = None) -> Bank:
    """Opens a bank made by `create_bank`. One process at a time."""
    return Bank(Path(folder), owner_key)


def lock_bank(folder: Path) -> int:
    """Holds a bank against every other process, without opening it; a handle to close. `BankInUse` if one has it."""
    return _locked(folder / LOCK, shared=False)


def sealing_key(folder: Path) -> Key:
    """The key that signs for the bank itself: the sealer's, which was the curator's at first."""
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
    """Whether an account is as the ledger has it now, as far as this process has read it."""
    complete = len(account.cubes.numbers) == len(account.policy.cubes)
    return complete and account.state.version == account.secrets.version


def _variable(role: Role) -> str:
    return f"NOISEBANK_{role.value.upper()}_KEY"


def _made(role: Role, path: Path, entropy: Entropy) -> Key:
    """The key that the environment gives, which is not written anywhere, or a new one in a file."""
    given = Key.from_environment(_variable(role))
    if given is not None:
        return given
    key = Key(entropy.token())
    key.save(path)
    return key


def _keys(folder: Path, owner_key: Path | None) -> dict[Role, Key]:
    keys = {}
    for role in Role:
        path = owner_key if role is Role.OWNER and owner_key else folder / KEYS / f"{role.value}.key"
        given = Key.from_environment(_variable(role))
        if given is not None:
            keys[role] = given
        elif role is Role.CURATOR or path.exists() or path == owner_key:
            keys[role] = Key.load(path)
    return keys


def _locked(path: Path, shared: bool) -> int:
    """Against a second process; where vault and ledger can be shared, only against one that wants to be alone."""
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
