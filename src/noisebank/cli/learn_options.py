"""Options that the commands of crowdsourced learning share, and functions that open what they name."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from noisebank.core.errors import BadRequest

if TYPE_CHECKING:
    from noisebank.federated.blockfl.registry import ModelRegistry
    from noisebank.federated.blockfl.sortition import SortitionKey
    from noisebank.federated.blockfl.store import FolderStore
    from noisebank.ledger.signing import Key

MEMBER_KEY_FILE, LOT_KEY_FILE = "member.key", "lot.key"
rpc_option = click.option(
    "--rpc", metavar="URL", required=True, envvar="NOISEBANK_RPC",
    help="A node of the chain, or `noisebank learn host`; to read, also its folder.",
)  # fmt: skip
contract_option = click.option(
    "--contract", metavar="ADDRESS", help="The registry; not needed on a chain of one's own."
)
store_option = click.option(
    "--store", type=click.Path(path_type=Path), default=Path("models"), show_default=True,
    help="Folder of stored models, named by content identifier.",
)  # fmt: skip
keys_option = click.option(
    "--keys", type=click.Path(path_type=Path), required=True, help="Folder with member.key and lot.key."
)
listen_option = click.option(
    "--listen", metavar="HOST:PORT", default="127.0.0.1:0", show_default=True, help="Where to listen; port 0 picks one."
)


def open_registry(rpc: str, contract: str | None) -> ModelRegistry:
    """Opens the registry on a chain: behind a node's address, or in the folder of a chain of one's own, to read it."""
    from noisebank.federated.blockfl.registry import ModelRegistry

    if "://" in rpc or not Path(rpc).is_dir():
        return ModelRegistry(rpc, contract)
    from noisebank.federated.blockfl.chain_reader import FolderNode

    return ModelRegistry(FolderNode(Path(rpc)), contract)


def open_store(folder: Path) -> FolderStore:
    """Opens the folder of models."""
    from noisebank.federated.blockfl.store import FolderStore

    return FolderStore(folder)


def load_member_keys(folder: Path) -> tuple[Key, SortitionKey]:
    """Loads a member's two keys: for transactions, and for lots."""
    from noisebank.federated.blockfl.sortition import SortitionKey
    from noisebank.ledger.signing import Key

    return Key.load(folder / MEMBER_KEY_FILE), SortitionKey.load(folder / LOT_KEY_FILE)


def find_task(registry: ModelRegistry, text: str | None) -> bytes:
    """Returns the task with this id or beginning of an id; the only one if there is no text."""
    tasks = registry.list_tasks()
    matches = [task for task in tasks if text is None or task.hex().startswith(text.lower().removeprefix("0x"))]
    if len(matches) != 1:
        known = ", ".join(task.hex()[:12] for task in tasks) or "none"
        raise BadRequest("task", text or None, f"name one task; this registry has {known}")
    return matches[0]


def parse_endpoint(text: str) -> tuple[str, int]:
    """Parses HOST:PORT."""
    match = re.fullmatch(r"([A-Za-z0-9_.\-]+):([0-9]{1,5})", text)
    if not match or int(match[2]) > 65535:
        raise BadRequest("listen", text[:80], "looks like 127.0.0.1:7000")
    return match[1], int(match[2])


@contextmanager
def explain_busy_port(listen: str) -> Iterator[None]:
    """Turns a port that is taken, or may not be used, into an error with words."""
    try:
        yield
    except OSError as error:
        raise BadRequest("listen", listen, f"cannot be listened on ({error.strerror or error})") from None


def print_note(line: str) -> None:
    """Prints a line on standard error, without buffering."""
    click.echo(line, err=True)


def guarantee_to_json(terms: Any, rounds: int) -> dict[str, Any]:
    """Returns what a task promises a member, as a JSON object."""
    from noisebank.federated.blockfl.guarantee import describe_guarantee

    return describe_guarantee(terms, rounds).to_json()
