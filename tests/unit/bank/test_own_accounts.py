"""Which accounts of a shared ledger are the bank's own, where an old vault does not say who opened them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from noisebank.bank.own_accounts import find_own_opening
from noisebank.core.errors import Tampered
from noisebank.ledger.protocol import Role

OWNER, CURATOR, STRANGER = "0xowner", "0xcurator", "0xstranger"
ROW = {"policy": {}}


def is_own(
    account: bytes,
    owners: dict[bytes, str],
    *,
    curator: str = CURATOR,
    charged: tuple[bytes, ...] = (),
    sealed: tuple[bytes, ...] = (),
    has_owner_key: bool = True,
) -> bool:
    """Whether the account is the bank's, of those with its data commitment; `owners` says who opened each."""
    states = {
        id: SimpleNamespace(account=id, owner=owner, curator=curator, data_commitment=b"data")
        for id, owner in owners.items()
    }
    others = SimpleNamespace(account=b"other", owner=OWNER, curator=CURATOR, data_commitment=b"other data")
    ledger = SimpleNamespace(
        is_shared=True,
        books=SimpleNamespace(list_accounts=lambda: [*states.values(), others]),
        key_address=lambda role: {Role.OWNER: OWNER, Role.CURATOR: CURATOR}[role],
        has_key=lambda role: has_owner_key,
        charged_accounts=lambda: set(charged),
    )
    vault = SimpleNamespace(
        find_opening=lambda data: ROW, sealed_ids=lambda: [(id, b"answer") for id in (*sealed, b"other")]
    )
    row = find_own_opening(cast(Any, ledger), cast(Any, vault), cast(Any, states[account]))
    assert row in (None, ROW)
    return row is not None


def test_the_only_one_is_ours_if_its_curator_is_or_we_have_charged_it() -> None:
    assert is_own(b"a", {b"a": STRANGER})
    assert not is_own(b"a", {b"a": STRANGER}, curator=STRANGER)
    assert is_own(b"a", {b"a": STRANGER}, curator=STRANGER, charged=(b"a",))
    assert is_own(b"a", {b"a": STRANGER}, curator=STRANGER, sealed=(b"a",))


@pytest.mark.parametrize("has_owner_key", [True, False])
def test_of_several_the_one_that_was_charged_is_ours(has_owner_key: bool) -> None:
    owners = {b"a": OWNER, b"b": STRANGER}
    for trace in ({"charged": (b"b",)}, {"sealed": (b"b",)}):
        assert is_own(b"b", owners, has_owner_key=has_owner_key, **trace)
        assert not is_own(b"a", owners, has_owner_key=has_owner_key, **trace)


def test_of_several_without_a_trace_the_owners_is_ours_or_nobody_can_tell() -> None:
    owners = {b"a": OWNER, b"b": STRANGER}
    assert is_own(b"a", owners) and not is_own(b"b", owners)
    for unclear in ({"has_owner_key": False}, {"charged": (b"a", b"b")}):
        with pytest.raises(Tampered, match="2 accounts on the chain"):
            is_own(b"a", owners, **unclear)
    with pytest.raises(Tampered, match="2 accounts on the chain"):
        is_own(b"a", dict.fromkeys(owners, OWNER))
