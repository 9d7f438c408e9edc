"""The same look twice, as precise as before: to know twice as much is to measure its rows again."""

from __future__ import annotations

from pathlib import Path

import pytest

from noisebank.account.account import Account
from noisebank.bank.opening import open_account
from noisebank.core.records import Case
from noisebank.policy.file import read_policy
from support.banks import memory_rooms

POLICY = """
name = "t"
source = "t.csv"
neighbours = "{neighbours}"
{rows}
cubes = [["a"]]
expect = ["values"]
[budget]
epsilon = 20
delta = 1e-6
[columns.a]
type = "integer"
bounds = [0, 5]
bins = [1, 2, 3, 4, 5]
[columns.v]
type = "integer"
bounds = [0, 50]
"""


def open_cube(folder: Path, neighbours: str) -> Account:
    rows = "rows = 40" if neighbours == "replace-one" else "row_cap = 1000"
    (folder / "t.csv").write_text("a,v\n" + "".join(f"{number % 6},{number}\n" for number in range(40)))
    (folder / "t.toml").write_text(POLICY.format(neighbours=neighbours, rows=rows))
    return open_account(memory_rooms(), read_policy(folder / "t.toml"))[0]


@pytest.mark.parametrize("neighbours", ["add-remove", "replace-one"])
def test_twice_the_precision_is_a_look_of_its_own(neighbours: str, tmp_path: Path) -> None:
    """It had the id of the first one, so the ledger refused it, and the question with it."""
    account = open_cube(tmp_path, neighbours)
    account.ask("SELECT COUNT(*), SUM(v) FROM t WHERE a = 3", spend="1%")  # half of it for each
    spent = account.state.spent
    answer = account.ask("SELECT COUNT(*) FROM t WHERE a = 0", spend="1%")
    assert account.state.spent > spent and answer.rows
    looks = [entry for entry in account.ledger.list_reservations(account.id) if entry.cube and entry.fresh_precision]
    assert len({entry.query for entry in looks}) == len(looks) >= 2
    assert all(entry.case is Case.FIRST for entry in looks)
    assert account.ask("SELECT COUNT(*) FROM t WHERE a = 0", spend="1%").charge.cost.units == 0
