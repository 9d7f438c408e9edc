"""Spark's settings hold whatever its environment says: an early day of one person ends nobody's question."""

from __future__ import annotations

from pathlib import Path

import pytest

from noisebank.engines.spark_engine import SETTINGS, _make_session, _SparkTable
from noisebank.policy.model import EngineKind, Table

pytestmark = [pytest.mark.extras, pytest.mark.filterwarnings("ignore")]


def test_a_day_before_1582_is_read_as_it_stands(tmp_path: Path):
    import pyarrow as pa
    import pyarrow.parquet as pq
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.config("spark.ui.enabled", "false").config("spark.log.level", "OFF")
    context = builder.getOrCreate().sparkContext
    context._jsc.sc().conf().set(
        "spark.sql.parquet.datetimeRebaseModeInRead", "EXCEPTION"
    )  # as spark-defaults.conf can
    pq.write_table(pa.table({"day": pa.array([0, -700_000], pa.date32())}), tmp_path / "days.parquet")
    session = _make_session()
    context._jsc.sc().conf().remove("spark.sql.parquet.datetimeRebaseModeInRead")
    assert all(session.conf.get(name) == value for name, value in SETTINGS.items())
    found = _SparkTable(Table(EngineKind.SPARK, path=tmp_path / "days.parquet"), ())
    assert found.run_sql(f"SELECT count(CAST(day AS STRING)) FROM {found.view}") == [(2,)]
