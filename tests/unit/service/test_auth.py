"""Who is let in: keys, sessions, wallets and nonces, on a clock of the test's own. The whole file takes a second."""

from __future__ import annotations

from base64 import urlsafe_b64decode
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from noisebank.core.entropy import SystemEntropy
from noisebank.core.errors import BadRequest
from noisebank.service import auth
from noisebank.service.auth import ACCESS_FILE, AccessControl
from noisebank.service.errors import ApiError
from noisebank.service.roles import ROLE_SCOPES, Person, Role, Scope

WALLET, OTHER = "0x" + "Ab" * 20, "0x" + "cd" * 20


@dataclass
class Desk:
    """Access control with a clock and limits that a test sets."""

    folder: Path
    now: float = 1_000_000.0
    limits: dict[str, int] = field(default_factory=dict)

    def open(self) -> AccessControl:
        return AccessControl(self.folder / ACCESS_FILE, SystemEntropy(), lambda: self.now, self.read_limits)

    def read_limits(self, person: Person) -> dict[str, int]:
        return dict(self.limits)


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


@pytest.fixture
def access(desk: Desk) -> Iterator[AccessControl]:
    control = desk.open()
    control.add_person("ann", Role.ANALYST)
    yield control
    control.close()


def holds(access: AccessControl, secret: str) -> str | None:
    caller = access.find_caller(secret)
    return caller and caller.person.name


def random_bytes(secret: str) -> bytes:
    token = secret[4:]
    return urlsafe_b64decode(token + "=" * (-len(token) % 4))


def test_secrets_hold_32_random_bytes_and_are_stored_nowhere(access: AccessControl, desk: Desk) -> None:
    secrets = [access.make_key("ann")[0] for _ in range(3)]
    key = access.list_keys("ann")[0].id
    secrets += [access.make_session("ann", 60, key)[0] for _ in range(2)]
    assert [secret[:4] for secret in secrets] == ["nbk_"] * 3 + ["nbs_"] * 2
    assert {len(random_bytes(secret)) for secret in secrets} == {32} and len(set(secrets)) == 5
    stored = b"".join(path.read_bytes() for path in desk.folder.iterdir())
    assert not any(secret.encode() in stored or random_bytes(secret) in stored for secret in secrets)


def test_a_key_is_its_holders_until_it_is_revoked_or_expires(access: AccessControl, desk: Desk) -> None:
    access.add_person("bob", Role.ANALYST)
    short, record = access.make_key("ann", seconds=60.9)
    other, _ = access.make_key("bob", label="laptop")
    assert (record.created, record.expires) == (1_000_000, 1_000_060) and holds(access, short) == "ann"
    assert holds(access, other) == "bob" and access.list_keys("bob")[0].label == "laptop"
    desk.now += 59.9
    assert holds(access, short) == "ann"
    desk.now += 0.2
    assert holds(access, short) is None and holds(access, other) == "bob"
    with pytest.raises(ApiError, match="no such key"):
        access.revoke_key("ann", access.list_keys("bob")[0].id)
    access.revoke_key("bob", access.list_keys("bob")[0].id)
    assert holds(access, other) is None and access.list_keys("bob")[0].revoked == 1_000_060
    assert holds(access, "nbk_unknown") is holds(access, "unknown") is holds(access, "") is None


def test_another_process_is_noticed(access: AccessControl, desk: Desk) -> None:
    secret, record = access.make_key("ann")
    assert holds(access, secret) == "ann"
    elsewhere = desk.open()
    assert holds(elsewhere, secret) == "ann"
    elsewhere.revoke_key("ann", record.id)
    elsewhere.close()
    assert holds(access, secret) is None


def test_scopes_are_those_of_the_role_at_most(access: AccessControl) -> None:
    everything, narrow = access.make_key("ann")[0], access.make_key("ann", [Scope.ASK])[0]
    caller = access.find_caller(everything)
    assert caller is not None and caller.scopes == ROLE_SCOPES[Role.ANALYST]
    caller = access.find_caller(narrow)
    assert caller is not None and caller.scopes == {Scope.ASK}
    session, _ = access.make_session("ann", 60, access.list_keys("ann")[1].id)
    caller = access.find_caller(session)
    assert caller is not None and caller.scopes == {Scope.ASK} and caller.person.name == "ann"
    beyond = next(iter(ROLE_SCOPES[Role.OWNER] - ROLE_SCOPES[Role.ANALYST]))
    with pytest.raises(BadRequest, match="more than analysts may do"):
        access.make_key("ann", [Scope.ASK, beyond])


@pytest.mark.parametrize("label", ["x" * 81, "two\nlines", "\x1b[31m"])
def test_labels_are_short_and_printable(access: AccessControl, label: str) -> None:
    with pytest.raises(BadRequest, match="at most 80 printable"):
        access.make_key("ann", label=label)
    assert access.make_key("ann", label="x" * 80)[1].label == "x" * 80 and access.make_key("ann", label="")


def test_whoever_is_disabled_is_out_and_comes_back_without_sessions(access: AccessControl) -> None:
    key, record = access.make_key("ann")
    session, _ = access.make_session("ann", 60, record.id)
    access.disable_person("ann")
    assert holds(access, key) is holds(access, session) is None
    access.enable_person("ann")
    assert holds(access, key) == "ann" and holds(access, session) is None
    with pytest.raises(BadRequest, match="cannot be disabled"):
        access.disable_person("owner")
    for change in (access.disable_person, access.enable_person, access.make_key):
        with pytest.raises(ApiError, match="nobody of this name"):
            change("eve")


