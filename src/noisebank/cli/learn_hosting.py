"""`noisebank learn keys`, `host` and `edge`: keys, a chain and an edge worker, needed before a task is posted."""

from __future__ import annotations

import json
import signal
import threading
from pathlib import Path

import click

from noisebank.cli.learn import learn
from noisebank.cli.learn_options import LOT, MEMBER, host_and_port, listen_at
from noisebank.cli.options import as_json, guarded


@learn.command("keys")
@click.argument("folder", type=click.Path(path_type=Path))
@as_json
@guarded
def keys(folder: Path, as_json: bool) -> None:
    """Make a member's two keys in FOLDER: one signs transactions, one draws lots. Never overwrites.

    Example:  noisebank learn keys phone-7
    """
    from noisebank.cli import render as console
    from noisebank.core.entropy import SystemEntropy
    from noisebank.core.errors import BadBank
    from noisebank.federated.blockfl.sortition import LotKey
    from noisebank.ledger.signing import Key

    if (folder / MEMBER).exists() or (folder / LOT).exists():
        raise BadBank(f"{folder} holds keys already")
    source = SystemEntropy()
    key, lot = Key(source.token()), LotKey(source.token())
    key.save(folder / MEMBER)
    lot.save(folder / LOT)
    facts = {"address": key.address, "folder": str(folder)}
    console.show_json(facts) if as_json else console.facts("Keys", list(facts.items()))


@learn.command("host")
@click.argument("folder", type=click.Path(path_type=Path))
@listen_at
@as_json
@guarded
def host(folder: Path, listen: str, as_json: bool) -> None:
    """Run a chain of one's own in FOLDER, with both contracts, behind an Ethereum node's door. Made if it is not there.

    Nobody pays for anything on it. Every block is sealed and on disk before its sender hears of it; starting again
    replays and checks all of them. Ends with Ctrl-C.

    Example:  noisebank learn host chain --listen 127.0.0.1:7545
    """
    from noisebank.core.entropy import SystemEntropy
    from noisebank.federated.blockfl.dev_chain import FILE, HomeChain, begin_home_chain
    from noisebank.federated.blockfl.json_rpc import Door

    name, port = host_and_port(listen)
    chain = HomeChain(folder) if (folder / FILE).is_file() else begin_home_chain(folder, SystemEntropy())
    door = Door(chain, name, port)
    facts = {"rpc": door.url, "chain_id": chain.state.chain_id, "blocks": len(chain.state.digests),
             **door.on_noisebank_contracts()}  # fmt: skip
    _announce(facts, as_json)
    _until_told()
    door.close()
    chain.close()


@learn.command("edge")
@listen_at
@click.option("--record", type=click.Path(path_type=Path), help="Append what devices send to this file, as JSON lines.")
@as_json
@guarded
def edge(listen: str, record: Path | None, as_json: bool) -> None:
    """Run an edge worker: it trains the classifying layers and sees noisy features and labels only. Ends with Ctrl-C.

    Example:  noisebank learn edge --listen 127.0.0.1:7600
    """
    from noisebank.federated.blockfl.edge import EdgeWorker

    access = threading.Lock()

    def tap(kind: str, body: bytes) -> None:
        if record is not None:
            with access, record.open("a") as file:
                file.write(json.dumps({"kind": kind, "bytes": body.hex()}) + "\n")

    worker = EdgeWorker(*host_and_port(listen), tap)
    serving = threading.Thread(target=worker.serve, daemon=True)
    serving.start()
    _announce({"edge": worker.endpoint}, as_json)
    _until_told()
    worker.close()


def _announce(shown: dict[str, object], as_json: bool) -> None:
    """Prints one line without buffering: others wait for it."""
    click.echo(json.dumps(shown) if as_json else "  ".join(f"{name} {value}" for name, value in shown.items()))


def _until_told() -> None:
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    stop.wait()
