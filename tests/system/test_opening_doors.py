"""What a table may give away when it is opened, through every public door: the command line, Python, HTTP, the SDK.

A file without a header is not read as if its first person were names of columns, and neighbours of a policy look the
same from outside, whatever the number of rows of one person.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO

import httpx
import pytest
from click.testing import CliRunner, Result

import noisebank
from noisebank import create_bank, open_bank
from noisebank.cli.main import main
from support.drafts import fill_draft
from support.internals import BadPolicy, BadTable, Confirmed, RequestLog, Settings, make_app
from support.service import running

PEOPLE = [
    ("39.0625", "Quintessa", "north"),
    ("41.0625", "Ptolemy", "south"),
    ("28.0625", "Zenobia", "north"),
    ("50.0625", "Xerxes", "east"),
]
SECRETS = [cell for row in PEOPLE for cell in row if cell not in ("north", "south", "east")]
NAMES = ("age", "called", "town")
POLICY = """\
name = "people"
source = "people.csv"
{names}neighbours = "replace-one"
rows = {rows}
[budget]
epsilon = 4
delta = 1e-6
[columns.{age}]
type = "integer"
bounds = [0, 120]
[columns.{town}]
type = "text"
keys = [{keys}]
"""
KEYS = '"north", "south", "east"'


def write_table(folder: Path, header: tuple[str, ...] | None, rows: list[tuple[str, ...]] = PEOPLE) -> Path:
    lines = [",".join(row) for row in ([header, *rows] if header else rows)]
    (folder / "people.csv").write_text("\n".join(lines) + "\n")
    return folder / "people.csv"


def write_policy(folder: Path, rows: int, names: bool, age: str = "age", town: str = "town", keys: str = KEYS) -> Path:
    path = folder / "people.toml"
    given = f"column_names = {json.dumps(list(NAMES))}\n" if names else ""
    path.write_text(POLICY.format(names=given, rows=rows, age=age, town=town, keys=keys))
    return path


def run(folder: Path, *words: str) -> Result:
    return CliRunner().invoke(main, [*words], env={"NOISEBANK_BANK": str(folder / "bank"), "COLUMNS": "200"})


def opened(folder: Path, policy: Path, *words: str) -> Result:
    if not (folder / "bank").exists():
        create_bank(folder / "bank")
    return run(folder, "open", str(policy), *words)


@contextmanager
def served(folder: Path, log: TextIO | None = None) -> Iterator[tuple[str, str]]:
    """The bank over HTTP: its address, and the owner's key."""
    with open_bank(folder / "bank") as bank:
        app = make_app(bank, Settings(bank=bank.folder, origin="http://testserver"), RequestLog(log or io.StringIO()))
        with running(app) as address:
            yield address, app.state.access.make_key("owner")[0]


def says_nothing(result: Result) -> None:
    """Refused, nothing of a row said, and nothing on the ledger."""
    assert result.exit_code == 2, result.output
    said = result.output + result.stderr
    assert not [cell for cell in SECRETS if cell in said]


def accounts(folder: Path) -> list[Any]:
    found: list[Any] = json.loads(run(folder, "verify", str(folder / "bank"), "--json").stdout)["accounts"]
    return found


# -- a file without a header -----------------------------------------------------------------------


def test_a_draft_stops_at_a_first_row(tmp_path: Path) -> None:
    table = write_table(tmp_path, None)
    for words in ((), ("--json",), ("--out", str(tmp_path / "draft.toml"))):
        says_nothing(run(tmp_path, "policy", "draft", str(table), *words))
    assert not (tmp_path / "draft.toml").exists()
    told = run(tmp_path, "policy", "draft", str(table), "--header", "yes")
    assert told.exit_code == 0 and "[columns.Quintessa]" in told.stdout


