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
from noisebank.audit.verifier import UNSEEN_TAIL, verify
from noisebank.digests import canonical
from noisebank.entropy import workload
from noisebank.ledger.block import Block, Genesis
from noisebank.ledger.signing import Key
from noisebank.path import Account
from support import CURATOR, memory_account, write_people

FULL = 4_000


def journal() -> tuple[Account, list[str], list[dict[str, Any]]]:
    """A history with every kind of transaction that a bank makes."""
    account = memory_account(write_people(Path(tempfile.mkdtemp()), epsilon="8"))
    receipts = []
    for number in range(12):
        sql = f"SELECT COUNT(*) FROM people WHERE age > {25 + 5 * (number % 3)}"
        answer = account.ask(sql, sigma=(4, 3, 5, 3.5)[number % 4])
        receipts.append(json.loads(answer.receipt.text()))
    account.ledger.propose_raise(account.id, account.state.budget.units + 10)
    account.ledger.lower_budget(account.id, account.state.budget.units - 10)
    return account, list(account.ledger.export()), receipts


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
    return canonical(tree)


def tampering(share: float) -> Finding:
    """Field by field, block by block, and whole histories signed anew."""
    random = workload(7)
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
    structural = _structural(lines)
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
    genesis = Genesis.read(lines[0])
    block = Block.read(lines[middle], genesis.chain_id, middle - 1)
    tree = json.loads(lines[middle])
    twice = copy.deepcopy(tree)
    twice["transactions"] *= 2
    return {
        "a block dropped from the middle": lines[:middle] + lines[middle + 1 :],
        "two blocks swapped": [*lines[:middle], lines[middle + 1], lines[middle], *lines[middle + 2 :]],
        "a block replayed at the end": [*lines, lines[middle]],
        "a block replayed in place": [*lines[:middle], lines[middle], *lines[middle:]],
        "a transaction repeated": [*lines[:middle], canonical(twice), *lines[middle + 1 :]],
        "a block signed by another key": [*lines[:middle], block.sealed(stranger).line(), *lines[middle + 1 :]],
        "another spelling of the same JSON": [*lines[:middle], json.dumps(tree), *lines[middle + 1 :]],
        "a field added": [*lines[:middle], canonical({**tree, "note": "x"}), *lines[middle + 1 :]],
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
    genesis = Genesis.read(lines[0])
    made, parent = [lines[0]], genesis.digest
    for number, line in enumerate(lines[1:-2]):
        block = Block.read(line, genesis.chain_id, number)
        block = replace(block, parent=parent, time=block.time + 60).sealed(CURATOR)
        made.append(block.line())
        parent = block.digest
    return made
