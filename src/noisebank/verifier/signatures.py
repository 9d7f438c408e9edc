"""Checks that the logs of a call say what its sender signed, and that the sender was entitled to the call.

A chain with consensus needs no such check. The embedded chain has one sealer, so it is made here,
without the contract's code.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from noisebank.core.errors import Tampered
from noisebank.ledger.abi import budget_ledger
from noisebank.ledger.evm import Event
from noisebank.verifier.recount import Recount, Tally

LOGGED_BY = {
    "open_account": "AccountOpened",
    "add_cube": "CubeAdded",
    "open_version": "VersionOpened",
    "set_limit": "LimitSet",
    "pause": "Paused",
    "resume": "Resumed",
    "lower_budget": "BudgetLowered",
    "propose_raise": "RaiseProposed",
    "finish_raise": "BudgetRaised",
    "propose_owner": "OwnerProposed",
    "propose_curator": "CuratorProposed",
    "accept_owner": "OwnerChanged",
    "accept_curator": "CuratorChanged",
}
CLAIM = ("id", "query", "analyst", "about", "cube", "wanted", "limit", "runs", "last")
"""Fields of a claim in calldata, in order."""


def check_call(sender: str, data: bytes, events: Sequence[Event], recount: Recount) -> None:
    """Compares a call with its logs, and its sender with the roles before the call. `Tampered` if they differ."""
    try:
        function, arguments = budget_ledger().decode_call(data)
    except ValueError as error:
        raise Tampered(f"a call cannot be read: {error}") from None
    try:
        if function in ("reserve", "reserve_many", "publish", "publish_many"):
            _check_curators(sender, function, arguments, list(events), recount)
        else:
            _check_owners(sender, function, arguments, events, recount)
    except (KeyError, ValueError, IndexError) as error:
        raise Tampered(f"{function} cannot be checked: {error}") from None


def _check_owners(
    sender: str, function: str, arguments: dict[str, Any], events: Sequence[Event], recount: Recount
) -> None:
    (event,) = events
    _must(event.name == LOGGED_BY[function], f"{event.name} is logged")
    expected = dict(arguments)
    if function == "open_account":
        expected["owner"] = sender
    else:
        _must(sender == _entitled(function, recount.accounts[expected["account"]]), f"{sender} may not call it")
    for name, value in expected.items():
        _must(event.arguments[name] == value, f"{name} is logged as {event.arguments[name]!r}, signed {value!r}")


def _entitled(function: str, tally: Tally) -> str:
    return {"accept_owner": tally.next_owner, "accept_curator": tally.next_curator}.get(function, tally.owner)


def _check_curators(
    sender: str, function: str, arguments: dict[str, Any], events: list[Event], recount: Recount
) -> None:
    account = arguments["account"]
    _must(sender == recount.accounts[account].curator, f"{sender} is not the curator")
    left = list(arguments.get("runs", ()))
    signed: list[dict[str, Any]] = []
    for row in arguments["claims" if "claims" in arguments else "seals"]:
        names = CLAIM if "claims" in arguments else ("id", "answer", "last")
        fields: dict[str, Any] = dict(zip(names, row, strict=True))
        if "runs" in fields:
            _must(fields["runs"] <= len(left), "runs are missing")
            own = fields["runs"]
            fields["runs"], left = tuple(left[:own]), left[own:]
        signed.append(fields)
    _must(not left, "runs are left over")
    _must(function in ("reserve", "publish") or not signed or signed[-1]["last"], "a group has no end")
    name = "Reserved" if "claims" in arguments else "Published"
    spent = recount.accounts[account].spent
    for group in _groups(signed, in_one=function in ("reserve", "publish")):
        if events and events[0].name == "GroupRefused" and function.endswith("_many"):
            refused = events.pop(0)
            subject = (refused.arguments["account"], refused.arguments["id"])
            _must(subject == (account, group[0]["id"]), "another group is refused")
            continue
        for fields in group:
            event = events.pop(0)
            _must(event.name == name and event.arguments["account"] == account, f"{event.name} is logged")
            limit = fields.pop("limit", None)
            for field, value in fields.items():
                _must(field == "last" or event.arguments[field] == value, f"{field} is not what was signed")
            if limit is not None:
                after: Any = event.arguments["spent"]
                _must(after - spent <= limit, "more was charged than agreed")
                spent = after
    _must(not events, "something else is logged")


def _groups(signed: list[dict[str, Any]], in_one: bool) -> list[list[dict[str, Any]]]:
    groups: list[list[dict[str, Any]]] = [[]]
    for fields in signed:
        groups[-1].append(fields)
        if fields["last"] and not in_one:
            groups.append([])
    return [group for group in groups if group]


def _must(condition: bool, otherwise: str) -> None:
    if not condition:
        raise ValueError(otherwise)