def test_opening_stops_at_a_first_row_and_nothing_is_public(tmp_path: Path) -> None:
    """The policy is as the draft of such a file used to be: the first person's cells are its names."""
    write_table(tmp_path, None)
    policy = write_policy(tmp_path, 3, names=False, age='"39.0625"')
    assert run(tmp_path, "policy", "check", str(policy)).exit_code == 2
    says_nothing(opened(tmp_path, policy))
    assert accounts(tmp_path) == []
    with open_bank(tmp_path / "bank") as bank:
        with pytest.raises(BadTable) as caught:
            bank.open_account(policy)
        assert not [cell for cell in SECRETS if cell in str(caught.value)]
    with served(tmp_path) as (address, _):
        assert httpx.get(f"{address}/v1/datasets").json() == {"datasets": []}
        assert not [cell for cell in SECRETS if cell in httpx.get(f"{address}/v1/ledger/journal").text]


def test_columns_that_are_not_there_are_not_guessed_from_the_first_row(tmp_path: Path) -> None:
    """The message used to list the names of the columns: the first person's cells."""
    (tmp_path / "people.csv").write_text("Quintessa,Ptolemy\nZenobia,Xerxes\n")
    policy = write_policy(tmp_path, 1, names=False)
    says_nothing(opened(tmp_path, policy, "--header", "yes"))


@pytest.mark.parametrize("header", [("age", "called", "north"), ("age", "", "town"), ("age", "AGE", "town"),
                                    ("age", "called", "2020-01-31"), ("age", "called", "12 May 2020"),
                                    ("age", "called", "nan"), ("age", "called", " 1,5 ")])  # fmt: skip
def test_headers_that_look_like_rows(tmp_path: Path, header: tuple[str, ...]) -> None:
    table = write_table(tmp_path, tuple(f'"{name}"' for name in header))
    refused = run(tmp_path, "policy", "draft", str(table))
    says_nothing(refused)
    place = next(place for place, name in enumerate(header, 1) if name not in NAMES)
    assert f"{place}" in refused.stderr.partition("column ")[2].partition(")")[0]


@pytest.mark.parametrize("separator", [";", "|", "\t"])
def test_a_line_that_commas_do_not_separate_is_no_name(tmp_path: Path, separator: str) -> None:
    """All of the first person would be the name of the only column."""
    (tmp_path / "people.csv").write_text("".join(separator.join(row) + "\n" for row in PEOPLE))
    says_nothing(run(tmp_path, "policy", "draft", str(tmp_path / "people.csv")))


def test_headers_that_are_names(tmp_path: Path) -> None:
    for header in (NAMES, ("t1", "x_2020", "May"), ("Größe", "a.b", "north "), ("%", "n°", "naïve")):
        rows = [row for row in PEOPLE if row[2] != "north"]
        assert run(tmp_path, "policy", "draft", str(write_table(tmp_path, header, rows))).exit_code == 0, header


def test_a_parquet_file_with_somebody_in_its_names(tmp_path: Path) -> None:
    """As who reads a file without a header and writes it again has it."""
    import duckdb

    path = tmp_path / "people.parquet"
    for names, fits in (("39 AS age, 'x' AS town", True), ("39 AS \"41\", 'x' AS town", False),
                        ("39 AS age, 'x' AS x", False)):  # fmt: skip
        with duckdb.connect() as connection:
            connection.execute(f"COPY (SELECT {names}) TO '{path}' (FORMAT parquet)")
        assert (run(tmp_path, "policy", "draft", str(path)).exit_code == 0) == fits


