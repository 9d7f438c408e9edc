"""A process to be killed: opens a bank, asks, and writes a line for each answer that it was given.

    python tests/assurance/ask_once.py BANKDIR KEY [SIGMA [SQL]]

With --serve it reads jobs from standard input and forks a child for each: everything is imported once,
and a kill costs milliseconds instead of a start of Python.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import sys
import time
import traceback
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import asdict
from fractions import Fraction
from pathlib import Path
from typing import Any

if not __package__:  # started as a script
    sys.path[0] = str(Path(__file__).parents[1])

import duckdb  # noqa: F401  # imported before the fork, with all that the path imports lazily
import opendp.prelude  # noqa: F401

from assurance.planting import plant_bug
from noisebank import Account, Bank
from support.internals import Block, Case, Genesis, Ledger, Replay, Reservation, Vault, settle

SQL, SIGMA = "SELECT AVG(income) FROM people", "55"
PR_SET_PTRACER, ANYBODY = 0x59616D61, ctypes.c_ulong(-1)


def say(out: int, line: dict[str, Any]) -> None:
    """One line, one write: it is there as a whole or not at all, whoever gets killed."""
    os.write(out, json.dumps(line).encode() + b"\n")


def run(job: dict[str, Any], out: int) -> None:
    """Opens the bank, asks everything in the job, closes it."""
    # A job of repeats seals nothing; that the bug has run is seen by the process that kills this one.
    planted = (
        plant_bug("noisebank.account.completion", "settle", hasty(out), must_run=False)
        if job.get("planted")
        else nullcontext()
    )
    with planted, Bank(Path(job["folder"])) as bank:
        say(out, {"recovered": {name: asdict(found) for name, found in bank.recovered.items()}})
        account = bank.account()
        for key, sql, sigma in job["asks"]:
            say(out, {"asking": key})
            answer = account.ask(sql, sigma=sigma, key=key)
            shown = {"exact": str(answer.exact), "case": answer.case.name, "cost": answer.cost.units}
            say(out, {"answered": key, **shown, "receipt": answer.receipt.to_canonical_json()})
        if job.get("books"):
            say(out, {"books": books(bank, account)})
    say(out, {"closed": True})


def books(bank: Bank, account: Account) -> dict[str, Any]:
    """What the ledger says, and what a fresh replay of the exported journal says."""
    lines = bank.export()
    replay = Replay(Genesis.from_canonical_json(next(lines)))
    for number, line in enumerate(lines):
        replay.apply_block(Block.from_canonical_json(line, replay.genesis.chain_id, number))
    state = replay.books.find_account(account.id)
    assert state is not None
    reservations = account.ledger.list_reservations(account.id)
    return {
        "spent": account.state.spent.units,
        "replayed": state.spent.units,
        "same head": replay.head == bank.head(),
        "fresh": [reservation.fresh_precision.units for reservation in reservations],
        "unpublished": sum(not reservation.is_finished for reservation in reservations),
        "unsealed": sum(
            (account.vault.find_answer(reservation.id) is None) != (reservation.case is Case.REPEAT)
            for reservation in reservations
        ),
    }


def hasty(out: int) -> Any:
    """The planted bug: the answer is shown before it is sealed and published."""

    def early(reservations: Sequence[Reservation], vault: Vault, ledger: Ledger, draw: Any) -> Any:
        def show_drawn(unsealed: Sequence[Reservation]) -> Any:
            drawn = draw(unsealed)
            for reservation, sealed in zip(unsealed, drawn, strict=True):
                request = vault.find_request(reservation.id)
                assert request is not None
                exact = sealed.values[0].exact * Fraction(sealed.body["unit"])
                shown = {"exact": str(exact), "case": reservation.case.name}
                say(out, {"answered": request.key, **shown, "cost": reservation.fresh_precision.units, "receipt": ""})
                time.sleep(0.01)  # as if the disk were slow: a random kill should find this gap
            return drawn

        return settle(reservations, vault, ledger, show_drawn)

    return early


def serve() -> None:
    """One child at a time; says its process id, then how it ended."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
    for line in sys.stdin:
        job = json.loads(line)
        child = os.fork()
        if child == 0:
            _child(job)
        print(child, flush=True)
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


def _child(job: dict[str, Any]) -> None:
    code = 1
    try:
        if job.get("hold"):  # until a tracer is there, which need not be an ancestor
            ctypes.CDLL(None).prctl(PR_SET_PTRACER, ANYBODY, 0, 0, 0)
            signal.sigwait({signal.SIGUSR1})
        run(job, os.open(job["out"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600))
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


if __name__ == "__main__":
    if sys.argv[1:] == ["--serve"]:
        serve()
    else:
        folder, key, sigma, sql = [*sys.argv[1:], *(SIGMA, SQL)[len(sys.argv) - 3 :]]
        run({"folder": folder, "asks": [[key, sql, sigma]]}, sys.stdout.fileno())
