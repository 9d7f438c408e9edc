"""Small real parts for tests: tables, policies, banks on disk and banks in memory."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from noisebank import Account, read_policy
from noisebank.ledger.protocol import Role
from support.internals import (
    BankParts,
    Confirmed,
    EmbeddedLedger,
    Entropy,
    Journal,
    Key,
    SqliteVault,
    SystemEntropy,
    create_chain,
    end_process,
    open_account,
)

CURATOR, OWNER = Key(b"\x01" * 32), Key(b"\x02" * 32)

PEOPLE = """\
name = "people"
source = "people.csv"
neighbours = "{neighbours}"
{rows}
[budget]
epsilon = {epsilon}
delta = {delta}
[columns.age]
type = "integer"
bounds = [0, 120]
[columns.income]
type = "integer"
bounds = [-100, 1000]
[columns.smoker]
type = "boolean"
[columns.town]
type = "text"
keys = ["north", "south"]
[columns.children]
type = "integer"
bounds = [0, 10]
nullable = true
"""


def write_people(
    folder: Path,
    rows: int = 20,
    epsilon: str = "4",
    delta: str = "1e-6",
    neighbours: str = "replace-one",
    lines: list[str] | None = None,
) -> Path:
    """A little table and its policy; returns the policy's path."""
    folder.mkdir(parents=True, exist_ok=True)
    if lines is None:
        lines = [_person(number) for number in range(rows)]
    (folder / "people.csv").write_text("\n".join(["age,income,smoker,town,children", *lines]) + "\n")
    size = f"rows = {len(lines)}" if neighbours == "replace-one" else "row_cap = 1000"
    policy = folder / "people.toml"
    policy.write_text(PEOPLE.format(neighbours=neighbours, rows=size, epsilon=epsilon, delta=delta))
    return policy


def _person(i: int) -> str:
    children = i % 4 if i % 5 else ""
    return f"{20 + i % 60},{i * 37 % 900},{'true' if i % 3 else 'false'},{'north' if i % 2 else 'south'},{children}"


def memory_rooms(
    entropy: Entropy | None = None,
    clock: Callable[[], float] = lambda: 1_000.0,
    die: Callable[[str], None] = end_process,
) -> BankParts:
    """Real contract, real signatures, real SQL; only the disk is missing."""
    entropy = entropy or SystemEntropy()
    journal = Journal(":memory:")
    create_chain(journal, CURATOR, entropy, clock)
    chain = EmbeddedLedger(journal, {Role.CURATOR: CURATOR, Role.OWNER: OWNER}, clock, die)
    return BankParts(chain, SqliteVault(":memory:", on_failure=die), entropy)


def memory_account(policy: Path, entropy: Entropy | None = None) -> Account:
    """An account in a bank without a disk. Its table may be an odd one: most values none of the keys, say."""
    return open_account(memory_rooms(entropy), read_policy(policy), confirmed=Confirmed(policy=True))[0]
