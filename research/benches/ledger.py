"""How fast the ledger is, against the bare disk and the bare machine, in one run.

A spend here is reserve, seal, publish: two blocks and a vault row, each on disk before the next
step. What is replayed is a journal of such spends, half of its transactions reservations, half publications, in blocks
of 64. No SQL is parsed and no data is read: this is the ledger's share of an answer.
"""

from __future__ import annotations

import os
import tempfile
import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from noisebank.core.digests import keccak
from noisebank.core.durability import PendingItem
from noisebank.core.entropy import SystemEntropy
from noisebank.core.records import CellRun
from noisebank.core.units import Precision
from noisebank.ledger.block import Block, Genesis
from noisebank.ledger.embedded import ContractCall, EmbeddedLedger, create_chain
from noisebank.ledger.encoding import encode_publish, encode_reserve
from noisebank.ledger.evm import Log
from noisebank.ledger.journal import Journal
from noisebank.ledger.protocol import AccountOpening, Claim, Role, Seal
from noisebank.ledger.replay import Replay
from noisebank.ledger.rpc import ChainLedger, deploy_contract
from noisebank.ledger.signing import Key
from noisebank.service.interpreter import tune_interpreter
from noisebank.vault.sqlite_vault import SqliteVault
from noisebank.vault.vault import SealedAnswer
from noisebank.verifier.verification import verify_chain
from research.benches.anvil import anvil_binary, fund, running_anvil

CURATOR, OWNER = Key(b"\x01" * 32), Key(b"\x02" * 32)
KEYS = {Role.CURATOR: CURATOR, Role.OWNER: OWNER}
BUDGET = Precision(10**27)
ANALYST = keccak(b"an analyst")
CELLS = 1024
Moved = Callable[[int, int], None]


