"""`noisebank learn keys`, `host` and `edge`: keys, a chain and an edge worker, needed before a task is posted."""

from __future__ import annotations

import json
import signal
import threading
from pathlib import Path

import click

from noisebank.cli.learn import learn_group
from noisebank.cli.learn_options import LOT_KEY_FILE, MEMBER_KEY_FILE, explain_busy_port, listen_option, parse_endpoint
from noisebank.cli.options import handle_errors, json_option


@learn_group.command("keys")
@click.argument("folder", type=click.Path(path_type=Path))
@json_option
@handle_errors
def make_member_keys(folder: Path, as_json: bool) -> None:
    """Make a member's two keys in FOLDER: one signs transactions, one draws lots. Never overwrites.

    Example:  noisebank learn keys phone-7
    """
    from noisebank.cli import render
    from noisebank.core.entropy import SystemEntropy
    from noisebank.core.errors import BadBank
    from noisebank.federated.blockfl.sortition import SortitionKey
    from noisebank.ledger.signing import Key

    if (folder / MEMBER_KEY_FILE).exists() or (folder / LOT_KEY_FILE).exists():
        raise BadBank(f"{folder} holds keys already")
    source = SystemEntropy()
    key, lot = Key(source.token()), SortitionKey(source.token())
    key.save(folder / MEMBER_KEY_FILE)
    lot.save(folder / LOT_KEY_FILE)
    facts = {"address": key.address, "folder": str(folder)}
    render.show_json(facts) if as_json else render.show_facts("Keys", list(facts.items()))


@learn_group.command("host")
@click.argument("folder", type=click.Path(path_type=Path))
@listen_option
@json_option
@handle_errors
def host_chain(folder: Path, listen: str, as_json: bool) -> None:
    """Run a chain of one's own in FOLDER, with both contracts, behind the interface of an Ethereum node.

    It is made if it is not there.

    Nobody pays for anything on it. Every block is sealed and on disk before its sender hears of it; starting again
    replays and checks all of them. Ends with Ctrl-C.

    Example:  noisebank learn host chain --listen 127.0.0.1:7545
    """
    from noisebank.core.entropy import SystemEntropy
    from noisebank.federated.blockfl.dev_chain import DATABASE_FILE, DevChain, create_dev_chain
    from noisebank.federated.blockfl.json_rpc import JsonRpcServer

    name, port = parse_endpoint(listen)
    chain = DevChain(folder) if (folder / DATABASE_FILE).is_file() else create_dev_chain(folder, SystemEntropy())
    with explain_busy_port(listen):
        door = JsonRpcServer(chain, name, port)
    facts = {"rpc": door.url, "chain_id": chain.state.genesis.chain_id, "blocks": len(chain.state.block_digests),
             **door.on_noisebank_contracts()}  # fmt: skip
    _print_facts(facts, as_json)
    _wait_for_signal()
    door.close()
    chain.close()


@learn_group.command("edge")
@listen_option
@click.option("--record", type=click.Path(path_type=Path), help="Append what devices send to this file, as JSON lines.")
@json_option
@handle_errors
def run_edge(listen: str, record: Path | None, as_json: bool) -> None:
    """Run an edge worker: it trains the classifying layers and sees noisy features and labels only. Ends with Ctrl-C.

    Example:  noisebank learn edge --listen 127.0.0.1:7600
    """
    from noisebank.federated.blockfl.edge import EdgeWorker

    access = threading.Lock()

    def record_message(kind: str, body: bytes) -> None:
        if record is not None:
            with access, record.open("a") as file:
                file.write(json.dumps({"kind": kind, "bytes": body.hex()}) + "\n")

    endpoint = parse_endpoint(listen)
    with explain_busy_port(listen):
        worker = EdgeWorker(*endpoint, record_message)
    serving = threading.Thread(target=worker.serve_devices, daemon=True)
    serving.start()
    _print_facts({"edge": worker.endpoint}, as_json)
    _wait_for_signal()
    worker.close()


def _print_facts(facts: dict[str, object], as_json: bool) -> None:
    """Prints one line without buffering: others wait for it."""
    click.echo(json.dumps(facts) if as_json else "  ".join(f"{name} {value}" for name, value in facts.items()))


def _wait_for_signal() -> None:
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    stop.wait()
