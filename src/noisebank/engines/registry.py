"""Chooses the engine for a policy's source."""

from __future__ import annotations

from noisebank.engines.duckdb_engine import DuckDBEngine, DuckDBTableEngine, duckdb_header
from noisebank.engines.engine import Engine
from noisebank.engines.postgres_engine import PostgresEngine, postgres_header
from noisebank.engines.spark_engine import SparkEngine, spark_header
from noisebank.policy.model import EngineKind, Policy, Source, Table


def read_header(source: Source) -> tuple[str, ...]:
    """Returns the names of a table's columns: metadata, no rows."""
    if isinstance(source, Table) and source.engine is EngineKind.POSTGRESQL:
        return postgres_header(source)
    if isinstance(source, Table) and source.engine is EngineKind.SPARK:
        return spark_header(source)
    return duckdb_header(source)


def make_engine(policy: Policy, header: tuple[str, ...], row_key: str) -> Engine:
    """Returns the engine for a policy's table. Nothing is opened before the first statement."""
    source = policy.source
    if not isinstance(source, Table) or (source.engine is EngineKind.DUCKDB and not source.name_parts):
        return DuckDBEngine(policy, header, row_key)
    if source.engine is EngineKind.POSTGRESQL:
        return PostgresEngine(policy, header, row_key)
    if source.engine is EngineKind.SPARK:
        return SparkEngine(policy, header, row_key)
    return DuckDBTableEngine(policy, header, row_key)
