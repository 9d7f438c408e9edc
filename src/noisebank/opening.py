"""Opening an account: the one time that the owner's table is looked at as a whole."""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType

from noisebank.digests import commitment
from noisebank.entropy import Entropy
from noisebank.errors import BadBank, BadRequest, BadTable
from noisebank.ledger.chain import Chain
from noisebank.ledger.protocol import AccountState, Opening
from noisebank.measuring.engine import Inspection
from noisebank.measuring.engines import columns_of, engine_of
from noisebank.path import Account
from noisebank.policy import Neighbours, Policy, kept_source, policy_from_public, source_from_kept
from noisebank.privacy.calibration import budget_precision
from noisebank.queries.derived import check_queries
from noisebank.salts import Secrets
from noisebank.vault.vault import Vault


@dataclass(frozen=True, slots=True)
class Rooms:
    """The parts that accounts share."""

    ledger: Chain
    vault: Vault
    entropy: Entropy


def open_account(rooms: Rooms, policy: Policy) -> tuple[Account, Inspection]:
    """Checks the table against its policy, then opens its account on the ledger.

    The vault keeps salts and policy first, under the data commitment; the ledger's account names
    that commitment. So a crash in between leaves an unused row and no half-open account.
    """
    if any(account.name == policy.name for account in known_accounts(rooms)):
        raise BadRequest("name", policy.name, "is already an account of this bank; a table has one budget")
    _check_unknown(rooms, policy)
    check_queries(policy)
    header = columns_of(policy.source)
    secrets = Secrets(rooms.entropy.token(), rooms.entropy.token())
    engine = engine_of(policy, header, secrets.row_key)
    identity = engine.identity()
    inspection = engine.inspect()
    _check_table(policy, inspection)
    data = commitment(secrets.data_salt, engine.fingerprint(secrets.data_salt))
    if engine.identity() != identity:
        raise BadTable(f"{policy.source.name} changed while it was being opened")
    rooms.vault.save_opening(
        data,
        {
            "policy": policy.public(),
            "source": kept_source(policy.source),
            "header": list(header),
            "identity": identity,
            "secret": secrets.secret.hex(),
            "data_salt": secrets.data_salt.hex(),
        },
    )
    budget = budget_precision(policy.epsilon, policy.delta)
    id = rooms.ledger.open_account(Opening(budget, policy.digest, data, policy.raise_delay))
    account = known_account(rooms, rooms.ledger.account(id))
    assert account is not None
    return account, inspection


def known_accounts(rooms: Rooms) -> list[Account]:
    """The accounts that both the ledger and the vault know."""
    found = (known_account(rooms, state) for state in rooms.ledger.books.accounts())
    return [account for account in found if account is not None]


def known_account(rooms: Rooms, state: AccountState) -> Account | None:
    """An account from what the vault keeps for it; None if this vault never held it."""
    kept = rooms.vault.opening(state.data)
    if kept is None or "policy" not in kept:  # not this vault's, or a device's: see federated.enrolment
        return None
    policy = policy_from_public(MappingProxyType(kept["policy"]), source_from_kept(kept["source"]))
    secrets = Secrets(bytes.fromhex(kept["secret"]), bytes.fromhex(kept["data_salt"]))
    engine = engine_of(policy, tuple(kept["header"]), secrets.row_key)
    return Account(state.account, policy, secrets, kept["identity"], engine, rooms.ledger, rooms.vault, rooms.entropy)


def _check_unknown(rooms: Rooms, policy: Policy) -> None:
    """An old vault may have forgotten the account; its budget must not be given out twice."""
    for state in rooms.ledger.books.accounts():
        if state.policy == policy.digest and rooms.vault.opening(state.data) is None:
            raise BadBank(
                f"the ledger has an account with this very policy ({state.account.hex()[:12]}) that the vault does "
                "not know: put the newest vault back, or its budget would be given out twice"
            )


def _check_table(policy: Policy, inspection: Inspection) -> None:
    wrong = []
    if policy.neighbours is Neighbours.REPLACE_ONE and inspection.rows != policy.row_cap:
        wrong.append(f"it has {inspection.rows} rows; the policy says rows = {policy.row_cap}")
    elif inspection.rows > policy.row_cap:
        wrong.append(f"it has {inspection.rows} rows; the policy caps them at {policy.row_cap}")
    for name, missing in inspection.missing.items():
        if missing and not policy.columns[name].nullable:
            wrong.append(f"column {name} has {missing} missing or unreadable values; the policy says nullable = false")
    if wrong:
        raise BadTable(f"{policy.source.name} is not as its policy says: {'; '.join(dict.fromkeys(wrong))}")