def test_given_names_make_the_first_line_a_row(tmp_path: Path) -> None:
    table = write_table(tmp_path, None)
    draft = run(tmp_path, "policy", "draft", str(table), "--column-names", ",".join(NAMES))
    assert draft.exit_code == 0 and 'column_names = ["age", "called", "town"]' in draft.stdout
    assert not [cell for cell in SECRETS if cell in draft.stdout]
    policy = write_policy(tmp_path, len(PEOPLE), names=True)
    assert run(tmp_path, "policy", "check", str(policy)).exit_code == 0
    made = opened(tmp_path, policy, "--json")
    assert made.exit_code == 0 and json.loads(made.stdout)["rows"] == len(PEOPLE)
    with served(tmp_path) as (address, key):
        seen = httpx.get(f"{address}/v1/datasets").text + httpx.get(f"{address}/v1/ledger/journal").text
        assert not [cell for cell in SECRETS if cell in seen]
        with noisebank.connect(address, key) as client:
            (facts,) = client.datasets()
            assert set(facts.policy["columns"]) == {"age", "town"}
    with open_bank(tmp_path / "bank") as bank:
        account = bank.account("people")
        query = account.parse("SELECT COUNT(*) FROM people WHERE age = 39").query
        assert account.engine.statistic(query) == 1  # the first line counts, also after a restart


def test_a_header_is_no_row_either(tmp_path: Path) -> None:
    """Names for a file that has them already: its header would count as a person."""
    write_table(tmp_path, NAMES)
    refused = opened(tmp_path, write_policy(tmp_path, 5, names=True))
    assert refused.exit_code == 2 and "has a header" in refused.stderr


def test_other_names_are_another_table(tmp_path: Path) -> None:
    """Answers about one reading of the columns are not reused for another."""
    write_table(tmp_path, None, [("1", "7", "north"), ("2", "8", "south")])
    policy = write_policy(tmp_path, 2, names=True)
    assert opened(tmp_path, policy).exit_code == 0
    again = opened(tmp_path, policy, "--next", "people", "--same", "--json")
    assert json.loads(again.stdout)["version"] == 1
    policy.write_text(policy.read_text().replace('"age", "called"', '"called", "age"'))
    assert opened(tmp_path, policy, "--next", "people", "--same").exit_code == 2
    other = opened(tmp_path, policy, "--next", "people", "--json")
    assert json.loads(other.stdout)["version"] == 2
    assert opened(tmp_path, policy, "--same").exit_code == 2


def test_a_table_that_cannot_be_read_does_not_say_where_it_lies(tmp_path: Path) -> None:
    """Who asks over HTTP learns that it cannot be read; the operator finds the reason in the log."""
    table = write_table(tmp_path, NAMES)
    assert opened(tmp_path, write_policy(tmp_path, 4, names=False)).exit_code == 0
    table.rename(tmp_path / "elsewhere.csv")
    log = io.StringIO()
    with served(tmp_path, log) as (address, key):
        headers = {"authorization": f"Bearer {key}", "idempotency-key": "k"}
        asked = {"sql": "SELECT COUNT(*) FROM people WHERE age > 30", "epsilon": "0.5", "delta": "1e-6"}
        refused = httpx.post(f"{address}/v1/datasets/people/answers", json=asked, headers=headers)
    assert refused.status_code == 503 and "people.csv" not in refused.text and str(tmp_path) not in refused.text
    assert str(table) in log.getvalue()


@pytest.mark.parametrize(
    "names",
    ['["age", "town"]', '["age", "called", "Age"]', '["age", "", "town"]', "[]", '"age"', '["old", "called", "town"]'],
)
def test_names_that_do_not_fit(tmp_path: Path, names: str) -> None:
    write_table(tmp_path, None)
    policy = write_policy(tmp_path, 4, names=True)
    policy.write_text(policy.read_text().replace(json.dumps(list(NAMES)), names))
    says_nothing(opened(tmp_path, policy))


# -- what is probably not meant --------------------------------------------------------------------


def test_a_draft_that_nobody_has_filled_in_does_not_open(tmp_path: Path) -> None:
    table = write_table(tmp_path, NAMES)
    draft = tmp_path / "draft.toml"
    assert run(tmp_path, "policy", "draft", str(table), "--out", str(draft)).exit_code == 0
    assert run(tmp_path, "policy", "check", str(draft)).exit_code == 2
    refused = opened(tmp_path, draft)
    assert refused.exit_code == 2 and "FILL IN" in refused.stderr and accounts(tmp_path) == []
    with open_bank(tmp_path / "bank") as bank, pytest.raises(BadPolicy, match="FILL IN"):
        bank.open_account(draft)
    assert opened(tmp_path, draft, "--yes").exit_code == 2  # there is nothing that could be meant
    draft.write_text(fill_draft(draft.read_text(), keys='["north", "south"]'))
    assert opened(tmp_path, draft, "--yes").exit_code == 0


