"""A chain is open to everybody: strangers copy a bank's commitments into accounts of their own, and gain nothing."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest

from chain.gateway import CURATOR, STRANGER, fund
from contract.node import Node, node_or_skip
from noisebank import create_bank, open_bank, read_policy
from noisebank.ledger.protocol import Role
from support.banks import write_people
from support.internals import (
    VAULT,
    AccountState,
    BudgetExhausted,
    ChainConfig,
    ChainLedger,
    Key,
    Tampered,
    deploy_contract,
    enrol,
    local_account,
)

OVER_30 = "SELECT COUNT(*) FROM people WHERE age > 30"
RICH = 2**90


class Town:
    """A contract on a node, a bank that uses it, and a stranger."""

    def __init__(self, folder: Path, node: Node) -> None:
        fund(node, CURATOR, STRANGER)
        made = deploy_contract(node.url, CURATOR)
        self.where = ChainConfig(made.url, made.contract, made.chain_id, made.deployment_block, 1)
        self.folder, self.policy = folder / "bank", write_people(folder, epsilon="1")
        create_bank(self.folder, where=self.where)
        self.next = Key(b"\x09" * 32)
        self.next.save(self.folder / "keys" / "curator-next.key")
        self.owner, self.curator = (Key.load(self.folder / "keys" / f"{role}.key") for role in ("owner", "curator"))
        fund(node, self.owner, self.curator, self.next)

    def copy(self, state: AccountState, curator: str) -> bytes:
        """The stranger opens an account with everything copied but the budget."""
        return self.open_as_stranger(curator, state.unit.value, state.policy_digest, state.data_commitment)

    def open_as_stranger(self, curator: str, unit: int, policy: bytes, data: bytes) -> bytes:
        chain = ChainLedger(self.where, {Role.OWNER: STRANGER, Role.CURATOR: STRANGER}, ":memory:", poll_seconds=0.01)
        try:
            opened = chain._call_contract(Role.OWNER, "open_account", curator, unit, RICH, policy, data, 0)
        finally:
            chain.close()
        found = opened.arguments["account"]
        assert isinstance(found, bytes)
        return found

    def forget_who_opened(self) -> None:
        """As a vault of an earlier version: its rows do not say who opened an account."""
        vault = apsw.Connection(str(self.folder / VAULT))
        for data, body in list(vault.execute("SELECT data, body FROM openings")):
            fields = json.loads(body)
            assert fields.pop("opened_by", None) is not None
            vault.execute("UPDATE openings SET body = ? WHERE data = ?", (json.dumps(fields), data))
        vault.close()


@pytest.fixture
def town(tmp_path: Path) -> Iterator[Town]:
    with node_or_skip() as node:
        yield Town(tmp_path, node)


@pytest.mark.parametrize("names", ["the bank's curator", "its own"])
def test_a_copied_commitment_brings_no_account_and_no_budget(town: Town, names: str) -> None:
    with open_bank(town.folder) as bank:
        account = bank.open_account(town.policy)
        own, state = account.id, account.state
        device = enrol(bank.parts, "phone", "2")
    curator = town.curator.address if names == "the bank's curator" else STRANGER.address
    copies = [town.copy(state, curator) for _ in range(2)]
    with open_bank(town.folder) as bank:
        copies.append(town.copy(bank.ledger.get_account(device.id), curator))
        bank.ledger.refresh()
        assert all(bank.ledger.books.find_account(copy) is not None for copy in copies)
        account = bank.account("people")
        assert account.id == own and len(bank.accounts()) == 1
        assert local_account(bank.parts, "phone").id == device.id
        account.ask(OVER_30, epsilon="0.9", delta="1e-6")
        with pytest.raises(BudgetExhausted):  # the budget of the policy, not the stranger's
            account.ask(OVER_30, sigma="0.1")
        assert not any(bank.ledger.books.count_reservations(copy) for copy in copies)


def test_strangers_keep_nobody_from_a_new_curator(town: Town) -> None:
    with open_bank(town.folder) as bank:
        account = bank.open_account(town.policy)
        town.copy(account.state, town.curator.address)
        bank.ledger.refresh()
        address, moved = bank.rotate_curator()
        assert moved == 1 and account.state.curator == address == town.next.address
        assert [each.owner for each in bank.ledger.books.list_accounts() if each.curator == town.curator.address] == [
            STRANGER.address
        ]


def test_a_policy_that_a_stranger_has_used_before_can_still_be_opened(town: Town) -> None:
    policy = read_policy(town.policy)
    copied = town.open_as_stranger(town.curator.address, 2, policy.digest, b"\x05" * 32)
    with open_bank(town.folder) as bank:
        assert bank.ledger.books.find_account(copied) is not None
        assert bank.open_account(town.policy).id != copied


def test_rows_of_an_earlier_version_go_by_what_was_charged_and_by_the_owner(town: Town) -> None:
    with open_bank(town.folder) as bank:
        account = bank.open_account(town.policy)
        own, state = account.id, account.state
    town.copy(state, town.curator.address)
    town.forget_who_opened()
    with open_bank(town.folder) as bank:  # the owner's key is here
        assert bank.account("people").id == own
        bank.account("people").ask(OVER_30, epsilon="0.1", delta="1e-6")
    (town.folder / "keys" / "owner.key").rename(town.folder.parent / "owner.key")
    with open_bank(town.folder) as bank:  # it has charged one of them
        assert bank.account("people").id == own


def test_a_row_of_an_earlier_version_with_two_accounts_and_no_trace_is_refused(town: Town) -> None:
    with open_bank(town.folder) as bank:
        state = bank.open_account(town.policy).state
    town.copy(state, town.curator.address)
    town.forget_who_opened()
    away = town.folder.parent / "owner.key"
    (town.folder / "keys" / "owner.key").rename(away)
    with pytest.raises(Tampered, match="owner's key"):
        open_bank(town.folder)
    with open_bank(town.folder, away) as bank:
        assert bank.account("people").id == state.account