def test_a_session_ends_with_time_with_its_key_and_by_itself(access: AccessControl, desk: Desk) -> None:
    (_, first), (_, second) = access.make_key("ann"), access.make_key("ann", seconds=30)
    sessions = [access.make_session("ann", 60, record.id)[0] for record in (first, first, second)]
    assert [holds(access, secret) for secret in sessions] == ["ann"] * 3
    assert [record.key for record in access.list_sessions("ann")] == [first.id, first.id, second.id]
    access.end_session(sessions[0])
    desk.now += 31
    assert [holds(access, secret) for secret in sessions] == [None, "ann", None]
    desk.now += 30
    assert holds(access, sessions[1]) is None and access.list_sessions() == ()
    later, record = access.make_session("ann", 60, first.id)
    access.revoke_key("ann", first.id)
    assert holds(access, later) is None
    with pytest.raises(ApiError, match="lets nobody in"):
        access.make_session("ann", 60, first.id)
    with pytest.raises(ApiError, match="no such session"):
        access.end_session_by_id("ann", record.id)


def test_a_session_ends_when_a_limit_is_lowered(access: AccessControl, desk: Desk) -> None:
    desk.limits = {"account": 10, "other": 5}
    _, record = access.make_key("ann")
    one, _ = access.make_session("ann", 60, record.id)
    desk.limits["account"] = 11
    assert holds(access, one) == "ann" and len(access.list_sessions()) == 1
    desk.limits["account"] = 9
    assert access.list_sessions() == () and holds(access, one) is None
    desk.limits["account"] = 10
    assert holds(access, one) is None


def test_the_oldest_of_too_many_sessions_ends(access: AccessControl, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(auth, "MAX_SESSIONS", 2)
    access.add_person("bob", Role.ANALYST)
    (_, anns), (_, bobs) = access.make_key("ann"), access.make_key("bob")
    other, _ = access.make_session("bob", 60, bobs.id)
    sessions = [access.make_session("ann", 60, anns.id)[0] for _ in range(3)]
    assert [holds(access, secret) for secret in [other, *sessions]] == ["bob", None, "ann", "ann"]
    newest = access.list_sessions("ann")[-1].id
    with pytest.raises(ApiError, match="no such session"):
        access.end_session_by_id("bob", newest)
    access.end_session_by_id(None, newest)
    assert [holds(access, secret) for secret in sessions[1:]] == ["ann", None]


def test_a_wallet_has_one_holder_and_its_sessions_go_with_it(access: AccessControl) -> None:
    access.add_person("bob", Role.ANALYST, WALLET)
    assert access.find_wallet_holder(WALLET.lower()) == access.find_wallet_holder(WALLET) == access.find_person("bob")
    session, record = access.make_session("bob", 60, wallet=WALLET)
    assert holds(access, session) == "bob" and record.wallet == WALLET.lower()
    for change in (lambda: access.set_wallet("ann", WALLET), lambda: access.add_person("eve", Role.ANALYST, WALLET)):
        with pytest.raises(ApiError, match="this wallet"):
            change()
    with pytest.raises(BadRequest, match="40 hexadecimal digits"):
        access.set_wallet("bob", "0x12")
    assert access.set_wallet("bob", WALLET).wallet == WALLET.lower() and holds(access, session) == "bob"
    access.set_wallet("bob", OTHER)
    assert holds(access, session) is None and access.find_wallet_holder(WALLET) is None
    access.set_wallet("bob", WALLET)
    assert holds(access, session) is None
    with pytest.raises(BadRequest, match="needs a wallet"):
        access.add_person("eve", Role.ANALYST, must_sign=True)


@pytest.mark.parametrize("name", ["", "-a", ".a", "a b", "a" * 65, "a\n", "ä"])
def test_names_are_plain(access: AccessControl, name: str) -> None:
    with pytest.raises(BadRequest, match="1 to 64 letters"):
        access.add_person(name, Role.ANALYST)


def test_people_are_added_once_and_there_is_one_owner(access: AccessControl, desk: Desk) -> None:
    assert access.add_person("a" * 64, Role.ANALYST).name == "a" * 64
    with pytest.raises(ApiError, match="already"):
        access.add_person("ann", Role.ANALYST)
    with pytest.raises(BadRequest, match="one owner"):
        access.add_person("boss", Role.OWNER)
    again = desk.open()
    assert [person.name for person in again.list_people()] == ["owner", "ann", "a" * 64]
    again.close()


def test_a_nonce_is_used_once_and_in_time(access: AccessControl, desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    nonce, expires = access.make_nonce(60)
    assert expires == 1_000_060 and len(bytes.fromhex(nonce)) == 16
    late, _ = access.make_nonce(60)
    desk.now = 1_000_060.0
    assert access.use_nonce(nonce) and not access.use_nonce(nonce) and not access.use_nonce("00" * 16)
    desk.now = 1_000_060.5
    assert not access.use_nonce(late)
    monkeypatch.setattr(auth, "MAX_NONCES", 2)
    nonces = [access.make_nonce(60)[0] for _ in range(3)]
    assert [access.use_nonce(each) for each in nonces] == [False, True, True]
