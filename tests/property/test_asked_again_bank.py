"""What is asked again at the same accuracy is REPEAT, free, and the same bits, whatever the cube has learned since."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from noisebank.account.account import Account
from noisebank.bank.bank import create_bank, open_bank
from noisebank.core.asks import Ask
from noisebank.core.errors import NoisebankError
from noisebank.core.records import Case
from noisebank.core.result import Result
from noisebank.ledger.protocol import Reservation
from noisebank.verifier.verification import verify

POLICY = """\
name = "t"
source = "t.csv"
neighbours = "{neighbours}"
{size}
cubes = [["v"], ["a", "b"]]
expect = {expect}
[budget]
epsilon = 30
delta = 1e-6
[columns.a]
type = "text"
keys = ["x", "y", "z"]
[columns.b]
type = "text"
keys = ["k", "l"]
complete = true
[columns.v]
type = "integer"
bounds = [0, 31]
bins = [{bins}]
"""
NUMBERS = ("COUNT(*)", "SUM(v)", "AVG(v)", "SUM(v) / COUNT(*)", "100 * COUNT(*) + 3", "STDDEV(v)", "MEDIAN(v)")
ACCURACIES = ({"epsilon": "0.1"}, {"epsilon": "0.4"}, {"epsilon": "2"}, {"within": "15"}, {"spend": "0.1%"})


def write_table(pick: random.Random, folder: Path, neighbours: str) -> Path:
    rows = [f"{pick.choice('xyzw')},{pick.choice('kl')},{pick.randrange(32)}" for _ in range(60)]
    (folder / "t.csv").write_text("\n".join(["a,b,v", *rows]) + "\n")
    size = "rows = 60" if neighbours == "replace-one" else "row_cap = 1000"
    expect = pick.choice(("[]", '["ranges"]', '["values"]', '["marginals", "ranges"]'))
    bins = ", ".join(map(str, range(1, 32)))
    path = folder / "t.toml"
    path.write_text(POLICY.format(neighbours=neighbours, size=size, expect=expect, bins=bins))
    return path


def draw_question(pick: random.Random) -> str:
    low, high = sorted((pick.randrange(32), pick.randrange(32)))
    where = pick.choice(
        (f"v BETWEEN {low} AND {high}", f"v <= {high}", "a = 'x'", "a IN ('x', 'z') AND b = 'k'", "b = 'l' OR a = 'y'")
    )
    groups = pick.choice(("", "", "", " GROUP BY a", " GROUP BY a, b", " GROUP BY v"))
    return f"SELECT {pick.choice(NUMBERS)} FROM t WHERE {where}{groups}"


def ask(account: Account, sql: str, accuracy: dict[str, str]) -> Result | None:
    options = {**accuracy, "delta": "1e-6"} if "epsilon" in accuracy else accuracy
    (outcome,) = account.ask_many([Ask(sql, options)])  # type: ignore[arg-type]
    if isinstance(outcome, NoisebankError):  # refused
        return None
    return outcome


def bits_of(result: Result) -> list[object]:
    return [
        (row.keys, [(each.exact, each.value, each.low, each.high) for each in row.estimates]) for row in result.rows
    ]


def latest(account: Account) -> Reservation:
    return account.ledger.list_reservations(account.id)[-1]


@pytest.mark.parametrize("neighbours", ["add-remove", "replace-one"])
@pytest.mark.parametrize("seed", range(3))
def test_what_is_asked_again_has_the_same_bits(tmp_path: Path, seed: int, neighbours: str) -> None:
    """Under new keys, while other questions improve the cube, over restarts: one number for one question. The ledger,
    which has no record of what was free, says INFER."""
    pick = random.Random(seed)
    policy, folder = write_table(pick, tmp_path, neighbours), create_bank(tmp_path / "bank")
    with open_bank(folder) as bank:
        bank.open_account(policy)
    asked: dict[tuple[str, str], tuple[dict[str, str], list[object]]] = {}
    inferred_again = 0
    for _ in range(3):
        with open_bank(folder) as bank:
            (account,) = bank.accounts()
            for _ in range(16):
                if asked and pick.random() < 0.5:
                    (sql, _), (accuracy, bits) = pick.choice(list(asked.items()))
                    quote, spent = account.quote(sql, **_options(accuracy)), account.state.spent
                    result = ask(account, sql, accuracy)
                    assert result is not None and bits_of(result) == bits, (sql, accuracy)
                    assert result.charge.case is quote.case is Case.REPEAT and account.state.spent == spent
                    inferred_again += latest(account).case is Case.INFER
                else:
                    sql, accuracy = draw_question(pick), pick.choice(ACCURACIES)
                    first = ask(account, sql, accuracy)
                    if first is not None:
                        asked.setdefault((sql, str(accuracy)), (accuracy, bits_of(first)))
            assert verify(list(bank.export())).passed
    assert inferred_again


def _options(accuracy: dict[str, str]) -> dict[str, str]:
    return {**accuracy, "delta": "1e-6"} if "epsilon" in accuracy else accuracy
