"""Whole banks over tables of any engine: a policy file, an account in memory, real contract and real noise."""

from __future__ import annotations

import json
from pathlib import Path

from noisebank import Account, read_policy
from support.banks import memory_rooms
from support.internals import Confirmed, EngineKind, Entropy, Source, Table, open_account


def settings(source: Source) -> str:
    """How a policy file names a source."""
    if not isinstance(source, Table):
        return f"source = {json.dumps(str(source))}\n"
    if source.path is None:
        where = source.address or source.engine.value
        return f"source = {json.dumps(where)}\ntable = {json.dumps('.'.join(source.name_parts))}\n"
    if source.column_names:
        names = f"column_names = {json.dumps(list(source.column_names))}\nengine = {json.dumps(source.engine.value)}\n"
        return f"source = {json.dumps(str(source.path))}\n{names}"
    if source.engine is EngineKind.SPARK:
        return f'source = {json.dumps(str(source.path))}\nengine = "spark"\n'
    return f"source = {json.dumps(str(source.path))}\ntable = {json.dumps('.'.join(source.name_parts))}\n"


def account_over(source: Source, policy: str, folder: Path, entropy: Entropy | None = None) -> Account:
    """An account for a table; `policy` is the policy file without its first lines."""
    path = folder / f"policy{len(list(folder.glob('policy*')))}.toml"
    path.write_text(settings(source) + policy, encoding="utf-8")
    return open_account(memory_rooms(entropy), read_policy(path), confirmed=Confirmed(policy=True))[0]
