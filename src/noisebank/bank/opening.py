"""Opens accounts and their next versions, and loads those that this bank has opened.

Opening is the one time that the owner's table is read as a whole: to check it, to tabulate cubes, to commit to it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from noisebank.account.account import Account
from noisebank.bank.own_accounts import OPENED_BY, opened_as, opened_by, own_row
from noisebank.core.digests import commitment
from noisebank.core.entropy import Entropy
from noisebank.core.errors import BadBank, BadRequest, BadTable
from noisebank.engines.cube_engine import CubedEngine
from noisebank.engines.engine import Inspection
from noisebank.engines.headers import check_header
from noisebank.engines.registry import columns_of, engine_of
from noisebank.ledger.chain import Chain
from noisebank.ledger.protocol import AccountState, Opening, Role
from noisebank.policy.file import check_filled
from noisebank.policy.model import Policy, kept_source, policy_from_public, source_from_kept
from noisebank.privacy.calibration import budget_precision
from noisebank.queries.cells import cubes_of
from noisebank.queries.derived import check_queries
from noisebank.vault.secrets import Secrets
from noisebank.vault.vault import Vault

FIXED = ("name", "epsilon", "delta", "neighbours", "unit", "raise_delay")
"""Fields of a policy that all versions of a table have in common; `noisebank budget` changes a budget."""
Moved = Callable[[int, int], None]
"""Reports progress: how many passes over the table are done, of how many."""


def unseen(done: int, total: int) -> None:
    """Ignores progress."""


@dataclass(frozen=True, slots=True)
class Confirmed:
    """What the owner confirms after a look. Without it, a table or policy that looks like a mistake is not opened."""

    header: bool = False
    """The column names of the file are names, though they look like a row of data."""
    policy: bool = False
    """The policy is meant as it is, though marks of a draft are left in it or most values of a column are not keys."""
    same_rows: bool = False
    """No new version: the table was only written again, with the same rows. Checked, and refused if it is not so."""


@dataclass(frozen=True, slots=True)
class Rooms:
    """The parts of a bank that its accounts share."""

    ledger: Chain
    vault: Vault
    entropy: Entropy


UNCONFIRMED = Confirmed()


def open_account(
    rooms: Rooms, policy: Policy, moved: Moved = unseen, confirmed: Confirmed = UNCONFIRMED
) -> tuple[Account, Inspection]:
    """Checks the table against its policy, then opens its account on the ledger. Returns what was found in the table.

    The vault saves salts and policy first, under the data commitment; the ledger's account names
    that commitment. So a crash in between leaves an unused row and no half-open account.
    """
    if any(account.name == policy.name for account in known_accounts(rooms)):
        raise BadRequest(
            "name", policy.name, "is already an account of this bank; if its table changed, open the next version of it"
        )
    _check_unknown(rooms, policy)
    _check_meant(policy, confirmed)
    budget = budget_precision(policy.epsilon, policy.delta)
    opener = opened_by(rooms.ledger)[OPENED_BY]
    secrets = Secrets(rooms.entropy.token(), rooms.entropy.token())
    data, inspection = _kept(rooms, policy, secrets, opener, moved, confirmed)
    id = rooms.ledger.open_account(Opening(budget, policy.digest, data, policy.raise_delay))
    _add_cubes(rooms, id, policy)
    return _looked(rooms, id), inspection


def open_next(
    rooms: Rooms, account: Account, policy: Policy, moved: Moved = unseen, confirmed: Confirmed = UNCONFIRMED
) -> tuple[Account, Inspection]:
    """Opens the next version of an account whose table has changed. Returns what was found in the table.

    What is spent stays spent: the same people are in the table. Earlier answers are not reused, and reservations
    without an answer are burnt. The privacy unit and what the budget promises cannot change with a version.

    Versions are public. So whether there is a new one depends on what the owner says and not on the rows: a version
    that is opened only if rows have changed would tell everybody whether the one person who might have changed has.
    """
    for part in FIXED:
        both = getattr(account.policy, part), getattr(policy, part)
        was, new = (str(getattr(value, "value", value)) for value in both)
        if was != new:
            raise BadRequest(part, new, f"is {was} in this account, for all versions")
    _check_meant(policy, confirmed)
    state = account.state
    if confirmed.same_rows:
        if policy.public() != account.policy.public():
            raise BadRequest("policy", policy.name, "is another one than the account's: open its next version")
        engine = engine_of(policy, columns_of(policy.source), account.secrets.row_key)
        identity, inspection, salt = engine.identity(), engine.inspect(), account.secrets.data_salt
        if commitment(salt, engine.fingerprint(salt)) != state.data:
            raise BadTable(f"{policy.source.name} has other rows than were opened: open the account's next version")
        rooms.vault.save_identity(state.data, identity, kept_source(policy.source))
        _add_cubes(rooms, account.id, policy)  # a crash may have come before all were declared
        return _looked(rooms, account.id), inspection
    secrets = Secrets(account.secrets.secret, rooms.entropy.token(), state.version + 1)
    opener = opened_as(rooms.ledger.books, account.id)
    data, inspection = _kept(rooms, policy, secrets, opener, moved, confirmed)
    rooms.ledger.open_version(account.id, policy.digest, data)
    _add_cubes(rooms, account.id, policy)
    return _looked(rooms, account.id), inspection


def _kept(
    rooms: Rooms, policy: Policy, secrets: Secrets, opener: list[str], moved: Moved, confirmed: Confirmed
) -> tuple[bytes, Inspection]:
    """Reads the whole table and saves what its account needs; returns the data commitment under which it is saved."""
    check_queries(policy)
    header = columns_of(policy.source)
    engine = engine_of(policy, header, secrets.row_key)
    identity = engine.identity()
    looks = 2 + len(policy.cubes)
    inspection = engine.inspect()
    _check_table(policy, inspection)
    if not confirmed.policy:
        _check_keys(policy, inspection)
    moved(1, looks)
    cubes = []
    for number, cube in enumerate(cubes_of(policy), 1):
        cubes.append(rooms.vault.save_cube(engine.tabulate(cube).packed()).hex())
        moved(1 + number, looks)
    data = commitment(secrets.data_salt, engine.fingerprint(secrets.data_salt))
    moved(looks, looks)
    if engine.identity() != identity:
        raise BadTable(f"{policy.source.name} changed while it was being opened")
    row: dict[str, Any] = {
        OPENED_BY: opener,
        "policy": policy.public(),
        "source": kept_source(policy.source),
        "header": list(header),
        "identity": identity,
        "secret": secrets.secret.hex(),
        "data_salt": secrets.data_salt.hex(),
    }
    rooms.vault.save_opening(data, row | ({"cubes": cubes} if cubes else {}))
    return data, inspection


def _add_cubes(rooms: Rooms, id: bytes, policy: Policy) -> None:
    """Declares the cubes of a policy on the ledger, but for those that earlier versions have declared."""
    while len(_numbers(policy, rooms.ledger.account(id).cubes)) < len(policy.cubes):
        have = list(rooms.ledger.account(id).cubes)
        for size in _sizes(policy):
            if size not in have:
                rooms.ledger.add_cube(id, size)
                break
            have.remove(size)


def _sizes(policy: Policy) -> list[int]:
    """Returns the number of cells on the ledger of each cube: a power of two."""
    return [1 << (cube.cells - 1).bit_length() for cube in cubes_of(policy)]


def _numbers(policy: Policy, declared: tuple[int, ...]) -> tuple[int, ...]:
    """Returns the numbers of the ledger's cubes for those of a policy: for each the first unused one of its size. Every
    version starts all cubes at zero, so any of the right size will do. Stops at the first that is not declared yet."""
    free = list(enumerate(declared, 1))
    numbers = []
    for size in _sizes(policy):
        entry = next((entry for entry in free if entry[1] == size), None)
        if entry is None:
            break
        free.remove(entry)
        numbers.append(entry[0])
    return tuple(numbers)


def _looked(rooms: Rooms, id: bytes) -> Account:
    """Returns the open account after the first looks that its policy asks for; recovery buys those that a crash has
    prevented."""
    account = known_account(rooms, rooms.ledger.account(id))
    assert account is not None
    account.look_at_opening()
    return account


def known_accounts(rooms: Rooms) -> list[Account]:
    """Returns the accounts that this bank has opened: those of the ledger whose opening is in the vault."""
    accounts = (known_account(rooms, state) for state in rooms.ledger.books.accounts())
    return [account for account in accounts if account is not None]


def known_account(rooms: Rooms, state: AccountState) -> Account | None:
    """Returns an account as the vault has saved it; None if this bank never opened it."""
    saved = own_row(rooms.ledger, rooms.vault, state)
    opening = None if saved is None else read_row(saved, state)
    if opening is None:
        return None
    row, policy, secrets = opening
    engine = engine_of(policy, tuple(row["header"]), secrets.row_key)
    if policy.cubes:
        digests = [bytes.fromhex(digest) for digest in row["cubes"]]
        engine = CubedEngine(policy, engine, lambda number: rooms.vault.cube(digests[number]))
    cubes = _numbers(policy, state.cubes)
    if len(cubes) < len(policy.cubes):  # a crash came before all were declared
        cubes = ()
    return Account(
        state.account, policy, secrets, row["identity"], engine, rooms.ledger, rooms.vault, rooms.entropy, cubes
    )


def read_row(kept: dict[str, Any], state: AccountState) -> tuple[dict[str, Any], Policy, Secrets] | None:
    """Parses what the vault has saved for an account; returns the row, its policy and its secrets. None if the account
    is not one of a table."""
    if "policy" not in kept:  # a device's account: see federated.enrolment
        return None
    policy = policy_from_public(MappingProxyType(kept["policy"]), source_from_kept(kept["source"]))
    return kept, policy, Secrets(bytes.fromhex(kept["secret"]), bytes.fromhex(kept["data_salt"]), state.version)


def _check_unknown(rooms: Rooms, policy: Policy) -> None:
    """Refuses a policy whose account is on the ledger but not in the vault: with an old vault its budget would be given
    out twice. On a chain, accounts that others have opened do not count, whatever their policy is."""
    owner = rooms.ledger.address(Role.OWNER)
    for state in rooms.ledger.books.accounts():
        ours = not rooms.ledger.shared or opened_as(rooms.ledger.books, state.account)[0] == owner
        if ours and state.policy == policy.digest and rooms.vault.opening(state.data) is None:
            raise BadBank(
                f"the ledger has an account with this very policy ({state.account.hex()[:12]}) that the vault does "
                "not know: put the newest vault back, or its budget would be given out twice"
            )


def _check_meant(policy: Policy, confirmed: Confirmed) -> None:
    """Before the table is read: checks that no mark of a draft is left in the policy, and that the table's header is
    not a row of data."""
    if not confirmed.policy:
        check_filled(policy)
    if not confirmed.header:
        check_header(policy.source)


def _check_keys(policy: Policy, inspection: Inspection) -> None:
    """Refuses a column most of whose values are not among its keys. Only the owner is told; nothing of it is saved."""
    strange = [
        name for name, unkeyed in inspection.unkeyed.items() if 2 * unkeyed > inspection.rows - inspection.missing[name]
    ]
    if strange:
        raise BadTable(
            f"{policy.source.name}: more than half of the values in column {', '.join(strange)} are none of the "
            "declared keys. Correct the keys, or say --yes if they are meant"
        )


def _check_table(policy: Policy, inspection: Inspection) -> None:
    wrong = []
    if policy.public_rows is not None and inspection.rows != policy.public_rows:
        wrong.append(f"it has {inspection.rows} rows; the policy says rows = {policy.public_rows}")
    elif inspection.rows > policy.row_cap:
        wrong.append(f"it has {inspection.rows} rows; the policy caps them at {policy.row_cap}")
    for name, missing in inspection.missing.items():
        if missing and not policy.columns[name].nullable:
            wrong.append(f"column {name} has {missing} missing or unreadable values; the policy says nullable = false")
    if wrong:
        raise BadTable(f"{policy.source.name} is not as its policy says: {'; '.join(dict.fromkeys(wrong))}")
