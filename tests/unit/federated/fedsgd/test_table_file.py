"""Tables in which each row is a device: columns by the schema, and no row more than the file has. 0.5 seconds."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import polars
import pytest

from noisebank.core.errors import BadTable
from noisebank.federated.fedsgd.design import Design
from noisebank.federated.fedsgd.table_file import file_digest, read_columns
from noisebank.federated.ldp import Category, Number, Schema

DESIGN = Design(Schema((Number("age", 0, 100), Category("home town", ("east", 'we"st')))), "age")


def write(folder: Path, text: str, name: str = "table.csv") -> Path:
    (folder / name).write_bytes(text.encode())
    return folder / name


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_columns_are_read_by_name_in_either_line_end(tmp_path: Path, end: str) -> None:
    lines = ["id,home town,age", "1,east,30", '2,"we""st",40.5', "3, east,-1"]
    columns = read_columns(write(tmp_path, end.join(lines) + end), DESIGN)
    assert list(columns) == ["age", "home town"] and columns["age"].dtype == np.float64
    assert columns["age"].tolist() == [30.0, 40.5, -1.0] and columns["home town"].tolist() == ["east", 'we"st', " east"]


def test_parquet_is_read_like_csv(tmp_path: Path) -> None:
    polars.DataFrame({"home town": ["east", "mars"], "age": [30, 41], "more": [1, 2]}).write_parquet(
        tmp_path / "t.parquet"
    )
    columns = read_columns(tmp_path / "t.parquet", DESIGN)
    assert columns["age"].tolist() == [30.0, 41.0] and columns["home town"].tolist() == ["east", "mars"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("age\n30\n", "a column is missing; the schema has age, home town"),
        ("age,home town\nsecret,east\n", "a column cannot be read as the schema says"),
        ("age,home town\n30,\n", "column home town has missing values"),
        ("age,home town\n,east\n", "column age has missing values"),
        ("age,home town\n30,a\r40,b\n", "a carriage return outside of quotes"),
        ('age,home town\n30,"a\n', "never closed"),
    ],
)
def test_what_cannot_be_read_is_said_without_a_value(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(BadTable, match=message) as refused:
        read_columns(write(tmp_path, text), DESIGN)
    assert "secret" not in str(refused.value) and "30" not in str(refused.value)


def test_a_quoted_line_end_is_no_row(tmp_path: Path) -> None:
    columns = read_columns(write(tmp_path, 'age,home town\n30,"a\nb"\n40,c\n'), DESIGN)
    assert columns["age"].tolist() == [30.0, 40.0] and columns["home town"].tolist() == ["a\nb", "c"]


@pytest.mark.parametrize("name", ["table.txt", "table", "missing.csv", "folder.csv"])
def test_other_files_are_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / "folder.csv").mkdir()
    if name.startswith("table"):
        write(tmp_path, "age,home town\n1,a\n", name)
    with pytest.raises(BadTable, match=r"is no \.csv or \.parquet file"):
        read_columns(tmp_path / name, DESIGN)


def test_the_digest_is_that_of_the_bytes(tmp_path: Path) -> None:
    path = write(tmp_path, "a\n1\n")
    assert file_digest(path) == hashlib.sha256(b"a\n1\n").digest()
    with pytest.raises(BadTable, match="cannot be read"):
        file_digest(tmp_path / "missing")