def bench_ledger(quick: bool = False, moved: Moved = lambda done, total: None) -> dict[str, Any]:
    """All figures of `python -m research bench ledger`."""
    tune_interpreter()  # long turns suit threads that only commit; `noisebank serve` takes shorter ones
    scale = 5 if quick else 1
    with tempfile.TemporaryDirectory(dir=Path.cwd(), prefix=".bench-") as room:
        folder = Path(room)
        fsyncs = fsync_per_s(folder)
        moved(1, 6)
        alone = spends_per_s(folder / "one", 1, 2.0 / scale)
        moved(2, 6)
        many = spends_per_s(folder / "many", 32, 4.0 / scale)
        moved(3, 6)
    plain, cells = _replay_rates(40_000 // scale, 6_000 // scale)
    moved(4, 6)
    found: dict[str, Any] = {
        "fsync_per_s": round(fsyncs),
        "embedded_spends_per_s": {"1": round(alone), "32": round(many)},
        "askers_ratio": round(many / alone, 2),
        "replay_tx_per_s": round(plain),
        "replay_cell_runs_per_s": round(cells),
        "rpc_records_per_s": None,
        "verify_records_per_s": None,
    }
    if anvil_binary() is None:
        found["note"] = "anvil is not here, so nothing was measured over RPC"
        return found
    records = 10_000 // scale
    rpc, verified = rpc_rates(records)
    moved(6, 6)
    return found | {
        "rpc_records_per_s": round(rpc),
        "verify_records_per_s": round(records / verified),
        "verified_records": records,
        "verify_seconds": round(verified, 2),
    }


def fsync_per_s(folder: Path, seconds: float = 0.5) -> float:
    """Appending a page and waiting for the disk: the bare operation."""
    with (folder / "bare").open("wb", buffering=0) as file:
        start, done = time.perf_counter(), 0
        while time.perf_counter() - start < seconds:
            file.write(b"\0" * 4096)
            os.fdatasync(file.fileno())
            done += 1
        return done / (time.perf_counter() - start)


def spends_per_s(folder: Path, askers: int, seconds: float) -> float:
    """Answers sealed and published a second, by this many threads, on disk."""
    folder.mkdir()
    entropy = SystemEntropy()
    journal, vault = Journal(folder / "journal.sqlite"), SqliteVault(folder / "vault.sqlite")
    create_chain(journal, CURATOR, entropy)
    chain = EmbeddedLedger(journal, KEYS)
    account = _account(chain)
    done = [0] * askers
    until = time.perf_counter() + seconds

    def work(asker: int) -> None:
        while time.perf_counter() < until:
            id = keccak(b"%d %d" % (asker, done[asker]))
            (reservation,) = chain.reserve(_claim(account, id))
            body = {"wanted": reservation.target.units, "value": [int.from_bytes(id[:4], "big"), 0]}
            sealed = SealedAnswer(id, account, reservation.query, body, entropy.token())
            vault.seal(sealed)
            chain.publish(account, Seal(id, sealed.digest))
            done[asker] += 1

    start = time.perf_counter()
    threads = [threading.Thread(target=work, args=(asker,)) for asker in range(askers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    rate = sum(done) / (time.perf_counter() - start)
    chain.close()
    vault.close()
    return rate


def _replay_rates(plain: int, cells: int) -> tuple[float, float]:
    entropy = SystemEntropy()
    journal = Journal(":memory:")
    create_chain(journal, CURATOR, entropy)
    chain = EmbeddedLedger(journal, KEYS)
    account = _account(chain)
    chain.add_cube(account, CELLS)
    opening = len(list(chain.export_journal()))
    ids = [keccak(b"plain %d" % place) for place in range(plain // 2)]
    for start in range(0, len(ids), 64):  # as a busy bank writes them: reserved together, then published together
        some = ids[start : start + 64]
        _fill(chain, [encode_reserve((_claim(account, id),)) for id in some])
        _fill(chain, [encode_publish(account, (Seal(id, keccak(b"answer", id)),)) for id in some])
    between = len(list(chain.export_journal()))
    claims = [_claim(account, keccak(b"cell %d" % place), *_run(place)) for place in range(cells)]
    for start in range(0, cells, 64):
        _fill(chain, [encode_reserve((claim,)) for claim in claims[start : start + 64]])
    lines = list(chain.export_journal())
    state = Replay(Genesis.from_canonical_json(lines[0]))
    _apply(state, lines[1:opening], 0)
    plain_rate = plain / _apply(state, lines[opening:between], opening - 1)
    cell_rate = cells / _apply(state, lines[between:], between - 1)
    chain.close()
    return plain_rate, cell_rate


def _apply(state: Replay, lines: list[str], first: int) -> float:
    """Seconds to read and execute blocks with every check."""
    start = time.perf_counter()
    for number, line in enumerate(lines, first):
        state.apply_block(Block.from_canonical_json(line, state.genesis.chain_id, number))
    return time.perf_counter() - start


def _fill(chain: EmbeddedLedger, calls: Iterable[bytes]) -> None:
    """One block, as a busy bank makes them, without the threads."""
    waiting: list[PendingItem[ContractCall, tuple[Log, ...]]] = [
        PendingItem(ContractCall(CURATOR, data)) for data in calls
    ]
    chain._commit_block(waiting)


def rpc_rates(records: int) -> tuple[float, float]:
    """Reservations a second in batches over RPC, and the seconds to verify them from the node alone."""
    with running_anvil("--prune-history") as url:
        fund(url, CURATOR.address, OWNER.address)
        where = deploy_contract(url, CURATOR)
        chain = ChainLedger(where, KEYS, ":memory:", poll_seconds=0.002)
        account = _account(chain)
        claims = [_claim(account, keccak(b"rpc %d" % place)) for place in range(records)]
        start = time.perf_counter()
        with ThreadPoolExecutor(256) as askers:
            list(askers.map(chain.reserve, claims))
        rate = records / (time.perf_counter() - start)
        chain.close()
        start = time.perf_counter()
        report = verify_chain(url, where.contract, first=where.deployment_block)
        seconds = time.perf_counter() - start
        if not report.passed or report.accounts[0].reserved != records:
            raise AssertionError(f"the benchmark's own books do not verify: {report.problem}")
        return rate, seconds


def _account(chain: EmbeddedLedger | ChainLedger) -> bytes:
    account = chain.open_account(AccountOpening(BUDGET, bytes(32), bytes(32), 0))
    chain.set_limit(account, ANALYST, BUDGET.units)
    return account


def _claim(account: bytes, id: bytes, cube: int = 0, runs: tuple[CellRun, ...] = ()) -> Claim:
    """A first answer to a query of its own, by an analyst with a limit."""
    return Claim(account, id, keccak(b"query", id), ANALYST, 1, Precision(10**12), BUDGET, cube, runs)


def _run(place: int) -> tuple[int, tuple[CellRun, ...]]:
    words = keccak(b"run %d" % place)
    low, high = sorted((int.from_bytes(words[:4], "big") % CELLS, int.from_bytes(words[4:8], "big") % CELLS))
    return 1, (CellRun(low, high + 1),)
