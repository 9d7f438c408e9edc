"""Attacks on devices that once worked, each through the door that the product offers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from noisebank import NoisebankError, create_bank, open_bank
from noisebank.cli.main import main
from support.banks import memory_rooms
from support.internals import (
    BankParts,
    Category,
    Design,
    Device,
    LearningAccount,
    LocalAccount,
    Number,
    Schema,
    Task,
    TrainingOrder,
    enrol,
    list_tasks,
    workload_rng,
)

TOWNS = tuple(f"town {place}" for place in range(64))
DEVICES = 50


def halve(answers: Any, values: tuple[str, ...]) -> str:
    """Binary search by "does it report or refuse?", with a list of one half of the values and one that nobody has."""
    while len(values) > 1:
        half, rest = values[: len(values) // 2], values[len(values) // 2 :]
        values = half if answers(half) else rest
    return values[0]


def test_a_collector_cannot_search_for_a_category_by_refusals_to_report() -> None:
    rooms, chance, right, uncharged = memory_rooms(), workload_rng(11), 0, 0
    for number in range(DEVICES):
        town = chance.choice(TOWNS)
        account = enrol(rooms, f"phone {number}", 1)

        def reports(half: tuple[str, ...], account: LocalAccount = account, town: str = town) -> bool:
            schema = Schema((Category("town", (*half, "nowhere")),))
            try:
                account.make_report(f"round {len(half)}", {"town": town}, schema, "0.001")
            except NoisebankError:
                return False
            return True

        right += halve(reports, TOWNS) == town
        uncharged += account.state.spent.units < 6 * 10**15
    assert not uncharged, f"{right} of {DEVICES} read, {uncharged} of them not charged for every round"
    assert right <= 8, f"{right} of {DEVICES} read; 1 in 64 by guessing"


def test_a_server_cannot_search_for_a_category_by_refusals_to_take_part() -> None:
    rooms, chance, right = memory_rooms(), workload_rng(12), 0
    for number in range(DEVICES):
        town = chance.choice(TOWNS)
        device = Device(rooms, enrol(rooms, f"phone {number}", 1), [{"town": town, "buys": "yes"}], 1)

        def takes_part(half: tuple[str, ...], device: Device = device) -> bool:
            schema = Schema((Category("town", (*half, "nowhere")), Category("buys", ("no", "yes"))))
            task = Task(f"half {len(half)}", Design(schema, "buys"), epsilon="0.001", group=1, devices=1)
            try:
                device.take_part(TrainingOrder(task, 0, np.zeros(task.dimension)))
            except NoisebankError:
                return False
            return True

        right += halve(takes_part, TOWNS) == town
    assert right <= 8, f"{right} of {DEVICES} read; 1 in 64 by guessing"


def overflowing(record: dict[str, object], weights: np.ndarray, rooms: BankParts, name: str) -> tuple[bool, int]:
    """Whether a device answers the order, and what it was charged."""
    schema = Schema((Number("age", 0, 100), Category("hiv", ("no", "yes")), Number("income", 0, 1000)))
    account = enrol(rooms, name, 1)
    device = Device(rooms, account, [record], 1)
    task = Task("w", Design(schema, "income"), "linear", group=1, devices=1)
    with np.errstate(all="ignore"):
        try:
            device.take_part(TrainingOrder(task, 0, weights))
        except NoisebankError:
            return False, account.state.spent.units
    return True, account.state.spent.units


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("weights", [(0.0, -1.7e308, 1.7e308), (0.0, 1.7e308, 1.7e308), (1e308, 1.7e308, 1.7e308)])
def test_a_server_cannot_read_records_through_overflow(weights: tuple[float, ...]) -> None:
    """Infinity times 0 is NaN: the first weights once made exactly those of age 50 with hiv = yes refuse, uncharged."""
    rooms, seen = memory_rooms(), {}
    for place, (age, hiv) in enumerate((age, hiv) for age in (0, 50, 100) for hiv in ("no", "yes")):
        record = {"age": age, "hiv": hiv, "income": 300}
        seen[age, hiv] = overflowing(record, np.array(weights), rooms, f"{place}")
    assert len(set(seen.values())) == 1, seen
    assert set(seen.values()) == {(False, 0)}, "refused by the weights' norm"


def sgd_files(folder: Path) -> list[str]:
    (folder / "schema.toml").write_text(
        '[attributes.age]\nlow = 0\nhigh = 1000\n[attributes.buys]\nvalues = ["no", "yes"]\n'
    )
    return [f"{age},{'yes' if age % 2 else 'no'}" for age in range(1000)]


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_a_task_does_not_go_on_over_a_reordered_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suffix: str
) -> None:
    """Half of the people report, the table is turned round, the task goes on: a quarter would report twice."""
    monkeypatch.chdir(tmp_path)
    lines, reported = sgd_files(tmp_path), []
    create_bank(tmp_path / "bank")
    group_mean = LearningAccount.group_mean

    def noting(self: LearningAccount, start: int, stop: int, draw: Any) -> Any:
        if len(reported) == 5:
            reported.append(-1)
            raise KeyboardInterrupt
        mean = group_mean(self, start, stop, draw)
        reported.append(start)
        return mean

    def run(rows: list[str]) -> Any:
        Path("people.csv").write_text("\n".join(["age,buys", *rows]) + "\n")
        if suffix == "parquet":
            import duckdb

            duckdb.sql("COPY (FROM read_csv('people.csv', all_varchar = true)) TO 'people.parquet'")
        options = ["--target", "buys", "--task", "t", "-e", "1", "--group", "100", "--bank", "bank", "--json"]
        return CliRunner().invoke(main, ["learn", "sgd", f"people.{suffix}", "--schema", "schema.toml", *options])

    with monkeypatch.context() as patched:
        patched.setattr(LearningAccount, "group_mean", noting)
        run(lines)
    done = run(lines[::-1])
    assert done.exit_code == 1 and json.loads(done.stdout)["error"] == "TableChanged", done.output
    with open_bank(tmp_path / "bank") as bank:
        (account,) = list_tasks(bank.parts)
        assert len(account.charged_ranges()) == 5
    done = run(lines)
    assert done.exit_code == 0 and json.loads(done.stdout)["devices"] == 1000


RECORDS = {
    "fits": b'{"age": 41, "answer": "yes"}',
    "401 digits": b'{"age": ' + b"9" * 401 + b', "answer": "yes"}',
    "5000 digits": b'{"age": -' + b"9" * 5000 + b', "answer": "yes"}',
    "1e400": b'{"age": 1e400, "answer": "yes"}',
    "huge exponent": b'{"age": 1e1000000000, "answer": "yes"}',
    "NaN": b'{"age": NaN, "answer": "yes"}',
    "Infinity": b'{"age": -Infinity, "answer": "yes"}',
    "bool": b'{"age": true, "answer": false}',
    "null": b'{"age": null, "answer": null}',
    "text": b'{"age": "41", "answer": "yes"}',
    "unlisted": b'{"age": 41, "answer": "maybe"}',
    "missing": b"{}",
    "half a surrogate": b'{"age": 41, "answer": "\\ud800"}',
    "NUL": b'{"age": 41, "answer": "yes\\u0000"}',
    "lists": b'{"age": [41], "answer": ["yes"]}',
    "no object": b"[41]",
    "deeply nested": b"[" * 100_000,
    "deep object": b'{"age":' * 100_000,
    "not UTF-8": b'{"age": 41, "answer": "\xff"}',
    "no JSON": b"age = 41",
    "empty": b"",
    "large": b'{"age": 41, "answer": "yes"}' + b" " * (1 << 21),
}


def test_local_report_ends_alike_for_every_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All that a collector could see of the command: exit code, what was charged, and messages."""
    monkeypatch.chdir(tmp_path)
    create_bank(tmp_path / "bank")
    Path("schema.toml").write_text(
        '[attributes.age]\nlow = 0\nhigh = 100\n[attributes.answer]\nvalues = ["yes", "no"]\n'
    )
    CliRunner().invoke(main, ["local", "enrol", "phone", "--epsilon", "100"])
    seen = {}
    for place, (name, raw) in enumerate(RECORDS.items()):
        Path("record.json").write_bytes(raw)
        options = ["--schema", "schema.toml", "--round", str(place), "-e", "1", "--json"]
        done = CliRunner().invoke(main, ["local", "report", "phone", "record.json", *options])
        crashed = done.exception is not None and not isinstance(done.exception, SystemExit)
        spent = json.loads(done.stdout or "{}").get("spent")
        seen[name] = (done.exit_code, crashed, done.stderr, spent == str(place + 1))
    assert set(seen.values()) == {(0, False, "", True)}, {name: one for name, one in seen.items() if one[0] or one[2]}


def test_local_check_tells_the_owner_and_charges_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("schema.toml").write_text(
        '[attributes.age]\nlow = 0\nhigh = 100\n[attributes.answer]\nvalues = ["yes", "no"]\n'
    )

    def check(raw: bytes) -> tuple[int, Any]:
        Path("record.json").write_bytes(raw)
        done = CliRunner().invoke(main, ["local", "check", "record.json", "--schema", "schema.toml", "--json"])
        return done.exit_code, json.loads(done.stdout).get("replaced")

    assert check(RECORDS["fits"]) == check(RECORDS["401 digits"]) == (0, [])
    assert check(RECORDS["text"]) == (0, ["age"]) and check(RECORDS["unlisted"]) == (0, ["answer"])
    assert check(RECORDS["missing"]) == (0, ["age", "answer"])
    assert check(RECORDS["no object"])[0] == check(RECORDS["deeply nested"])[0] == check(RECORDS["large"])[0] == 2
    Path("record.json").unlink()
    done = CliRunner().invoke(main, ["local", "check", "record.json", "--schema", "schema.toml"])
    assert done.exit_code == 2 and "no file" in done.stderr
