"""The engines that the suite runs over. A new engine is added to `KINDS` and to `Store`."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from conformance.server import Server, binaries, running_server
from conformance.stores import KINDS, Store

EXTRAS = {"spark", "spark csv", "spark table"}
ENGINES = ("parquet", "duckdb", "postgresql", "spark")


def spark_is_here() -> bool:
    return find_spec("pyspark") is not None and shutil.which("java") is not None


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    if binaries() is None:
        reason = "PostgreSQL is not installed"
        pytest.fail(reason) if os.environ.get("CI") == "true" else pytest.skip(reason)
    with running_server() as found:
        yield found


@pytest.fixture
def postgres(server: Server, monkeypatch: pytest.MonkeyPatch) -> Server:
    """The server, and the bank knows how to reach it."""
    monkeypatch.setenv("NOISEBANK_POSTGRES", server.where)
    return server


@pytest.fixture(scope="session")
def small_spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Spark as small as it gets, before an engine starts it with its defaults."""
    if not spark_is_here():
        reason = "pyspark or Java is missing"
        pytest.fail(reason) if os.environ.get("CI") == "true" else pytest.skip(reason)
    from pyspark.sql import SparkSession

    settings = {
        "spark.master": "local[1]",
        "spark.log.level": "OFF",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": "1",
        "spark.sql.warehouse.dir": str(tmp_path_factory.mktemp("warehouse")),
        "spark.driver.host": "127.0.0.1",
        # Statements run once: a compiler that optimises them further costs more than it saves.
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    }
    session = SparkSession.builder.config(map=settings).getOrCreate()
    yield
    session.stop()


def _marked(kinds: tuple[str, ...]) -> list[Any]:
    return [pytest.param(kind, marks=pytest.mark.extras) if kind in EXTRAS else kind for kind in kinds]


@pytest.fixture(params=_marked(KINDS), ids=lambda kind: kind.replace(" ", "-"))
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    """A place to put tables, one for each engine and kind of storage."""
    return _store(request, tmp_path)


@pytest.fixture(params=_marked(ENGINES))
def bank_store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    """The same, one or two for each engine: for whole banks, which take longer."""
    return _store(request, tmp_path)


def _store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    kind = request.param
    if kind in EXTRAS:
        request.getfixturevalue("small_spark")
    server = request.getfixturevalue("postgres") if kind == "postgresql" else None
    return Store(kind, tmp_path, server)
