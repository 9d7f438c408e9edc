"""Whoever is shut out is out: a session ends with its key, wallet, limit and person, at the next request anywhere."""

from __future__ import annotations

from collections import Counter as Count
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

from assurance.report import Finding
from noisebank.service import auth as access_module
from noisebank.service.roles import Role
from support.internals import SESSION_COOKIE, AccessControl
from support.service import COUNT, Counter, counter

ROW = "a session outlives what made it"
PEOPLE, PLANTED = 250, 1
"""For each way to shut somebody out."""
WAYS = ("key revoked", "wallet taken", "limit lowered", "person disabled")
LIVE_WITHOUT_ORIGIN = """FROM sessions s JOIN people p ON p.name = s.person LEFT JOIN keys k ON k.id = s.key
WHERE s.expires > :now"""
"""The planted bug: how sessions were looked up before."""


@dataclass(frozen=True)
class Visitor:
    """Somebody with a key, a wallet and a session by each."""

    name: str
    key: str
    by_key: str
    by_wallet: str


def enter(desk: Counter, number: int) -> Visitor:
    """Somebody new with a limit."""
    name, wallet = f"visitor{number}", f"0x{number + 1:040x}"
    person = desk.access.add_person(name, Role.ANALYST, wallet)
    desk.app.state.operations.set_limit("people", person, "1")
    _, key = desk.access.make_key(name)
    by_key, _ = desk.access.make_session(name, 3_600, key=key.id)
    by_wallet, _ = desk.access.make_session(name, 3_600, wallet=wallet)
    return Visitor(name, key.id, by_key, by_wallet)


def shut_out(desk: Counter, visitor: Visitor, way: str) -> tuple[str, ...]:
    """By the owner, over HTTP; returns the sessions that must be over."""
    path, owner = f"/v1/analysts/{visitor.name}", desk.headers("owner")
    both = visitor.by_key, visitor.by_wallet
    if way == "key revoked":
        done, over = desk.client.delete(f"{path}/keys/{visitor.key}", headers=owner), both[:1]
    elif way == "wallet taken":
        done, over = desk.client.put(f"{path}/wallet", json={"wallet": None}, headers=owner), both[1:]
    elif way == "limit lowered":
        done, over = desk.client.put(f"{path}/limits/people", json={"epsilon": "0.5"}, headers=owner), both
    else:
        done, over = desk.client.post(f"{path}/disable", headers=owner), both
    assert done.status_code < 300, done.text
    return over


def opens(desk: Counter, session: str, name: str) -> int:
    """At how many doors a session is still let in: as a bearer token and as a cookie, to look and to ask."""
    wish = {"sql": COUNT, "epsilon": "0.01", "delta": "1e-6"}
    answers, known = "/v1/datasets/people/answers", 0
    for headers in ({"authorization": f"Bearer {session}"}, {"cookie": f"{SESSION_COOKIE}={session}"}):
        said = [
            desk.client.get("/v1/me", headers=headers),
            desk.client.post("/v1/datasets/people/quotes", json=wish, headers=headers),
            desk.client.post(answers, json=wish, headers=headers | {"idempotency-key": name}),
            desk.client.get("/d/people/console", headers=headers),
        ]
        known += sum(each.status_code == 200 for each in said)
    return known


def attempt(folder: Path, people: int) -> Count[str]:
    """How often a session was let in by each way although it was over; `AssertionError` if it never was let in."""
    found: Count[str] = Count()
    with counter(folder) as desk:
        for number in range(people * len(WAYS)):
            visitor, way = enter(desk, number), WAYS[number % len(WAYS)]
            assert opens(desk, visitor.by_key, visitor.name) == opens(desk, visitor.by_wallet, visitor.name) == 8
            for session in shut_out(desk, visitor, way):
                found[way] += opens(desk, session, visitor.name)
    return found


def without_origin(stack: ExitStack) -> None:
    """Sessions as they were: looked up by themselves, and ended by nothing."""
    real = AccessControl._write_row

    def run(self: AccessControl, sql: str, values: tuple[Any, ...]) -> None:
        if not sql.startswith("DELETE FROM sessions WHERE person"):
            real(self, sql, values)

    stack.enter_context(patch.object(access_module, "LIVE_SESSIONS", LIVE_WITHOUT_ORIGIN))
    stack.enter_context(patch.object(AccessControl, "_write_row", run))
    stack.enter_context(patch.object(AccessControl, "_limits_still_hold", lambda self, person, limits: True))


def revoked_person(share: float) -> Finding:
    """One row of the assurance table."""
    people = max(1, round(share * PEOPLE))
    with TemporaryDirectory() as name:
        found = attempt(Path(name), people)
    with TemporaryDirectory() as name, ExitStack() as stack:
        without_origin(stack)
        planted = attempt(Path(name), PLANTED)
    total = sum(found.values())
    return Finding(
        ROW, f"{people * len(WAYS):,} people shut out in {len(WAYS)} ways, at 8 doors each",
        f"{total} requests let in afterwards", total,
        {f"a session looked up without its origin, {way}": planted[way] > 0 for way in WAYS},
    )  # fmt: skip
