"""Opens accounts and their next versions, and loads those that this bank has opened.

Opening is the one time that the owner's table is read as a whole: to check it, to tabulate cubes, to commit to it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from noisebank.account.account import Account
from noisebank.bank.folder import BankParts
from noisebank.bank.own_accounts import OPENED_BY, find_opener, find_own_opening, opener_entry
from noisebank.core.digests import make_commitment
from noisebank.core.errors import BadBank, BadRequest, BadTable
from noisebank.engines.cube_engine import CubedEngine
from noisebank.engines.engine import Inspection
from noisebank.engines.headers import check_header
from noisebank.engines.registry import make_engine, read_header
from noisebank.ledger.protocol import AccountOpening, AccountState, Role
from noisebank.policy.model import Policy, policy_from_json, source_from_json, source_to_json
from noisebank.privacy.calibration import budget_precision
from noisebank.queries.cells import policy_cubes
from noisebank.queries.selects import check_named_queries
from noisebank.vault.secrets import AccountSecrets

FIXED_FIELDS = ("name", "epsilon", "delta", "neighbours", "unit", "raise_delay")
"""Fields of a policy that all versions of a table have in common; `noisebank budget` changes a budget."""
Moved = Callable[[int, int], None]
"""Reports progress: how many passes over the table are done, of how many."""


def ignore_progress(done: int, total: int) -> None:
    """Ignores progress."""


@dataclass(frozen=True, slots=True)
class Confirmed:
    """What the owner confirms after a look. Without it, a table or policy that looks like a mistake is not opened."""

    header: bool = False
    """The column names of the file are names, though they look like a row of data."""
    policy: bool = False
    """The policy is meant as it is, though most values of a column are none of its keys, or rows count nowhere because
    of a complete column."""
    same_rows: bool = False
    """No new version: the table was only written again, with the same rows. Checked, and refused if it is not so."""


UNCONFIRMED = Confirmed()


def open_account(
    parts: BankParts, policy: Policy, progress: Moved = ignore_progress, confirmed: Confirmed = UNCONFIRMED
) -> tuple[Account, Inspection]:
    """Checks the table against its policy, then opens its account on the ledger. Returns what was found in the table.

    The vault saves salts and policy first, under the data commitment; the ledger's account names
    that commitment. So a crash in between leaves an unused row and no half-open account.
    """
    if any(account.name == policy.name for account in load_accounts(parts)):
        raise BadRequest(
            "name",
            policy.name,
            "is an account of this bank already; if its table or policy changed, open its next "
            f"version: --next {policy.name}",
        )
    _check_not_forgotten(parts, policy)
    if not confirmed.header:
        check_header(policy.source)  # before the table is read: names that are a row would become public
    budget = budget_precision(policy.epsilon, policy.delta)
    opener = opener_entry(parts.ledger)[OPENED_BY]
    secrets = AccountSecrets(parts.entropy.token(), parts.entropy.token())
    data, inspection = _save_opening(parts, policy, secrets, opener, progress, confirmed)
    id = parts.ledger.open_account(AccountOpening(budget, policy.digest, data, policy.raise_delay))
    declare_cubes(parts, id, policy)
    return _require_account(parts, id), inspection


def open_next_version(
    parts: BankParts,
    account: Account,
    policy: Policy,
    progress: Moved = ignore_progress,
    confirmed: Confirmed = UNCONFIRMED,
) -> tuple[Account, Inspection]:
    """Opens the next version of an account whose table has changed. Returns what was found in the table.

    What is spent stays spent: the same people are in the table. Earlier answers are not reused, and reservations
    without an answer are burnt. The privacy unit and what the budget promises cannot change with a version.

    Versions are public. So whether there is a new one depends on what the owner says and not on the rows: a version
    that is opened only if rows have changed would tell everybody whether the one person who might have changed has.
    """
    for part in FIXED_FIELDS:
        both = getattr(account.context.policy, part), getattr(policy, part)
        was, new = (str(getattr(value, "value", value)) for value in both)
        if was != new:
            raise BadRequest(part, new, f"is {was} in this account, for all versions")
    if not confirmed.header:
        check_header(policy.source)  # before the table is read: names that are a row would become public
    state = account.state
    if confirmed.same_rows:
        if policy.to_json() != account.context.policy.to_json():
            raise BadRequest("policy", policy.name, "is another one than the account's: open its next version")
        engine = make_engine(policy, read_header(policy.source), account.secrets.row_key)
        identity, inspection, salt = engine.identity(), engine.inspect(), account.secrets.data_salt
        if make_commitment(salt, engine.fingerprint(salt)) != state.data_commitment:
            raise BadTable(f"{policy.source.name} has other rows than were opened: open the account's next version")
        parts.vault.save_identity(state.data_commitment, identity, source_to_json(policy.source))
        declare_cubes(parts, account.id, policy)  # a crash may have come before all were declared
        return _require_account(parts, account.id), inspection
    secrets = AccountSecrets(account.secrets.secret, parts.entropy.token(), state.version + 1)
    opener = find_opener(parts.ledger.books, account.id)
    data, inspection = _save_opening(parts, policy, secrets, opener, progress, confirmed)
    parts.ledger.open_version(account.id, policy.digest, data)
    declare_cubes(parts, account.id, policy)
    return _require_account(parts, account.id), inspection


def _save_opening(
    parts: BankParts, policy: Policy, secrets: AccountSecrets, opener: list[str], progress: Moved, confirmed: Confirmed
) -> tuple[bytes, Inspection]:
    """Reads the whole table and saves what its account needs; returns the data commitment under which it is saved."""
    check_named_queries(policy)
    header = read_header(policy.source)
    engine = make_engine(policy, header, secrets.row_key)
    identity = engine.identity()
    looks = 2 + len(policy.cubes)
    inspection = engine.inspect()
    _check_table(policy, inspection)
    if not confirmed.policy:
        _check_keys(policy, inspection)
    progress(1, looks)
    cubes = []
    for number, cube in enumerate(policy_cubes(policy), 1):
        cubes.append(parts.vault.save_cube(engine.tabulate(cube).to_bytes()).hex())
        progress(1 + number, looks)
    data = make_commitment(secrets.data_salt, engine.fingerprint(secrets.data_salt))
    progress(looks, looks)
    if engine.identity() != identity:
        raise BadTable(f"{policy.source.name} changed while it was being opened")
    row: dict[str, Any] = {
        OPENED_BY: opener,
        "policy": policy.to_json(),
        "source": source_to_json(policy.source),
        "header": list(header),
        "identity": identity,
        "secret": secrets.secret.hex(),
        "data_salt": secrets.data_salt.hex(),
    }
    parts.vault.save_opening(data, row | ({"cubes": cubes} if cubes else {}))
    return data, inspection


def declare_cubes(parts: BankParts, id: bytes, policy: Policy) -> None:
    """Declares the cubes of a policy on the ledger, but for those that earlier versions have declared."""
    while len(match_cubes(policy, parts.ledger.get_account(id).cubes)) < len(policy.cubes):
        have = list(parts.ledger.get_account(id).cubes)
        for size in _cube_sizes(policy):
            if size not in have:
                parts.ledger.add_cube(id, size)
                break
            have.remove(size)


def _cube_sizes(policy: Policy) -> list[int]:
    """Returns the number of cells on the ledger of each cube: a power of two."""
    return [1 << (cube.cell_count - 1).bit_length() for cube in policy_cubes(policy)]


def match_cubes(policy: Policy, declared: tuple[int, ...]) -> tuple[int, ...]:
    """Returns the numbers of the ledger's cubes for those of a policy: for each the first unused one of its size. Every
    version starts all cubes at zero, so any of the right size will do. Stops at the first that is not declared yet."""
    free = list(enumerate(declared, 1))
    numbers = []
    for size in _cube_sizes(policy):
        entry = next((entry for entry in free if entry[1] == size), None)
        if entry is None:
            break
        free.remove(entry)
        numbers.append(entry[0])
    return tuple(numbers)


def _require_account(parts: BankParts, id: bytes) -> Account:
    """Returns an account that has just been opened."""
    account = load_account(parts, parts.ledger.get_account(id))
    assert account is not None
    return account


def load_accounts(parts: BankParts) -> list[Account]:
    """Returns the accounts that this bank has opened: those of the ledger whose opening is in the vault."""
    accounts = (load_account(parts, state) for state in parts.ledger.books.list_accounts())
    return [account for account in accounts if account is not None]


def load_account(parts: BankParts, state: AccountState) -> Account | None:
    """Returns an account as the vault has saved it; None if this bank never opened it."""
    saved = find_own_opening(parts.ledger, parts.vault, state)
    opening = None if saved is None else parse_opening(saved, state)
    if opening is None:
        return None
    row, policy, secrets = opening
    engine = make_engine(policy, tuple(row["header"]), secrets.row_key)
    if policy.cubes:
        digests = [bytes.fromhex(digest) for digest in row["cubes"]]
        engine = CubedEngine(policy, engine, lambda number: parts.vault.read_cube(digests[number]))
    cubes = match_cubes(policy, state.cubes)
    if len(cubes) < len(policy.cubes):  # a crash came before all were declared
        cubes = ()
    return Account(
        state.account, policy, secrets, row["identity"], engine, parts.ledger, parts.vault, parts.entropy, cubes
    )


def parse_opening(row: dict[str, Any], state: AccountState) -> tuple[dict[str, Any], Policy, AccountSecrets] | None:
    """Parses what the vault has saved for an account; returns the row, its policy and its secrets. None if the account
    is not one of a table."""
    if "policy" not in row:  # a device's account: see federated.enrolment
        return None
    policy = policy_from_json(MappingProxyType(row["policy"]), source_from_json(row["source"]))
    return row, policy, AccountSecrets(bytes.fromhex(row["secret"]), bytes.fromhex(row["data_salt"]), state.version)


def _check_not_forgotten(parts: BankParts, policy: Policy) -> None:
    """Refuses a policy whose account is on the ledger but not in the vault: with an old vault its budget would be given
    out twice. On a chain, accounts that others have opened do not count, whatever their policy is."""
    owner = parts.ledger.key_address(Role.OWNER)
    for state in parts.ledger.books.list_accounts():
        ours = not parts.ledger.is_shared or find_opener(parts.ledger.books, state.account)[0] == owner
        if ours and state.policy_digest == policy.digest and parts.vault.find_opening(state.data_commitment) is None:
            raise BadBank(
                f"the ledger has an account with this very policy ({state.account.hex()[:12]}) that the vault does "
                "not know: put the newest vault back, or its budget would be given out twice"
            )


def _check_keys(policy: Policy, inspection: Inspection) -> None:
    """Refuses a column most of whose values are not among its keys, and a complete one that drops rows. Only the owner
    is told; nothing of it is saved."""
    strange = [
        name for name, unkeyed in inspection.unkeyed.items() if 2 * unkeyed > inspection.rows - inspection.missing[name]
    ]
    if strange:
        raise BadTable(
            f"{policy.source.name}: more than half of the values in column {', '.join(strange)} are none of the "
            "declared keys. Correct the keys, or say --yes if they are meant"
        )
    if inspection.uncounted:
        names = ", ".join(policy.complete_columns)
        raise BadTable(
            f"{policy.source.name}: {inspection.uncounted} of {inspection.rows} rows count nowhere, because a value in "
            f"{names} is none of the keys, which are complete. Correct the keys, leave complete out, or say --yes"
        )


def _check_table(policy: Policy, inspection: Inspection) -> None:
    wrong = []
    if policy.has_fixed_rows and inspection.rows != policy.row_cap:
        wrong.append(f"it has {inspection.rows} rows; the policy says rows = {policy.row_cap}")
    elif inspection.rows > policy.row_cap:
        wrong.append(f"it has {inspection.rows} rows; the policy caps them at {policy.row_cap}")
    for name, missing in inspection.missing.items():
        if missing and not policy.columns[name].nullable:
            wrong.append(f"column {name} has {missing} missing or unreadable values; the policy says nullable = false")
    if wrong:
        raise BadTable(f"{policy.source.name} is not as its policy says: {'; '.join(dict.fromkeys(wrong))}")
