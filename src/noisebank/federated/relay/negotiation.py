"""Negotiation of a plan between a host and its members: entries, seeds, plan, consent. No vector is sent here."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from noisebank.core.errors import NoisebankError, Refused, kind_of
from noisebank.federated.relay.attempt import read_entry
from noisebank.federated.relay.messages import Message, to_printable
from noisebank.federated.relay.plan import MemberEntry, RelayPlan, make_plan, seed_commitment
from noisebank.federated.relay.terms import RelayTerms

Replies = dict[str, Message | NoisebankError]
AskAll = Callable[[str, dict[str, Any], int], Replies]
"""Sends kind, body and attempt to every member; returns a reply or the error for each."""
LeaveOut = Callable[[str, str], None]


def negotiate_plan(
    terms: RelayTerms,
    round_id: str,
    attempt: int,
    host_key: bytes,
    members: dict[str, str],
    ask_all: AskAll,
    leave_out: LeaveOut,
    show_plan: Callable[[RelayPlan], None],
) -> RelayPlan | None:
    """Negotiate once with `members` (address: endpoint). Returns the plan if all consent to it; None if somebody
    dropped out, who is then left out. `show_plan` is called before anyone is asked to consent."""

    def ask_members(kind: str, body: dict[str, Any], read: Callable[[Message], Any]) -> tuple[Replies, dict[str, Any]]:
        replies = ask_all(kind, body, attempt)
        return replies, _read_replies(replies, read, leave_out)

    replies, entries = ask_members("open", {}, lambda reply: _check_entry(reply, round_id, attempt, members))
    if len(entries) < len(members):
        return None
    signed = [reply.encode().hex() for reply in replies.values() if isinstance(reply, Message)]
    roster = {"entries": signed, "host_key": host_key.hex()}
    _, seeds = ask_members("roster", roster, lambda reply: _check_seed(reply, entries[reply.sender]))
    if len(seeds) < len(members):
        return None
    order = list(entries)
    revealed = [seeds[who] for who in order]
    plan = make_plan(terms, round_id, attempt, [entries[who] for who in order], revealed, host_key)
    show_plan(plan)
    _, consents = ask_members(
        "plan", {"seeds": [seed.hex() for seed in revealed]}, lambda reply: _check_consent(reply, plan)
    )
    return plan if len(consents) == len(members) else None


def _read_replies(replies: Replies, read: Callable[[Message], Any], leave_out: LeaveOut) -> dict[str, Any]:
    """Returns what could be read by address; members whose reply could not be read are left out from now on."""
    results: dict[str, Any] = {}
    for address, reply in replies.items():
        try:
            if not isinstance(reply, Message):
                raise reply
            results[address] = read(reply)
        except (NoisebankError, KeyError, TypeError, ValueError) as error:
            leave_out(address, str(error) or kind_of(error))
    return results


def _check_entry(reply: Message, round_id: str, attempt: int, members: dict[str, str]) -> MemberEntry:
    entry = read_entry(reply.encode(), round_id, attempt)
    if entry.endpoint != members[entry.address]:
        raise Refused("listens elsewhere than it joined from")
    return entry


def _check_seed(reply: Message, entry: MemberEntry) -> bytes:
    seed = bytes.fromhex(reply.body["seed"])
    if reply.kind != "reveal" or seed_commitment(seed) != entry.commitment:
        raise Refused("did not reveal the seed that it was bound to")
    return seed


def _check_consent(reply: Message, plan: RelayPlan) -> bool:
    if reply.kind == "leave":
        raise Refused(f"left: {to_printable(reply.body.get('reason', ''))}")
    if reply.kind != "ready" or reply.body.get("plan") != plan.digest.hex():
        raise Refused("agreed to another plan")
    return True
