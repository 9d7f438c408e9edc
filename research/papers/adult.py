"""The Adult table as a bank's account: from NOISEBANK_DATA, or people made up in its shape."""

from __future__ import annotations

import csv
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from noisebank.account.account import Account
from noisebank.bank.bank import Bank, create_bank
from noisebank.core.entropy import workload_rng
from research.papers.seeded import SeededEntropy

PEOPLE = 32_561
LARGEST_GAIN, WITH_LARGEST = 99_999, 159
"""Of capital_gain in Adult, and how many people have it."""

POLICY = """\
name = "adult"
source = "adult.csv"
neighbours = "add-remove"
row_cap = 100000

[budget]
epsilon = 8
delta = 1e-6

[columns.age]
type = "integer"
bounds = [0, 100]
bins = {ages}

[columns.capital_gain]
type = "integer"
bounds = [0, 100000]
bins = {gains}
"""


def rows() -> tuple[list[tuple[int, int]], str]:
    """Age and capital gain of everybody, and where they come from."""
    folder = os.environ.get("NOISEBANK_DATA")
    path = Path(folder or ".") / "adult.data"
    if folder and path.exists():
        fields = [line.split(",") for line in path.read_text().splitlines()]
        return [(int(one[0]), int(one[10])) for one in fields if len(one) == 15], path.name
    random = workload_rng(4)
    made = []
    for person in range(PEOPLE):
        gain = (
            LARGEST_GAIN
            if person < WITH_LARGEST
            else int(random.lognormvariate(8.5, 0.8))
            if random.random() < 0.08
            else 0
        )
        made.append((min(90, max(17, int(random.gauss(38, 13)))), min(gain, LARGEST_GAIN)))
    return made, "made up in the shape of Adult: NOISEBANK_DATA has no adult.data"


@contextmanager
def adult_account(seed: int) -> Iterator[Account]:
    """In a bank that is gone afterwards; its noise can be repeated."""
    with TemporaryDirectory(prefix="noisebank-papers-") as room:
        folder = Path(room)
        with (folder / "adult.csv").open("w", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(["age", "capital_gain"])
            writer.writerows(rows()[0])
        ages, gains = list(range(1, 100)), list(range(1000, 100_000, 1000))
        (folder / "adult.toml").write_text(POLICY.format(ages=ages, gains=gains))
        create_bank(folder / "bank", entropy=SeededEntropy(seed))
        with Bank(folder / "bank", entropy=SeededEntropy(seed + 10_000)) as bank:
            yield bank.open_account(folder / "adult.toml")
