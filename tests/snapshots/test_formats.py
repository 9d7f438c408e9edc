"""Digests and files that others keep: schemas, tasks, terms of a crowd and of a relay, where a chain is."""

from __future__ import annotations

import hashlib
import json
from fractions import Fraction
from pathlib import Path

from snapshots.comparing import hold_json, hold_text
from snapshots.doors import (
    Category,
    ChainConfig,
    CrowdTerms,
    Design,
    NetworkShape,
    Number,
    RelayTerms,
    Schema,
    Task,
    format_cid,
    read_chain_config,
    read_crowd_terms,
    write_chain_config,
)  # fmt: skip

MIXED = Schema((Number("age", 0, 100), Number("unit"), Number("heat", -0.5, 41.25), Category("town", ("n", "s", "é"))))
DESIGN = Design(Schema((*MIXED.attributes, Category("buys", ("no", "yes")))), "buys")


def test_schema_fingerprints() -> None:
    schemas = {
        "number": Schema((Number("age", 0, 100),)),
        "default number": Schema((Number("age"),)),
        "category": Schema((Category("town", ("n", "s")),)),
        "mixed": MIXED,
    }
    hold_json(
        "formats/schemas.json", {name: [made.digest.hex(), made.fingerprint.hex()] for name, made in schemas.items()}
    )


def test_task_digests() -> None:
    tasks = [
        Task("offers", DESIGN, epsilon="1", group=5, devices=20),
        Task("offers", DESIGN, "hinge", "0.5", "laplace", 10, 5, 20, "0.5", "0.01", "3", "0.001"),
        Task("prices", Design(MIXED, "heat"), "linear"),
    ]
    for task in tasks:
        assert Task.from_json(json.loads(json.dumps(task.to_json()))) == task
    hold_json("formats/tasks.json", [[task.digest.hex(), task.to_json(), task.guarantee] for task in tasks])


def test_terms_of_a_crowd() -> None:
    shape = NetworkShape(8, (4, 4), (16,), 3)
    terms = [
        CrowdTerms("digits", shape),
        CrowdTerms("digits", shape, "fixed", "sound", "2.5", "1e-6", 16, 3, "0.1", "0", "1", "0x" + "11" * 20),
    ]
    for made in terms:
        assert read_crowd_terms(made.to_bytes()) == made
    hold_json(
        "formats/crowd-terms.json",
        [[format_cid(hashlib.sha256(made.to_bytes()).digest()), made.to_bytes().decode()] for made in terms],
    )


def test_terms_of_a_relay() -> None:
    terms = [
        RelayTerms(3),
        RelayTerms(
            8, Fraction(3, 2), "sar", slices=2, floor=Fraction(1, 3), skip=Fraction(1, 2), slice_norm=Fraction(2)
        ),
        RelayTerms(4, mode="bas", groups=2, least=Fraction(5), publish=True, attempts=3, patience_ms=500),
    ]
    for made in terms:
        assert RelayTerms.from_json(json.loads(json.dumps(made.to_json()))) == made
    hold_json("formats/relay-terms.json", [made.to_json() for made in terms])


def test_where_a_chain_is(tmp_path: Path) -> None:
    where = ChainConfig("http://127.0.0.1:8545", "0x" + "22" * 20, 31337, 7, 3)
    write_chain_config(tmp_path / "ledger.json", where)
    hold_text("formats/ledger.json", (tmp_path / "ledger.json").read_text())
    assert read_chain_config(tmp_path / "ledger.json") == where
    assert (tmp_path / "ledger.json").stat().st_mode & 0o777 == 0o600
