"""The curator plays owner, or somebody rewrites history: every change of the export is caught."""

from __future__ import annotations

import copy
import json
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from assurance.report import Finding
from noisebank import Account, verify
from support.banks import CURATOR, memory_account, write_people
from support.internals import UNSEEN_TAIL, Block, Genesis, Key, results_digest, to_canonical_json, workload_rng

FULL = 4_000


def journal() -> tuple[Account, list[str], list[dict[str, Any]]]:
    """A history with every kind of transaction that a bank makes."""
    account = memory_account(write_people(Path(tempfile.mkdtemp()), epsilon="8"))
    receipts = []
    account.ledger.set_limit(account.id, account.analyst("ann"), account.state.budget.units)
    for number in range(12):
        sql = f"SELECT COUNT(*) FROM people WHERE age > {25 + 5 * (number % 3)}"
        answer = account.ask(sql, sigma=(4, 3, 5, 3.5)[number % 4], analyst=("owner", "ann")[number % 2])
        receipts.append(json.loads(answer.receipt.to_canonical_json()))
    account.ledger.pause_account(account.id)
    account.ledger.resume_account(account.id)
    account.ledger.propose_raise(account.id, account.state.budget.units + 10)
    account.ledger.lower_budget(account.id, account.state.budget.units - 10)
    return account, list(account.ledger.export_journal()), receipts


def leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Paths to every number and text in a block."""
    if isinstance(value, dict):
        for key in value:
            yield from leaves(value[key], (*path, key))
    elif isinstance(value, list):
        for place, item in enumerate(value):
            yield from leaves(item, (*path, place))
    else:
        yield path


def changed(line: str, path: tuple[Any, ...], random: Any) -> str:
    """The line with one leaf changed a little."""
    tree = json.loads(line)
    spot = tree
    for step in path[:-1]:
        spot = spot[step]
    old = spot[path[-1]]
    if isinstance(old, int):
        spot[path[-1]] = old + random.choice((-1, 1, 10**6)) if old else 1
    elif old:
        place = random.randrange(len(old))
        sign = random.choice([c for c in "0123456789abcdef" if c != old[place]])
        spot[path[-1]] = old[:place] + sign + old[place + 1 :]
    else:
        spot[path[-1]] = "00"
    return to_canonical_json(tree)


def tampering(share: float) -> Finding:
    """Field by field, block by block, and whole histories signed anew."""
    random = workload_rng(7)
    account, lines, receipts = journal()
    trees = [json.loads(line) for line in lines]
    spots = [(number, path) for number, tree in enumerate(trees) for path in leaves(tree)]
    tries = max(40, round(FULL * share))
    missed = misnamed = 0
    # Each changed line is checked within the shortest history that contains it: what follows cannot help.
    for number in range(tries):
        line, path = spots[number % len(spots)] if share >= 1 else random.choice(spots)
        forged = [*lines[:line], changed(lines[line], path, random), *lines[line + 1 : line + 2]]
        report = verify(forged)
        # The newest block's signature alone could be another valid one of the sealer's, but not a random one.
        missed += report.passed
        misnamed += not report.passed and line > 0 and report.block != line - 1
    structural = {**_structural(lines), **_sealed_anew(lines, account.id)}
    missed += sum(verify(forged).passed for forged in structural.values())
    outside = _from_outside(account, lines, receipts)
    return Finding(
        row="the curator plays owner, or rewrites history",
        tried=f"{tries:,} changed fields; {', '.join(structural)}; {', '.join(outside)}",
        figure=f"{missed} missed, {misnamed} with the wrong block named",
        violations=missed + misnamed + sum(not seen for seen in outside.values()),
    )


def _structural(lines: list[str]) -> dict[str, list[str]]:
    middle = len(lines) // 2
    stranger = Key(b"\x07" * 32)
    genesis = Genesis.from_canonical_json(lines[0])
    block = Block.from_canonical_json(lines[middle], genesis.chain_id, middle - 1)
    tree = json.loads(lines[middle])
    twice = copy.deepcopy(tree)
    twice["block"]["transactions"] *= 2
    return {
        "a block dropped from the middle": lines[:middle] + lines[middle + 1 :],
        "two blocks swapped": [*lines[:middle], lines[middle + 1], lines[middle], *lines[middle + 2 :]],
        "a block replayed at the end": [*lines, lines[middle]],
        "a block replayed in place": [*lines[:middle], lines[middle], *lines[middle:]],
        "a transaction repeated": [*lines[:middle], to_canonical_json(twice), *lines[middle + 1 :]],
        "a block signed by another key": [
            *lines[:middle],
            block.seal_with(stranger).to_canonical_json(),
            *lines[middle + 1 :],
        ],
        "another spelling of the same JSON": [*lines[:middle], json.dumps(tree), *lines[middle + 1 :]],
        "a field added": [*lines[:middle], to_canonical_json({**tree, "note": "x"}), *lines[middle + 1 :]],
    }


def _sealed_anew(lines: list[str], account: bytes) -> dict[str, list[str]]:
    """What the curator can write with its own keys, as the newest block, and be caught from the journal alone."""
    genesis = Genesis.from_canonical_json(lines[0])
    blocks = [Block.from_canonical_json(line, genesis.chain_id, number) for number, line in enumerate(lines[1:])]
    owners = next(block for block in blocks[2:] if block.transactions[0].signature)  # a call of the owner's
    curators = next(block for block in blocks[2:] if block.balances and not block.transactions[0].signature)
    (call,), (own,) = owners.transactions, curators.transactions
    nonce = sum(not sent.signature for block in blocks[: owners.number] for sent in block.transactions)
    stranger = Key(b"\x07" * 32)
    ((name, budget, spent),) = curators.balances
    lowered = own.data[:-1] + bytes([own.data[-1] ^ 1])
    cases: dict[str, Block] = {
        "an owner's call without its signature": replace(owners, transactions=(replace(call, signature=b""),)),
        "an owner's call sent by the curator": replace(
            owners, transactions=(replace(call, signature=b"", nonce=nonce),)
        ),
        "an owner's call signed by the curator": replace(
            owners, transactions=(replace(call, nonce=nonce).sign_with(CURATOR),)
        ),
        "an owner's call signed by a stranger": replace(
            owners, transactions=(replace(call, nonce=0).sign_with(stranger),)
        ),
        "an owner's call with another argument": replace(
            owners, transactions=(replace(call, data=call.data[:-1] + bytes([call.data[-1] ^ 1])),)
        ),
        "a curator's call signed by a stranger": replace(
            curators, transactions=(replace(own, nonce=0).sign_with(stranger),)
        ),
        "a curator's call with another argument": replace(curators, transactions=(replace(own, data=lowered),)),
        "a transaction doubled": replace(curators, transactions=(own, own)),
        "a transaction added": replace(curators, transactions=(own, replace(own, nonce=own.nonce + 1))),
        "no transactions": replace(curators, transactions=()),
        "another result": replace(curators, results=results_digest([()])),
        "the result of another block": replace(curators, results=owners.results),
        "no balances": replace(curators, balances=()),
        "less spent": replace(curators, balances=((name, budget, max(0, spent - 1)),)),
        "a larger budget": replace(curators, balances=((name, budget + 1, spent),)),
        "another account's balance": replace(curators, balances=((bytes(32), budget, spent),)),
    }
    assert name == account and spent, "a block that charges"
    return {
        what: [*lines[: block.number + 1], block.seal_with(CURATOR).to_canonical_json()]
        for what, block in cases.items()
    }


def _from_outside(account: Account, lines: list[str], receipts: list[dict[str, Any]]) -> dict[str, bool]:
    """What only a pinned head or a receipt can show, and that the report says so without them."""
    head = account.ledger.head().digest.hex()
    cut = lines[:-6]
    rewritten = _rewritten(lines)
    seen = {
        "a cut tail against a head": not verify(cut, head=head).passed,
        "a cut tail against a receipt": not verify(cut, receipts=[receipts[-1]]).passed,
        "an old copy against a head": not verify(lines[:5], head=head).passed,
        "a history signed anew against a head": not verify(rewritten, head=head).passed,
        "a history signed anew against a receipt": not verify(rewritten, receipts=[receipts[0]]).passed,
    }
    unseen = [verify(history) for history in (cut, rewritten)]
    said = all(report.passed and UNSEEN_TAIL in report.cannot_see for report in unseen)
    honest = verify(lines, head=head, receipts=receipts)
    return {**seen, "both unseen alone, and the report says so": said, "the honest journal passes": honest.passed}


def _rewritten(lines: list[str]) -> list[str]:
    """All but the last two blocks with other times, sealed anew with the curator's own key."""
    genesis = Genesis.from_canonical_json(lines[0])
    made, parent = [lines[0]], genesis.digest
    for number, line in enumerate(lines[1:-2]):
        block = Block.from_canonical_json(line, genesis.chain_id, number)
        block = replace(block, parent=parent, time=block.time + 60).seal_with(CURATOR)
        made.append(block.to_canonical_json())
        parent = block.digest
    return made
