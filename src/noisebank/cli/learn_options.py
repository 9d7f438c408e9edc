"""Options that the commands of crowdsourced learning share, and functions that open what they name."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from noisebank.core.errors import BadRequest

if TYPE_CHECKING:
    from noisebank.federated.blockfl.registry import Registry
    from noisebank.federated.blockfl.sortition import LotKey
    from noisebank.federated.blockfl.store import FolderStore
    from noisebank.ledger.signing import Key

MEMBER, LOT = "member.key", "lot.key"
to_chain = click.option(
    "--rpc", metavar="URL", required=True, envvar="NOISEBANK_RPC", help="A node of the chain, or the door of one's own."
)
at_contract = click.option("--contract", metavar="ADDRESS", help="The registry; not needed on a chain of one's own.")
in_store = click.option(
    "--store", type=click.Path(path_type=Path), default=Path("models"), show_default=True,
    help="Folder of stored models, named by content identifier.",
)  # fmt: skip
with_keys = click.option(
    "--keys", type=click.Path(path_type=Path), required=True, help="Folder with member.key and lot.key."
)
listen_at = click.option(
    "--listen", metavar="HOST:PORT", default="127.0.0.1:0", show_default=True, help="Where to listen; port 0 picks one."
)


def opened_registry(rpc: str, contract: str | None) -> Registry:
    """Opens the registry on a chain."""
    from noisebank.federated.blockfl.registry import Registry

    return Registry(rpc, contract)


def opened_store(folder: Path) -> FolderStore:
    """Opens the folder of models."""
    from noisebank.federated.blockfl.store import FolderStore

    return FolderStore(folder)


def member_keys(folder: Path) -> tuple[Key, LotKey]:
    """Loads a member's two keys: for transactions, and for lots."""
    from noisebank.federated.blockfl.sortition import LotKey
    from noisebank.ledger.signing import Key

    return Key.load(folder / MEMBER), LotKey.load(folder / LOT)


def task_id(registry: Registry, text: str | None) -> bytes:
    """Returns the task with this id or beginning of an id; the only one if there is no text."""
    tasks = registry.tasks()
    matches = [task for task in tasks if text is None or task.hex().startswith(text.lower().removeprefix("0x"))]
    if len(matches) != 1:
        known = ", ".join(task.hex()[:12] for task in tasks) or "none"
        raise BadRequest("task", text or "nothing", f"name one task; this registry has {known}")
    return matches[0]


def host_and_port(text: str) -> tuple[str, int]:
    """Parses HOST:PORT."""
    match = re.fullmatch(r"([A-Za-z0-9_.\-]+):([0-9]{1,5})", text)
    if not match or int(match[2]) > 65535:
        raise BadRequest("listen", text[:80], "looks like 127.0.0.1:7000")
    return match[1], int(match[2])


def note(line: str) -> None:
    """Prints a line on standard error, without buffering."""
    click.echo(line, err=True)


def plain_guarantee(terms: Any, rounds: int) -> dict[str, Any]:
    """Returns what a task promises a member, as a JSON object."""
    from noisebank.federated.blockfl.guarantee import promised

    return promised(terms, rounds).plain()