@pytest.mark.parametrize(("keys", "fits"), [(KEYS, True), ('"north"', True), ('"south"', False), ('"nobody"', False)])
def test_keys_that_most_values_are_none_of_do_not_open(tmp_path: Path, keys: str, fits: bool) -> None:
    """Of four values two are north. What is found is said to who opens the table, and nothing of it is kept."""
    write_table(tmp_path, NAMES)
    policy = write_policy(tmp_path, 4, names=False, keys=keys)
    done = opened(tmp_path, policy)
    assert (done.exit_code == 0) == fits
    if not fits:
        assert "more than half" in done.stderr and accounts(tmp_path) == []
        with open_bank(tmp_path / "bank") as bank:
            assert bank.open_account(policy, Confirmed(policy=True)).name == "people"
            kept = bank.parts.vault.find_opening(bank.account("people").state.data_commitment)
            assert kept is not None and set(kept) == KEPT


KEPT = {"policy", "source", "header", "identity", "secret", "data_salt", "opened_by"}
"""What the vault keeps of an opening: nothing of what the owner was told about the table."""


# -- people with several rows, one replaced by another ---------------------------------------------

VISITS = [("ann", "30", "north"), ("ann", "31", "south"), ("bob", "40", "north"), ("cleo", "50", "south")]
OTHERS = [("dora", "20", "north")] + [row for row in VISITS if row[0] != "ann"]
BY_PERSON = """\
name = "people"
source = "people.csv"
neighbours = "replace-one"
{size}
unit = "who"
max_rows = 2
[budget]
epsilon = 4
delta = 1e-6
[columns.who]
type = "text"
[columns.age]
type = "integer"
bounds = [0, 120]
[columns.town]
type = "text"
keys = ["north", "south"]
"""


def by_person(folder: Path, rows: list[tuple[str, ...]], size: str) -> Path:
    folder.mkdir()
    write_table(folder, ("who", "age", "town"), rows)
    (folder / "people.toml").write_text(BY_PERSON.format(size=size))
    return folder / "people.toml"


def test_neighbours_with_other_numbers_of_rows_look_the_same(tmp_path: Path) -> None:
    """An exact number of rows was asked for, checked at opening and shown to everybody."""
    seen = []
    for name, rows in (("one", VISITS), ("other", OTHERS)):
        folder = tmp_path / name
        done = opened(folder, by_person(folder, rows, "row_cap = 100"))
        assert done.exit_code == 0, done.stderr
        with served(folder) as (address, key):
            (facts,) = httpx.get(f"{address}/v1/datasets").json()["datasets"]
            page = httpx.get(f"{address}/d/people").text
            with noisebank.connect(address, key) as client:
                account = client.account("people")
                answer = account.ask("SELECT AVG(age) FROM people", epsilon="0.5", delta="1e-6")
                assert len(answer.parts) == 2  # sum and count: no public number of rows divides the sum
                facts["costs"] = [str(part.cost) for part in answer.parts], answer.cost == account.balance().spent
        facts.pop("account")
        seen.append((facts, page.count(str(len(rows)) + " rows")))
    assert seen[0] == seen[1]


def test_an_exact_number_of_rows_is_refused_with_what_to_write(tmp_path: Path) -> None:
    refused = opened(tmp_path / "one", by_person(tmp_path / "one", VISITS, "rows = 4"))
    assert refused.exit_code == 2 and "write row_cap" in refused.stderr
    over = opened(tmp_path / "two", by_person(tmp_path / "two", VISITS, "row_cap = 3"))
    assert over.exit_code == 2
